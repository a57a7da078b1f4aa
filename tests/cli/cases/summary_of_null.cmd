allocsim run --format summary --policy null small.pickle
