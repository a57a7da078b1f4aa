allocsim import -q small.pickle -o small.zst
allocsim sweep --policy torchcache,expandable_segments=false,true --policy null --capacity 10MiB,1GiB small.zst
