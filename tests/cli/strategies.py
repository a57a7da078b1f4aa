#!/usr/bin/env python3
"""bench/compaction_strategies.py prints its table, and the table says what the strategies are for; and the commands
that the shipped pool stories begin with show what they say.

usage: strategies.py ALLOCSIM ROOT
"""
import json
import os
import subprocess
import sys


def fail(text):
    sys.exit(f'strategies: {text}')


def table(allocsim, root):
    run = subprocess.run([sys.executable, '-B', os.path.join(root, 'bench', 'compaction_strategies.py'), allocsim],
                         check=True, stdout=subprocess.PIPE, text=True)
    rows = {}
    for line in run.stdout.splitlines()[3:]:
        pauses, longest, total, moved, failures, _ = line[44:].split()
        rows[line[:16].strip()] = (int(pauses), float(longest), float(total), int(moved), int(failures))
    return rows


def story(allocsim, root, name, policy):
    run = subprocess.run([allocsim, 'run', '-q', '--no-db', '--format', 'json', '--policy', policy,
                          os.path.join(root, 'traces', 'samples', name)],
                         check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    metrics = json.loads(run.stdout)['metrics']
    return metrics['ooms'], metrics['moved_bytes'] >> 20


def main(allocsim, root):
    rows = table(allocsim, root)
    if len(rows) != 6:
        fail(f'{len(rows)} rows')
    for name in ('none', 'incremental'):  # nothing moves, so nothing pauses
        if any(rows[name][:4]):
            fail(f'{name} pauses: {rows[name]}')
    if not rows['none'][4] > rows['incremental'][4] > rows['full'][4] == 0:
        fail(f'failures: {rows}')
    if rows['full, off-peak'][0] != 1 or rows['on-switch'][0] != 1:  # one mark each
        fail(f'pauses at marks: {rows}')
    if not rows['full'][1] <= rows['full'][2] or rows['full'][3] == 0:
        fail(f'full: {rows["full"]}')
    for name, policy, expected in (  # requests refused, MiB moved
            ('pool-published.text', 'first-fit,pool=800MiB', (0, 0)),
            ('pool-published.text', 'pow2,pool=800MiB', (1, 0)),
            ('pool-corrected.text', 'first-fit,pool=800MiB', (1, 0)),
            ('pool-corrected.text', 'first-fit,pool=800MiB,compact=full', (0, 250)),
            ('pool-corrected-pow2.text', 'pow2,pool=800MiB', (1, 0)),
            ('pool-corrected-pow2.text', 'pow2,pool=800MiB,compact=full', (0, 194))):
        got = story(allocsim, root, name, policy)
        if got != expected:
            fail(f'{name}, {policy}: {got}, not {expected}')


if __name__ == '__main__':
    main(*sys.argv[1:])
