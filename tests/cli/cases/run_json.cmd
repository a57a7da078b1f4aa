allocsim run -q --no-db --format json small.pickle
