# A comb of 1024 blocks of 2 MiB: the 256 of 4 MiB lie above it, so first fit needs 3 GiB, not a granule less.
allocsim gen -q adversary -o comb.zst && allocsim trace check comb.zst
allocsim run -q --no-db --policy first-fit,pool=3072MiB --expect no-oom comb.zst >comb.txt && echo fits
allocsim run -q --no-db --policy first-fit,pool=3070MiB --expect ooms==1 comb.zst >comb.txt && echo one is refused
allocsim run -q --no-db --expect peak_requested_bytes==2GiB comb.zst >comb.txt && echo 2 GiB alive
# Robson: 4096 units of 4 KiB alive at most, blocks of up to 64: at least 4096 (1 + 6/2) - 64 + 1 = 16321 units, 63.75 MiB.
allocsim gen -q adversary,kind=robson,unit=4096,count=4096 -o robson.zst
allocsim run -q --no-db --policy first-fit,pool=62MiB --expect 'ooms>0' robson.zst >robson.txt && echo 62 MiB are not enough
allocsim run -q --no-db --policy first-fit,pool=112MiB --expect no-oom --expect 'peak_requested_bytes<=16MiB' robson.zst >robson.txt && echo 16 MiB alive
# The same seed gives the same trace, another one another.
allocsim gen -q churn,streams=4,uses=20,events=3000 --seed 7 -o a.zst
allocsim gen -q churn,streams=4,uses=20,events=3000 --seed 7 -o b.zst
allocsim gen -q churn,streams=4,uses=20,events=3000 --seed 8 -o c.zst
cmp a.zst b.zst && echo equal
cmp -s a.zst c.zst || echo different
# Nothing that a training step allocates outlives it; weights, gradients and Adam's states take 16 bytes a parameter.
allocsim gen -q train,steps=2 -o train.zst
allocsim run -q --no-db --format json train.zst | grep '"requested_bytes"'
allocsim gen -q steady,iterations=2,kept=100MiB -o steady.zst
allocsim run -q --no-db --format json steady.zst | grep '"requested_bytes"'
