allocsim run --expect 'peak_reserved_byte<=1' small.pickle
