#!/usr/bin/env python3
"""What a terminal sees: colours, and a progress bar for work over a second, which is wiped at the end.

usage: terminal.py ALLOCSIM
"""
import os
import pty
import re
import subprocess
import sys
import tempfile
import threading

import recordings

BOLD, BAR = b'\033[1m', b'replaying ['


def on_terminal(command, folder, out=True, err=True, **extra):
    """Runs command with standard output and error each on a terminal, or a pipe; returns both and the status."""
    env = {key: value for key, value in os.environ.items() if key not in ('NO_COLOR', 'TERM')}
    env.update({'TERM': 'xterm', **extra})
    ends = [pty.openpty() if terminal else os.pipe() for terminal in (out, err)]
    process = subprocess.Popen(command, cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=ends[0][1],
                               stderr=ends[1][1])
    texts = [b'', b'']
    for _, writer in ends:
        os.close(writer)
    # A terminal's buffer is small: both are read while the program runs.
    def drain(index, reader):
        while True:
            try:
                part = os.read(reader, 65536)
            except OSError:  # a terminal whose other side is closed
                part = b''
            if not part:
                return
            texts[index] += part

    threads = [threading.Thread(target=drain, args=(index, end[0])) for index, end in enumerate(ends)]
    for thread in threads:
        thread.start()
    status = process.wait(timeout=300)
    for thread in threads:
        thread.join()
    for reader, _ in ends:
        os.close(reader)
    return texts[0], texts[1], status


def check(allocsim):
    with tempfile.TemporaryDirectory(prefix='allocsim-terminal-') as folder:
        recordings.write(os.path.join(folder, 'small.pickle'))
        short = [allocsim, 'run', '--no-db', 'small.pickle']
        out, err, status = on_terminal(short, folder)
        if status or BOLD not in out:
            yield f'no colours on a terminal: {out}{err}'
        if BAR in err:
            yield 'a bar for work that takes no time'
        for extra in ({'NO_COLOR': '1'}, {'TERM': 'dumb'}):
            out, _, _ = on_terminal(short, folder, **extra)
            if b'\033' in out:
                yield f'colours in spite of {extra}'
        out, _, _ = on_terminal(short, folder, out=False)
        if b'\033' in out:
            yield 'colours in a pipe'

        count = 1000
        while True:  # as many traces as take two seconds
            long = [allocsim, 'run', '--no-db', '--jobs', '1', '--format', 'csv', '-p', 'torchcache'] + \
                ['small.pickle'] * count
            _, err, status = on_terminal(long, folder, out=False)
            if status or BAR in err or count > 100_000:
                break
            count *= 2
        if status or BAR not in err:
            yield f'no bar for {count} traces'
        elif any(b'\r\033[K' not in part[part.rfind(BAR):] for part in err.split(b'\r\n') if BAR in part):
            yield 'a bar is not wiped before other output'
        for option in ('--no-progress', '--quiet'):
            _, err, _ = on_terminal(long + [option], folder, out=False)
            if BAR in err:
                yield f'a bar in spite of {option}'
        _, err, _ = on_terminal(long, folder, out=False, err=False)
        if BAR in err:
            yield 'a bar in a pipe'


def check_sweep(allocsim):
    """Done of all runs, events a second and the time that is left, for a sweep of two seconds and more."""
    pattern = re.compile(rb'sweeping \[#*\.*\] +\d+ %  \d+ of (\d+) runs, \d+\.\d M/s, \d+(\.\d+)? (s|ms|us|ns) left')
    with tempfile.TemporaryDirectory(prefix='allocsim-terminal-') as folder:
        count, most = 500, 60_000
        while True:
            with open(os.path.join(folder, 't.txt'), 'w', encoding='utf-8') as file:
                file.write('alloc a 3MiB\nfree a\n' * 1000)
            command = [allocsim, 'sweep', '--no-db', '--jobs', '1', '--format', 'csv', '--max-split',
                       f'21:{20 + count}:+1', 't.txt']
            _, err, status = on_terminal(command, folder, out=False)
            if status or b'sweeping [' in err or count > most:
                break
            count *= 2
        found = pattern.search(err)
        if status or not found or int(found[1]) != count:
            yield f'no bar with rate and remaining time for {count} runs: {err[:300]}'
        if not err.rstrip(b'\r\n').endswith(b'\033[K') and b'\r\033[K' not in err:
            yield f'the bar of a sweep is not wiped: {err[-300:]}'


def main(allocsim):
    try:
        for end in pty.openpty():
            os.close(end)
    except OSError as error:
        print(f'skipped: this system gives no terminal: {error}')
        return 77
    problems = list(check(os.path.abspath(allocsim))) + list(check_sweep(os.path.abspath(allocsim)))
    print('\n'.join(problems) or 'a terminal sees what it should')
    return 1 if problems else 0


if __name__ == '__main__':
    sys.exit(main(*sys.argv[1:]))
