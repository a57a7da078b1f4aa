printf 'alloc a 62914560\nfree a\nalloc b 83886080\nfree b\n' > t.text
allocsim fit t.text
allocsim fit -p native -p torchcache,expandable_segments=true t.text --format json
allocsim fit -p torchcache,max_split_size_mb=3 t.text
echo $?
allocsim fit t.text --capacity 1MiB
echo $?
allocsim fit t.text --capacity 64MiB
allocsim fit t.text small.pickle --capacity 1GiB
