# By peak_reserved_bytes, and what failed after what did not; ties as listed.
allocsim sweep -q --no-db --sort reserved --format csv --capacity 6MiB,1GiB --policy null \
    --policy skeleton,region=64MiB,32MiB --policy torchcache small.pickle | cut -d, -f3,4,7,9,21
