show() { python3 -c '
import json, sys
stats = json.load(sys.stdin)["0"]
print(len(stats), list(stats) == sorted(stats), stats["max_split_size"])
print([name for name in stats if name.startswith("num_")])
print({name: value for name, value in stats.items() if "requested" in name and ".all." in name})
print(stats["reserved_bytes.large_pool.current"], stats["segment.all.allocated"], stats["allocation.all.freed"])'; }
allocsim run -q --no-db --format torch-stats small.pickle | show
allocsim run -q --no-db --format torch-stats --torch 1.13 --max-split 32 small.pickle | show
