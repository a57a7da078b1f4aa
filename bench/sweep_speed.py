#!/usr/bin/env python3
"""How long a sweep takes, beside what its replays alone take.

usage: sweep_speed.py ALLOCSIM [EVENTS]

64 values of max_split_size_mb on a training run of EVENTS events (a million) that gen_train.py writes: once each with
`run`, one after another, and all at once with `sweep` into a store. The ratio is the sweep's wall time to that of the
64 replays divided by the cores; 1 is perfect, with decoding and storing for nothing. Best of three each; the results
of both have to be equal."""
import json
import os
import subprocess
import sys
import tempfile
import time

VALUES = [str(value) for value in range(32, 32 + 64 * 16, 16)]
SWEEP = ('--max-split', f'{VALUES[0]}:{VALUES[-1]}:+16')
REPEATS = 3


def run(*command, cwd):
    return subprocess.run(command, cwd=cwd, stdout=subprocess.PIPE, text=True, check=True).stdout


def single_replays(allocsim, folder):
    """Seconds of the replays alone, without reading the trace; digests in the order of VALUES."""
    total, digests = 0, []
    for value in VALUES:
        runs = [json.loads(run(allocsim, 'run', '-q', '--no-db', '--format', 'json', '--max-split', value, 't.zst',
                               cwd=folder)) for _ in range(REPEATS)]
        total += min(one['about']['wall_ns'] for one in runs) / 1e9
        digests.append(runs[0]['placement_digest'])
    return total, digests


def sweeps(allocsim, folder, *more):
    best, digests = None, None
    for turn in range(REPEATS):
        started = time.monotonic()
        printed = run(allocsim, 'sweep', '-q', '--format', 'json', *SWEEP, *more, '--db', f'{turn}.db', 't.zst',
                      cwd=folder)
        took = time.monotonic() - started
        best = took if best is None else min(best, took)
        digests = [one['placement_digest'] for one in json.loads(printed)]
        if '--no-db' not in more:
            os.remove(os.path.join(folder, f'{turn}.db'))
    return best, digests


def main(allocsim, events='1000000'):
    allocsim, here = os.path.abspath(allocsim), os.path.dirname(os.path.abspath(__file__))
    cores = len(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory(prefix='allocsim-bench-') as folder:
        with open(os.path.join(folder, 't.txt'), 'w', encoding='utf-8') as file:
            subprocess.run([sys.executable, os.path.join(here, 'gen_train.py'), events], stdout=file, check=True)
        run(allocsim, 'import', '-q', 't.txt', '-o', 't.zst', cwd=folder)
        alone, expected = single_replays(allocsim, folder)
        stored, first = sweeps(allocsim, folder)
        unstored, second = sweeps(allocsim, folder, '--no-db')
    if expected != first or expected != second:
        sys.exit('the sweep and the single replays give different results')
    print(f'{len(VALUES)} values, {events} events, {cores} cores, {len(set(expected))} different outcomes')
    rate = int(events) * len(VALUES) / alone / 1e6
    print(f'  replays alone, one after another   {alone:7.2f} s   {rate:.1f} M events/s')
    for name, took in (('sweep into a store', stored), ('sweep without a store', unstored)):
        print(f'  {name:34} {took:7.2f} s   {took / (alone / cores):.2f} of the replays / cores')


if __name__ == '__main__':
    main(*sys.argv[1:])
