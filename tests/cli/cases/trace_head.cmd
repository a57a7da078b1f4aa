allocsim import -q small.pickle -o small.zst
allocsim trace head small.zst
allocsim trace head -n 1 --from 2 small.zst
allocsim trace head -n 1 --from 2 small.pickle
allocsim trace head --from 5 small.zst
allocsim trace head --from 5 small.pickle
