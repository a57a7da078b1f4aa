allocsim import -q small.pickle -o small.zst
head -c 200 small.zst >cut.zst
allocsim trace check cut.zst
echo $?
allocsim trace check small.zst cut.zst
echo $?
echo text >text
allocsim trace check text
