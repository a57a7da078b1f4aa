#!/usr/bin/env python3
"""Runs every example of a document and compares what it prints with what the document shows.

usage: readme.py [--update] ALLOCSIM ROOT DOCUMENT...

An example is a fenced block marked `console`: a line `$ COMMAND`, then its output (both streams). Blocks of one
document run in order in one scratch folder that holds the repository's policies/, sim/, tools/ and traces/. A line
`...` stands for any lines. How long something took is not compared. --update writes the outputs anew; blocks with
`...` are left alone.
"""
import os
import re
import subprocess
import sys
import tempfile

TIMES = re.compile(r'replayed in .*? events/s')


def blocks(text):
    """The (start, end) of each console block's inside."""
    return [match.span(1) for match in re.finditer(r'^```console\n(.*?)^```$', text, re.M | re.S)]


def steps(block):
    """[(command, expected output)] of a block."""
    found = []
    for line in block.splitlines(keepends=True):
        if line.startswith('$ '):
            found.append([line[2:].rstrip('\n'), ''])
        elif found:
            found[-1][1] += line
        else:
            raise SystemExit(f'a console block begins without a command: {line!r}')
    return found


def matches(expected, printed):
    pattern = ''
    for line in TIMES.sub('TIME', expected).splitlines(keepends=True):
        pattern += '(?:.*\n)*?' if line == '...\n' else re.escape(line)
    return re.fullmatch(pattern, TIMES.sub('TIME', printed)) is not None


def run(command, place, allocsim):
    env = dict(os.environ, PATH=os.path.dirname(os.path.abspath(allocsim)) + os.pathsep + os.environ['PATH'],
               NO_COLOR='1', LC_ALL='C.UTF-8')
    done = subprocess.run(['sh', '-c', command], cwd=place, env=env, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300, check=False)
    return done.stdout.decode()


def check(path, allocsim, root, update):
    with open(path, encoding='utf-8') as file:
        text = file.read()
    failures = ran = 0
    rewritten = []
    with tempfile.TemporaryDirectory(prefix='allocsim-readme-') as place:
        for name in ('policies', 'sim', 'tools', 'traces'):
            os.symlink(os.path.join(os.path.abspath(root), name), os.path.join(place, name))
        for start, end in blocks(text):
            inside = ''
            for command, expected in steps(text[start:end]):
                printed = run(command, place, allocsim)
                ran += 1
                if not matches(expected, printed):
                    failures += not update
                    if not update:
                        print(f'{path}: $ {command}\n--- the document shows\n{expected}--- it prints\n{printed}---')
                keep = '...\n' in expected or matches(expected, printed)
                inside += f'$ {command}\n' + (expected if keep else printed)
            rewritten.append((start, end, inside))
    if ran == 0:
        print(f'{path}: no example found')
        failures += 1
    if update:
        for start, end, inside in reversed(rewritten):
            text = text[:start] + inside + text[end:]
        with open(path, 'w', encoding='utf-8') as file:
            file.write(text)
    print(f'{path}: {ran} examples, {failures} differ')
    return failures


def main():
    arguments = sys.argv[1:]
    update = '--update' in arguments
    arguments = [a for a in arguments if a != '--update']
    if len(arguments) < 3:
        raise SystemExit(__doc__)
    allocsim, root, *documents = arguments
    assert not matches('a\n', 'b\n') and matches('a\n...\nc\n', 'a\nb\nb\nc\n')
    assert matches('replayed in 3 ms, 4 M events/s\n', 'replayed in 5 us, 1 k events/s\n')
    raise SystemExit(1 if sum(check(path, allocsim, root, update) for path in documents) else 0)


main()
