allocsim run -q --no-db --format summary-short small.pickle
