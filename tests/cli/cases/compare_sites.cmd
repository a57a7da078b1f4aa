# Memory by call site: the Python line of the user's, not PyTorch's own below it. By hand: step asks for 30 MiB, which
# get a segment of 30 MiB in either run; then eval asks for 4 MiB: from a free rest of that block in A, where splitting
# is allowed; with max_split_size_mb=20 a block above that serves no smaller request: B asks for a segment of 20 MiB.
cat >a.text <<'END'
ids slots
string "empty"
string "/venv/lib/site-packages/torch/functional.py"
string "step"
string "/srv/train.py"
string "eval"
frame 0 "empty" "/venv/lib/site-packages/torch/functional.py" 7
frame 1 "step" "/srv/train.py" 12
frame 2 "eval" "/srv/train.py" 34
stack 0 0 1
stack 1 0 2
device 0 capacity=1073741824
lane 0 device=0 stream=0x0 pool=0
alloc 0 31457280 stack=0
free 0
alloc 1 4194304 stack=1
END
allocsim compare -q --max-split none --max-split-b 20 a.text; echo exit $?
