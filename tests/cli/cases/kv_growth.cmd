trace="$SAMPLES/kv-growth.text"
show() { tr ',' '\n' | grep -oE '"(moved_bytes|ooms|peak_reserved_bytes|kv_blocks|peak_[a-z]*_blocks|block_copies|peak_tail_waste_bytes)": *[0-9]+'; }
allocsim run -q --no-db --format json --policy native "$trace" | show
echo paged
allocsim run -q --no-db --format json --policy paged,block_tokens=4,token_bytes=1MiB,pool=88MiB,rest=native "$trace" | show
allocsim run -q --no-db --check full --format json --policy paged,block_tokens=4,token_bytes=1MiB,pool=88MiB "$trace" | show | grep ooms
allocsim run -q --no-db --policy paged,rest=paged "$trace"
allocsim run -q --no-db --policy paged,pool=1KiB "$trace"
