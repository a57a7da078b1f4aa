printf 'device gpu capacity=1GiB\nlane a device=gpu pool=1\nlane b device=gpu stream=7\npool_begin lane=a\nalloc x 1 lane=a\nuse x lane=b\npool_end lane=a\n' >a.txt
allocsim import -q a.txt -o a.zst
allocsim trace head --all a.zst | tee b.txt
allocsim import -q b.txt -o b.zst
cmp a.zst b.zst && ls
