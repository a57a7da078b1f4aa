allocsim import small.pickle
allocsim import small.pickle -o small.pickle
echo precious >other
allocsim import small.pickle -o other
allocsim import small.pickle --format torch -o small.zst
mkdir folder
allocsim import small.pickle -o folder
allocsim import small.pickle -o none/small.zst
cat other
allocsim import -q --force small.pickle -o other
allocsim trace check other
ls
