# The second sweep adds what is new; what is read back prints as what was run.
allocsim sweep -q -j 1 --max-split none,32 --format csv small.pickle >first
allocsim sweep --jobs 1 --max-split none,32:128:x2 --format csv small.pickle | sed -n 1,3p | cmp - first && echo same
allocsim db ls | cut -c1-70
