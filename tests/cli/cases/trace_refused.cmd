printf 'alloc a 1\nsettings nonsense:1\n' >settings.txt
allocsim run -q --no-db --format csv settings.txt >out
echo $?
printf 'lane p pool=3\npool_end lane=p\n' >pool.txt
allocsim run -q --no-db settings.txt pool.txt | grep -A1 ^Failures
