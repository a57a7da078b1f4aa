allocsim run -q --no-db --format csv --max-split 32 --policy torchcache,max_non_split_rounding_mb=24 small.pickle small.pickle
