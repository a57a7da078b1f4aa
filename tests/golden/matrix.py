#!/usr/bin/env python3
"""Every policy over the shipped recordings and traces: did any number move?

usage: matrix.py [--write] ALLOCSIM TABLE SAMPLES

The table notices change; it does not prove anything right. A line is a trace, a policy with its parameters, and what
came out: status, placement digest, and the integers that people look at. A policy that the table does not hold, or
holds and the program no longer has, is a difference too. --write makes the table anew: look at what changed, and say
why in the commit.
"""
import csv
import io
import os
import subprocess
import sys

TRACES = ['attention-peak-complete.pickle', 'lm-train-windows.pickle', 'lm-xl-forward-expandable.pickle.zst',
          'lm-xl-forward-4dev.pickle.zst', 'vllm-rollout-private-pools.pickle', 'everything-1.1.zst', 'small.text',
          'pool-corrected.text']
VARIANTS = ['torchcache,max_split_size_mb=64', 'torchcache,expandable_segments=true', 'torchcache,torch=2.4',
            'npu,max_split_size_mb=64', 'bfc,allow_growth=true', 'rmm-binning,upstream=pool', 'stitch,fragment_limit=0',
            'pow2,split=buddy', 'first-fit,compact=none', 'best-fit,compact=full,pool=16GiB',
            'tlsf,compact=full,pool=16GiB']
COLUMNS = ['status', 'placement_digest', 'peak_allocated_bytes', 'peak_reserved_bytes', 'lower_bound_bytes',
           'device_allocs', 'device_frees', 'device_maps', 'stall_ns', 'moved_bytes', 'alloc_retries', 'ooms',
           'search_steps']


def rows(allocsim, samples):
    """One line a configuration, sorted as the program lists them; faults of a run show as a missing line."""
    command = [allocsim, 'sweep', '--no-db', '--quiet', '--format', 'csv', '--capacity', '80GiB', '--policy', 'all']
    for variant in VARIANTS:
        command += ['--policy', variant]
    command += [os.path.join(samples, name) for name in TRACES]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    if done.returncode:
        sys.exit(f'matrix.py: allocsim sweep ended with {done.returncode}:\n{done.stderr[-3000:]}')
    lines = {}
    for row in csv.DictReader(io.StringIO(done.stdout)):
        name = os.path.basename(row['trace']), row['policy'] + (',' + row['params'] if row['params'] else '')
        lines[name] = '\t'.join(list(name) + [row[column] for column in COLUMNS])
    return lines


def main():
    arguments = sys.argv[1:]
    write = arguments[:1] == ['--write']
    if len(arguments) != 3 + write:
        sys.exit(__doc__.strip())
    allocsim, table, samples = arguments[write:]
    heading = '\t'.join(['trace', 'policy'] + COLUMNS)
    found = rows(allocsim, samples)
    if write:
        with open(table, 'w', encoding='utf-8') as file:
            file.write('\n'.join([heading] + list(found.values())) + '\n')
        print(f'{len(found)} lines')
        return 0
    with open(table, encoding='utf-8') as file:
        lines = file.read().splitlines()
    if lines[0] != heading:
        sys.exit('the table has other columns: --write makes it anew')
    expected = {tuple(line.split('\t')[:2]): line for line in lines[1:]}
    failed = 0
    for name in list(expected) + [name for name in found if name not in expected]:
        if expected.get(name) != found.get(name):
            failed += 1
            print(f'{name[0]}, {name[1]}:\n  table   {expected.get(name, "none")}\n  program {found.get(name, "none")}')
    print(f'{len(expected)} lines, {failed} differ')
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
