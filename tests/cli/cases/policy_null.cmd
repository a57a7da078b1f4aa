allocsim policies null
