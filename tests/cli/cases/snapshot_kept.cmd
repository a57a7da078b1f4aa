echo precious >notes
allocsim import -q small.pickle -o small.zst
allocsim run -q --no-db --snapshot notes small.zst
echo $?
allocsim run -q --no-db --snapshot small.pickle small.pickle
echo $?
allocsim run -q --no-db --snapshot small.pickle --format csv small.zst >out
echo $?
cat notes
