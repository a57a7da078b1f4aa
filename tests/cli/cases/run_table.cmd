allocsim run small.pickle
