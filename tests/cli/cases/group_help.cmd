allocsim trace --help
allocsim help db
allocsim nosuch --help
