allocsim policies torchcache --torch 2.6 --lint 'max_split_size_mb:128MB, expandable_segments:True'
allocsim policies torchcache --torch 2.6 --lint garbage_collection_threshold:0.8,max_split_size_mb:64 && echo taken
allocsim policies torchcache --torch 2.6 --lint expandable_segments:True
allocsim policies torchcache --torch 2.6 --lint max_split_sise_mb:64,expandable_segments:true || echo $?
allocsim policies torchcache --torch 1.13 --lint expandable_segments:True || echo $?
allocsim policies null --lint '' || echo $?
allocsim policies --torch 2.6 || echo $?
allocsim policies torchcache --torch 0.4 --lint '' || echo $?
