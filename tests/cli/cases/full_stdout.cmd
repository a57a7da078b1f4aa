allocsim policies >/dev/full
