#!/usr/bin/env python3
"""Runs the command-line cases: NAME.cmd beside what it must print.

usage: run_cases.py [--update] ALLOCSIM FOLDER [NAME...]

NAME.cmd is run by sh in an empty folder that holds the recording small.pickle; allocsim is on its path, and
$SAMPLES is the folder of recordings that the repository ships. It must
print NAME.stdout and NAME.stderr (absent: nothing) and exit with NAME.exit (absent: 0). In what is expected,
{{...}} is a regular expression. --update writes the files anew from what was printed, without expressions: review them.
"""
import os
import re
import subprocess
import sys
import tempfile

import recordings

SAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'traces', 'samples')


def read(path, default):
    try:
        with open(path, encoding='utf-8') as file:
            return file.read()
    except FileNotFoundError:
        return default


def matches(expected, text):
    parts = re.split(r'\{\{(.*?)\}\}', expected)
    pattern = ''.join(part if index % 2 else re.escape(part) for index, part in enumerate(parts))
    return re.fullmatch(pattern, text) is not None


def run(allocsim, folder, name):
    with tempfile.TemporaryDirectory(prefix='allocsim-case-') as place:
        work, programs = os.path.join(place, 'work'), os.path.join(place, 'bin')
        os.mkdir(work)
        os.mkdir(programs)
        os.symlink(os.path.abspath(allocsim), os.path.join(programs, 'allocsim'))
        recordings.write(os.path.join(work, 'small.pickle'))
        env = dict(os.environ, SAMPLES=SAMPLES, PATH=programs + os.pathsep + os.environ['PATH'],
                   NO_COLOR='1', LC_ALL='C.UTF-8')
        done = subprocess.run(['sh', os.path.abspath(os.path.join(folder, name + '.cmd'))], cwd=work, env=env,
                              capture_output=True, stdin=subprocess.DEVNULL, timeout=120, check=False)
    return done.stdout.decode(), done.stderr.decode(), done.returncode


def check(allocsim, folder, name):
    stdout, stderr, status = run(allocsim, folder, name)
    base = os.path.join(folder, name)
    problems = []
    for what, text in (('stdout', stdout), ('stderr', stderr)):
        expected = read(f'{base}.{what}', '')
        if not matches(expected, text):
            problems.append(f'{what}: expected\n{expected}--- found\n{text}---')
    expected = int(read(base + '.exit', '0'))
    if status != expected:
        problems.append(f'exit status: expected {expected}, found {status}')
    return problems


def update(allocsim, folder, name):
    stdout, stderr, status = run(allocsim, folder, name)
    base = os.path.join(folder, name)
    for what, text in (('stdout', stdout), ('stderr', stderr), ('exit', f'{status}\n' if status else '')):
        path = f'{base}.{what}'
        if text:
            with open(path, 'w', encoding='utf-8') as file:
                file.write(text)
        elif os.path.exists(path):
            os.remove(path)


def main(arguments):
    updating = arguments[:1] == ['--update']
    allocsim, folder, *names = arguments[updating:]
    names = names or sorted(name[:-4] for name in os.listdir(folder) if name.endswith('.cmd'))
    failed = 0
    for name in names:
        if updating:
            update(allocsim, folder, name)
            continue
        problems = check(allocsim, folder, name)
        failed += bool(problems)
        for problem in problems:
            print(f'{name}: {problem}')
    print(f'{len(names)} cases, {failed} failed')
    return 1 if failed or not names else 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
