#!/usr/bin/env python3
"""The strategies against fragmentation side by side: when each acts, how long the host stands still, what it brings.

usage: compaction_strategies.py ALLOCSIM [POLICY]

Replays one seeded serving day in a pool of 512 MiB with POLICY (default first-fit) under each strategy of
policies/compaction.h: requests of two models, an off-peak mark, and a switch from one model to the other.
Everything printed comes out of the runs; pauses are those of the device profile's copy bandwidth.
"""
import json
import os
import subprocess
import sys
import tempfile

STRATEGIES = [  # name, when it acts, parameters
    ('none', 'never', 'compact=none'),
    ('incremental', 'every free', 'compact=incremental'),
    ('full', 'a request fails', 'compact=full'),
    ('full, threshold', '1 - largest / free > 50 %', 'compact=full,compact_above=50,compact_on_failure=false'),
    ('full, off-peak', 'off-peak mark', 'compact=full,compact_at=off-peak,compact_on_failure=false'),
    ('on-switch', 'model-switch mark', 'compact=on-switch'),
]


def day(out):
    state = 12345

    def below(limit):
        nonlocal state
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        return (state >> 33) % limit

    live, held, number = [], 0, 0
    for model, begins in enumerate(('point phase "off-peak"', 'point phase "switch to model B"')):
        for step in range(4000):
            if step == 2000:
                out.write(f'mark {begins}\n')
            kib = 64 << below(3 + 3 * model) if below(8) else (16 + below(16)) << 10
            while live and held + kib > 400 << 10:
                name, size = live.pop(below(len(live)))
                held -= size
                out.write(f'free {name}\n')
            out.write(f'alloc b{number} {kib}KiB\n')
            live.append((f'b{number}', kib))
            held += kib
            number += 1


def main(allocsim, policy='first-fit'):
    with tempfile.TemporaryDirectory(prefix='allocsim-bench-') as folder:
        trace = os.path.join(folder, 'day.text')
        with open(trace, 'w', encoding='ascii') as out:
            day(out)
        print(f'{policy}, a pool of 512 MiB\n')
        print(f'{"strategy":<16} {"acts at":<26} {"pauses":>6} {"longest us":>10} {"all us":>8} '
              f'{"moved MiB":>9} {"failures":>8} {"mean frag %":>11}')
        for name, when, params in STRATEGIES:
            run = subprocess.run([allocsim, 'run', '-q', '--no-db', '--format', 'json', '--policy',
                                  f'{policy},pool=512MiB,{params}', trace],
                                 check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
            m = json.loads(run.stdout)['metrics']
            print(f'{name:<16} {when:<26} {m["compactions"]:>6} {m["max_pause_ns"] / 1e3:>10.1f} '
                  f'{m["pause_ns"] / 1e3:>8.1f} {m["moved_bytes"] >> 20:>9} {m["ooms"]:>8} '
                  f'{m["mean_external_frag_ppm"] / 1e4:>11.1f}')


if __name__ == '__main__':
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    main(*sys.argv[1:])
