allocsim run -q --no-db --format summary small.pickle
