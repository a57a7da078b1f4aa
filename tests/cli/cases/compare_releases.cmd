# Two releases on a recording: of two free blocks of one size, 2.15 takes another one than 2.1 did and than the recorded
# allocator did, so fewer placements match the recording; nothing else is different. 2.9 and 2.11 choose alike.
allocsim compare -q --torch 2.1 --torch-b 2.15 "$SAMPLES/attention-peak-complete.pickle" >table.txt; echo exit $?
sed -n '/In short/,/call stack/p' table.txt
allocsim compare -q --torch 2.9 --torch-b 2.11 "$SAMPLES/attention-peak-complete.pickle" | tail -2
