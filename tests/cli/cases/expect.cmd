allocsim run -q --no-db --expect no-oom --expect 'peak_reserved_bytes<=20MiB' small.pickle | tail -n 1
allocsim run -q --no-db --expect 'peak_reserved_bytes<20MiB' --expect 'allocs==3' --expect 'frees > 1' small.pickle >table
