#!/usr/bin/env python3
"""Policies in shared objects: the example built as one gives what the built-in example gives, and broken ones get
clear messages.

usage: plugin.py ALLOCSIM SKELETON.so FAULT0.so FAULT1.so ...
"""
import csv
import os
import re
import shutil
import subprocess
import sys
import tempfile

import recordings

FAULTS = [  # what is said of tests/cli/plugin_faults.c, in the order of its FAULT
    r'defines no asim_policy_faulty',
    r'its asim_policy_faulty is no table',
    r'interface version 2 .* takes version 1 .*build it anew',
    r'interface version 1 and 32 bytes; this allocsim takes version 1 of \d+ bytes',
    r'required operation init is missing',
    r'can be loaded: .*undefined symbol: asim_not_there',
]


class Place:
    def __init__(self, allocsim, folder):
        self.allocsim, self.folder = allocsim, folder

    def call(self, *arguments):
        return subprocess.run([self.allocsim, *arguments], cwd=self.folder, capture_output=True, text=True, timeout=60,
                              check=False)

    def rows(self, *arguments):
        done = self.call(*arguments, '--format', 'csv', '--no-db', 'small.pickle')
        if done.returncode:
            raise SystemExit(f'{arguments}: exit {done.returncode}: {done.stderr}')
        return list(csv.DictReader(done.stdout.splitlines()))


def same_but_name(plugin, builtin):
    return {k: v for k, v in plugin.items() if k != 'policy'} == {k: v for k, v in builtin.items() if k != 'policy'}


def check_working(place):
    for params in ('', ',align=4096', ',region=32MiB,align=1'):
        plugin, = place.rows('run', '-q', '--policy', './skeleton.so' + params)
        builtin, = place.rows('run', '-q', '--policy', 'skeleton' + params)
        if not same_but_name(plugin, builtin):
            yield f'skeleton.so{params} differs from the built-in one:\n{plugin}\n{builtin}'
        if not re.fullmatch('skeleton@[0-9a-f]{8}', plugin['policy']):
            yield f'the name is {plugin["policy"]}'
    bare, = place.rows('run', '-q', '--policy', 'skeleton.so')
    if not bare['policy'].startswith('skeleton@'):
        yield 'a name without a slash is not taken for a file of this folder'
    swept = place.rows('sweep', '-q', '--policy', './skeleton.so,align=512:2048:x2', '--policy', 'skeleton', '--set',
                       'region=32MiB')
    if [row['params'] for row in swept] != ['region=32MiB', 'region=32MiB,align=1024', 'region=32MiB,align=2048',
                                            'region=32MiB'] or not same_but_name(swept[0], swept[3]):
        yield f'a sweep over it gives {swept}'
    shown = place.call('policies', './skeleton.so')
    if shown.returncode or 'align' not in shown.stdout:
        yield f'policies does not show it: {shown.stdout}{shown.stderr}'
    wrong = place.call('run', '--no-db', '--policy', './skeleton.so,alien=1', 'small.pickle')
    if wrong.returncode != 2 or "no parameter 'alien'; known: region, align" not in wrong.stderr:
        yield f'an unknown parameter: exit {wrong.returncode}: {wrong.stderr}'


def check_refused(place, path, pattern):
    for verb in ('run', 'sweep'):
        done = place.call(verb, '--no-db', '--policy', path, 'small.pickle')
        if done.returncode != 3 or not re.search(pattern, done.stderr) or path.split('/')[-1] not in done.stderr:
            yield f'{verb} {path}: exit {done.returncode}, expected "{pattern}": {done.stderr}'


def main(allocsim, skeleton, *faults):
    assert len(faults) == len(FAULTS)
    with tempfile.TemporaryDirectory(prefix='allocsim-plugin-') as folder:
        recordings.write(os.path.join(folder, 'small.pickle'))
        shutil.copy(skeleton, os.path.join(folder, 'skeleton.so'))
        shutil.copy(skeleton, os.path.join(folder, 'other-name.so'))
        with open(os.path.join(folder, 'text.so'), 'w', encoding='utf-8') as file:
            file.write('no object\n')
        with open(skeleton, 'rb') as whole, open(os.path.join(folder, 'cut.so'), 'wb') as file:
            file.write(whole.read(3000))
        os.mkdir(os.path.join(folder, 'folder.so'))
        place = Place(os.path.abspath(allocsim), folder)
        problems = list(check_working(place))
        for number, (path, pattern) in enumerate(zip(faults, FAULTS)):
            os.mkdir(os.path.join(folder, str(number)))
            shutil.copy(path, os.path.join(folder, str(number), 'faulty.so'))
            problems += check_refused(place, f'./{number}/faulty.so', pattern)
        for name, pattern in (('./text.so', 'shared object'), ('./cut.so', 'shared object'),
                              ('./missing.so', 'No such file'), ('./folder.so', 'not a file'),
                              ('./other-name.so', 'defines no asim_policy_other_name')):
            problems += check_refused(place, name, pattern)
    print('\n'.join(problems) or 'plug-ins work, and broken ones are told apart')
    return 1 if problems else 0


if __name__ == '__main__':
    sys.exit(main(*sys.argv[1:]))
