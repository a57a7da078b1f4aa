allocsim run --polcy null small.pickle
