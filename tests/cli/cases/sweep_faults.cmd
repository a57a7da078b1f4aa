allocsim sweep --jobs 1 --no-db --max-split 19,20,64 --format csv small.pickle missing.zst | sed 's/"\(.*\),\(.*\)"/\1;\2/' | cut -d, -f4
allocsim sweep -q --no-db --max-split 19 small.pickle; echo exit $?
