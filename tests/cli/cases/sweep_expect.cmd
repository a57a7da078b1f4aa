# Of every run, stored before or not; 20 MiB are reserved with 1 GiB, and nothing fits into 6 MiB.
allocsim sweep -q --expect no-oom --expect 'peak_reserved_bytes<=19MiB' --check full --capacity 6MiB,1GiB -f csv small.pickle \
    | cut -d, -f7,9
allocsim sweep -q --expect 'peak_reserved_bytes<=20MiB' -f csv small.pickle >/dev/null && echo as expected
allocsim sweep -q --expect 'peak_reserved_bytes<=many' -f csv small.pickle; echo exit $?
