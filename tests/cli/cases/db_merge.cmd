# The parts of a sweep make the whole; merging again adds nothing.
for part in 1 2 3; do
    allocsim sweep -q --shard $part/3 --max-split none,32:128:x2 --format csv small.pickle >/dev/null
done
allocsim db merge all.db allocsim.*-of-3.db
allocsim db merge all.db allocsim.1-of-3.db allocsim.2-of-3.db
allocsim db check all.db
allocsim sweep --db all.db --max-split none,32:128:x2 --format csv small.pickle | wc -l
