allocsim trace info small.pickle
allocsim trace info "$SAMPLES/docubox-nohistory.pickle" | sed 1d
