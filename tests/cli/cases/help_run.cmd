allocsim help run
