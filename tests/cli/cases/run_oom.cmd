allocsim run -q --no-db --capacity 10MiB small.pickle
