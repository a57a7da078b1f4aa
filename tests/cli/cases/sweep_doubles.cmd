# Three ways to say one thing, and two traces of one content.
allocsim import -q small.pickle -o small.zst
allocsim sweep --jobs 1 --max-split none,32,32 --conf max_split_size_mb:32 --format csv small.zst small.zst | sed 's/"\(.*\),\(.*\)"/\1;\2/' | cut -d, -f1-4,10
