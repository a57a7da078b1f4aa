allocsim polices
