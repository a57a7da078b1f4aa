allocsim import -q small.pickle -o small.zst
cat small.zst | allocsim run -q --no-db /dev/stdin
echo $?
cat small.pickle | allocsim import /dev/stdin -o other.zst 2>&1 | tail -n 1
cmp small.zst other.zst && ls
