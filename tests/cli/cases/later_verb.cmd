allocsim gpu small.pickle
