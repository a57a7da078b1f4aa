allocsim run -q small.pickle | tail -n 1
allocsim run -q small.pickle | tail -n 1
allocsim run -q --max-split 256 small.pickle | tail -n 1
allocsim run -q --conf max_split_size_mb:256 small.pickle | tail -n 1
allocsim run -q --policy torchcache,max_split_size_mb=256 small.pickle | tail -n 1
allocsim db ls
allocsim db check
