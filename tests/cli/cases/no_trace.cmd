allocsim run
