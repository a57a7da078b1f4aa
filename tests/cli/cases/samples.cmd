# Every recording that holds a history: each allocation gets the recorded address, each driver call comes in its turn.
cd "$SAMPLES"
allocsim run -q --no-db --check placements --format json *.pickle *.pickle.zst | python3 -c '
import json, sys
text = sys.stdin.read()
while text.strip():
    run, end = json.JSONDecoder().raw_decode(text.lstrip())
    text = text.lstrip()[end:]
    m = run["metrics"]
    print(run["trace"]["path"], m["recorded_allocs"] - m["recorded_matches"], m["recorded_calls"] - m["recorded_call_matches"], m["recorded_allocs"] > 0, run["mismatch"])
'
