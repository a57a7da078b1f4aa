printf 'device gpu capacity=1GiB\nmark begin phase "up"\nalloc w 6MiB\nalloc x 30MiB\nmark end phase "up"\n' >a.text
allocsim compare -q -f json --capacity 50MiB --capacity-b 40MiB a.text >out.json; echo exit $?
python3 - <<'END'
import json
d = json.load(open('out.json'))
print(d['result'], list(d), list(d['reserved']))
print(d['metrics']['peak_reserved_bytes'], d['parting']['event'], d['parting']['b']['effects'])
print(d['phases'])
for view, rows in d['reserved'].items():
    if view not in ('moment', 'live_by'):
        print(view, sum(row['a'] for row in rows), sum(row['b'] for row in rows))
END
