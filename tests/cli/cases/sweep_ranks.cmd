# Two ranks: the worse one is named, and both are added up. A segment of 20 MiB for the 3 MiB, and one of 30 or 50 MiB as
# asked for: 50 and 70 MiB of which 33 and 53 are alive; with 60 MiB rank 1 gets the first only.
printf 'alloc a 3MiB\nalloc b 30MiB\nfree a\nfree b\n' >rank0.txt
printf 'alloc a 3MiB\nalloc b 50MiB\nfree a\nfree b\n' >rank1.txt
allocsim sweep -q --no-db --capacity 60MiB,1GiB --max-split none,32 rank0.txt rank1.txt
