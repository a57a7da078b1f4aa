try() { allocsim sweep --no-db "$@" small.pickle; echo "exit $?"; }
try --max-split 20:10:+4
try --max-split 20:1024
try --set max_split_size_mb=0:64:x2
try --max-split 64,,128
try --max-split none,many
try --max-split 1:1000000:+1
try --max-split 21:1021:+1 --torch 2.1,2.2,2.3,2.4,2.5,2.6,2.7,2.8,2.9 --conf '' --conf max_split_size_mb:64 --capacity 1GiB:12GiB:+1GiB
try --set max_splitt_size_mb=64
try --set align=512
try --policy torchcache,max_split_size_mb=64 --max-split 32
try --policy torchcache,64
try --policy null --conf max_split_size_mb:64
try --conf max_split_size_mb:1
try --policy all,x=1
try --capacity 0,1GiB
try --shard 4/3
try --sort size
try --device h100
