for part in 1 2 3; do
    allocsim sweep --shard $part/3 --db part.db --max-split none,32:128:x2 --format csv small.pickle | wc -l
done
ls part.*
allocsim sweep --shard 7/9 --db part.db small.pickle
test -e part.7-of-9.db || echo no store without a run
