allocsim tune small.pickle
