cp small.pickle b.pickle
allocsim run -q --jobs 1 --db one.db --format csv small.pickle b.pickle missing.pickle >one
allocsim run -q --jobs 8 --db many.db --format csv small.pickle b.pickle missing.pickle >many
cmp one many && wc -l <many
