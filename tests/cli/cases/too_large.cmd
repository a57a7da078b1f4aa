printf 'alloc a 1152921504606846976\n' >a.txt
allocsim run -q --no-db a.txt | sed -n '/^Failures/,/^$/p'
