allocsim import small.pickle -o small.zst
allocsim trace check small.zst small.pickle
allocsim run -q --no-db --format csv small.zst | tail -n 1 | cut -d , -f 2- >native
allocsim run -q --no-db --format csv small.pickle | tail -n 1 | cut -d , -f 2- >memory
cmp native memory
allocsim import small.zst -o again.zst
ls
