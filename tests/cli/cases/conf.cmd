params() { allocsim run -q --no-db --format csv "$@" small.pickle | python3 -c 'import csv, sys; print(*[row["params"] for row in csv.DictReader(sys.stdin)])'; }
params --conf max_split_size_mb:256,expandable_segments:False
params --conf 'roundup_power2_divisions:[256:1,512:2,>:4],max_split_size_mb:64'
params --conf 'roundup_power2_divisions:[256:1,512:2,>:4],max_split_size_mb:64' --max-split none
params --conf max_split_size_mb:256,pinned_use_cuda_host_register:True --max-split 32
params --conf max_split_size_mb:30x
params --conf 'max_split_size_mb:30, expandable_segments:True'
params --conf max_split_size_mb:30,max_split_size_mb:31
params --conf garbage_collection_threshold:0.80
params --conf garbage_collection_threshold:1
params --conf '' --policy torchcache,max_split_size_mb=21
