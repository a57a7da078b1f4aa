allocsim sweep small.pickle
