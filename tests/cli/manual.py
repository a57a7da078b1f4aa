#!/usr/bin/env python3
"""Help and manual say the same, help fits a screen, and the examples work.

usage: manual.py [--write] ALLOCSIM tools/allocsim.1.md

In the manual, the block after "## SYNOPSIS" is the output of `allocsim help`, the one after "### VERB" that of
`allocsim help VERB`. --write puts the program's present help there.
"""
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

import recordings

LINES, COLUMNS = 24, 80
BLOCK = re.compile(r'(^## SYNOPSIS$|^### (?P<verb>[a-z ]+)$)(?P<between>\n+)```\n(?P<text>.*?)```\n', re.M | re.S)


def call(allocsim, *words):
    return subprocess.run([allocsim, *words], capture_output=True, text=True, timeout=60, check=False)


def help_of(allocsim, verb):
    if verb is None:
        return call(allocsim, 'help').stdout
    shown = call(allocsim, *verb.split(), '--help')
    assert shown.stdout == call(allocsim, 'help', *verb.split()).stdout, f'{verb}: help and --help differ'
    assert shown.returncode == 0 and not shown.stderr, f'{verb}: --help fails: {shown.stderr}'
    return shown.stdout


def verbs_of(allocsim):
    return [match[1].strip() for match in re.finditer(r'^  ([a-z ]{1,12})  \S', help_of(allocsim, None), re.M)]


def check_screen(verb, text):
    lines = text.splitlines()
    if len(lines) > LINES:
        yield f'{verb}: help has {len(lines)} lines'
    for line in lines:
        if len(line) > COLUMNS:
            yield f'{verb}: wider than {COLUMNS} columns: {line}'
    if not lines or not lines[-1].startswith('Example: allocsim '):
        yield f'{verb}: help does not end with an example'


def check_example(allocsim, verb, text):
    words = shlex.split(text.splitlines()[-1].removeprefix('Example: allocsim '))
    with tempfile.TemporaryDirectory(prefix='allocsim-manual-') as folder:
        recordings.write(os.path.join(folder, 'snapshot.pickle'))

        def step(*words):
            return subprocess.run([allocsim, *words], cwd=folder, capture_output=True, text=True, timeout=60,
                                  check=False)

        for prepare in (['import', 'snapshot.pickle', '-o', 'trace.zst'], ['run', '--seed', '1', 'trace.zst']):
            done = step(*prepare)
            if done.returncode:
                yield f'{verb}: {prepare} fails: {done.stderr}'
        if words[0] == 'report' and not shutil.which('gnuplot'):
            return
        done = step(*words)
        if done.returncode:
            yield f'{verb}: the example fails: {done.stderr}'


def check(allocsim, manual):
    with open(manual, encoding='utf-8') as file:
        text = file.read()
    blocks = {match['verb']: match['text'] for match in BLOCK.finditer(text)}
    for verb in [None] + verbs_of(allocsim):
        shown = help_of(allocsim, verb)
        yield from check_screen(verb, shown)
        if blocks.pop(verb, None) != shown:
            yield f'{verb or "SYNOPSIS"}: help and manual differ; manual.py --write makes them equal'
        yield from check_example(allocsim, verb, shown)
    for verb in blocks:
        yield f'the manual describes a verb that does not exist: {verb}'
    for flag in ('--help', '-h'):
        if call(allocsim, flag).stdout != help_of(allocsim, None):
            yield f'{flag} does not show the help'


def write(allocsim, manual):
    with open(manual, encoding='utf-8') as file:
        text = file.read()
    text = BLOCK.sub(lambda m: f'{m[1]}{m["between"]}```\n{help_of(allocsim, m["verb"])}```\n', text)
    with open(manual, 'w', encoding='utf-8') as file:
        file.write(text)


def main(arguments):
    writing = arguments[:1] == ['--write']
    allocsim, manual = os.path.abspath(arguments[writing]), arguments[writing + 1]
    if writing:
        write(allocsim, manual)
        return 0
    problems = list(check(allocsim, manual))
    print('\n'.join(problems) or 'help and manual are equal')
    return 1 if problems else 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
