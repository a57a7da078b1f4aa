# One allocation moves to another stream. torchcache by hand: w takes 6 MiB of a 20 MiB segment (requests of 1 to
# 10 MiB), x a segment of its own size, 30 MiB. In A y fits into x's freed block: 50 MiB reserved. In B that block
# belongs to the other stream: a segment of 26 MiB (25, rounded up to 2 MiB), and no split, as 1 MiB is no rest for a
# large block: 76 MiB reserved, 26 MiB more, and 1 MiB of slack.
cat >a.text <<'END'
device gpu capacity=1GiB
lane main device=gpu
lane side device=gpu stream=0x10
alloc w 6MiB
alloc x 30MiB
free x
alloc y 25MiB
END
sed 's/^alloc y.*/& lane=side/' a.text >b.text
allocsim compare -q a.text b.text; echo exit $?
