allocsim sweep -q -j 1 --max-split 32,none --seed 3 --format json small.pickle | grep -E '^\[|^\]|"(name|params|seed|status|placement_digest|peak_reserved_bytes|run_id)"'
