# One request crosses from the small pool (up to 1 MiB, segments of 2 MiB) to the large one (segments of 20 MiB): by
# hand 20 MiB against 2 MiB reserved; 1 MiB in use against 2 MiB.
printf 'device gpu capacity=1GiB\nalloc x 1MiB\n' >a.text
printf 'device gpu capacity=1GiB\nalloc x 2MiB\n' >b.text
allocsim compare -q a.text b.text | sed -n '/In short/,/^$/p;/Where/,$p'
# The same requests, and then an event more: that is where they part.
printf 'device gpu capacity=1GiB\nalloc x 1MiB\nmark point other "the end"\n' >c.text
allocsim compare -q a.text c.text | sed -n '/Where/,/^$/p'
