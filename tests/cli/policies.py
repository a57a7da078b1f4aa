#!/usr/bin/env python3
"""Every policy that the program lists: what it says of itself, and what it makes of impossible requests and parameters.

usage: policies.py ALLOCSIM

An outcome or a message, never a crash: status 0 with a result, or 2 with one line that names the parameter.
"""
import json
import os
import re
import subprocess
import sys
import tempfile

TRACE = '''device gpu capacity=64MiB
lane main device=gpu
alloc zero 0 lane=main
alloc one 1 lane=main
alloc huge 4611686018427387904 lane=main
alloc largest 9223372036854775807 lane=main
alloc big 50331648 lane=main
alloc more 33554432 lane=main
free zero
free one
free huge
free largest
free big
alloc again 50331648 lane=main
free again
free more
'''


class Failure(Exception):
    pass


def call(allocsim, *words, status=0):
    done = subprocess.run([allocsim, *words], capture_output=True, text=True, timeout=120, check=False)
    if done.returncode != status:
        raise Failure(f'{" ".join(words)}: exit status {done.returncode}, not {status}\n{done.stderr[-2000:]}')
    return done


def check_about(allocsim, name, summary):
    text = call(allocsim, 'policies', name).stdout
    if not text.startswith(f'{name}: {summary}\n') or not re.search(r'^Source: \S', text, re.M):
        raise Failure(f'{name}: says\n{text}')
    parameters = re.findall(r'^  ([a-z0-9_-]+)   \[(.*?)\]   (.*)\n      (\S.*)$', text, re.M)
    if 'Parameters' in text and not parameters:
        raise Failure(f'{name}: parameters without name, default, bounds and help\n{text}')
    return parameters


def check_run(allocsim, name, trace):
    """Zero, huge and too many bytes: nothing is placed that can't be, and the rest is served."""
    result = json.loads(call(allocsim, 'run', '--no-db', '--quiet', '--check', 'full', '--format', 'json', '--policy',
                             name, trace).stdout)
    metrics = result['metrics']
    if metrics['allocs'] != 7 or metrics['allocated_bytes'] or metrics['requested_bytes']:
        raise Failure(f'{name}: {metrics}')
    if metrics['peak_requested_bytes'] > 64 << 20 and name != 'null':
        raise Failure(f'{name}: 64 MiB held {metrics["peak_requested_bytes"]} bytes')
    if name != 'null' and (metrics['ooms'] < 2 or result['status'] != 'oom' or not result['oom']):
        raise Failure(f'{name}: 2^62 bytes were not refused: {metrics["ooms"]} refusals')


def check_parameters(allocsim, name, parameters, trace):
    """A value that no type takes, and none of that name."""
    def refuses(text, *words):
        error = call(allocsim, 'run', '--no-db', '--policy', f'{name},{text}', trace, status=2).stderr
        for word in words:
            if word not in error:
                raise Failure(f'{name},{text}: the message does not say {word}: {error}')
        if error.count('\n') != 1:
            raise Failure(f'{name},{text}: not one line: {error}')
    refuses('no_such_thing=1', 'no_such_thing')
    refuses('no_such_thing', 'no_such_thing')
    for parameter, _, allowed, _ in parameters:
        if allowed.startswith('text'):
            continue
        refuses(f'{parameter}=nonsense', parameter)
        if '-1' not in allowed:
            refuses(f'{parameter}=-1', parameter)
        if re.match(r'a (size|number)', allowed):
            refuses(f'{parameter}=99999999999999999999', parameter)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__.strip())
    allocsim = os.path.abspath(sys.argv[1])
    listed = re.findall(r'^([a-z0-9-]+) +(\S.*)$', call(allocsim, 'policies').stdout, re.M)
    failed = 0
    with tempfile.TemporaryDirectory(prefix='allocsim-policies-') as folder:
        trace = os.path.join(folder, 'impossible.text')
        with open(trace, 'w', encoding='utf-8') as file:
            file.write(TRACE)
        for name, summary in listed:
            try:
                parameters = check_about(allocsim, name, summary)
                check_run(allocsim, name, trace)
                check_parameters(allocsim, name, parameters, trace)
            except Failure as failure:
                failed += 1
                print(failure)
    print(f'{len(listed)} policies, {failed} failed')
    return 1 if failed or len(listed) < 18 else 0


if __name__ == '__main__':
    sys.exit(main())
