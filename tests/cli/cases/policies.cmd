allocsim policies
