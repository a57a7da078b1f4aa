allocsim run --capacity 40GB small.pickle
allocsim run --policy tochcache small.pickle
allocsim run --policy torchcache,split=3 small.pickle
allocsim run --policy null --max-split 3 small.pickle
allocsim run --max-split 20 small.pickle
allocsim run --conf nonsense:1 small.pickle
allocsim run --torch 0.4 small.pickle
allocsim run --device a100 small.pickle
allocsim run --samples 3 small.pickle
allocsim run --seed 99999999999999999999 small.pickle
allocsim run --check most small.pickle
ls
