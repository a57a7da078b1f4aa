# Odd settings of a recording are told with its trace; those of the command line once a release. A text that says no
# more than where its blocks lay is followed by the newest release that takes the lowest of two equal blocks.
cat >t.txt <<'END'
recorded_settings garbage_collection_threshold:0.8
alloc a 2MiB at=0x7f0000000000
END
allocsim run --no-db t.txt | sed -n 3p
allocsim run -q --no-db --conf max_split_size_mb:64,max_split_size_mb:65 t.txt small.pickle t.txt | grep policy
allocsim run -q --no-db --torch 1.13 --conf roundup_bypass_threshold_mb:64 t.txt | grep policy
allocsim run -q --no-db --conf nonsense:1 t.txt || echo $?
