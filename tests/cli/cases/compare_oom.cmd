# 6 MiB live in a segment of 20 MiB; a device of 40 MiB has no 30 MiB left, one of 50 MiB has, exactly.
printf 'device gpu capacity=1GiB\nalloc w 6MiB\nalloc x 30MiB\n' >a.text
allocsim compare -q --capacity 50MiB --capacity-b 40MiB a.text | sed -n '/In short/,/^$/p;/Failures/,/^Reserved/p'
allocsim compare -q --capacity 50MiB --capacity-b 64MiB a.text; echo exit $?
