#!/usr/bin/env python3
"""Stops sweeps at random moments, with kill -9 and with Ctrl-C, goes on, and compares with one that was left alone.

usage: sweep_resume.py ALLOCSIM RECORDING [SEED]

After every stop the store opens, is whole, and each run in it is, row by row, the one of the undisturbed sweep; the
next sweep repeats none of them. Any number of workers gives the same store.
"""
import os
import random
import signal
import subprocess
import sys
import tempfile
import time

import stores

KILLS = 20
VALUES = 'none,21:120:+1'


class Sweeps:
    def __init__(self, allocsim, folder):
        self.allocsim, self.folder = os.path.abspath(allocsim), folder

    def command(self, db, *more):
        return [self.allocsim, 'sweep', '--no-progress', '--format', 'csv', '--db', db, '--max-split', VALUES,
                '--capacity', '64GiB,80GiB', *more, 'step.zst']

    def whole(self, db, *more):
        done = subprocess.run(self.command(db, *more), cwd=self.folder, capture_output=True, text=True, timeout=600,
                              check=False)
        if done.returncode:
            fail(f'{more}: exit {done.returncode}: {done.stderr}')
        return done.stdout

    def stopped(self, db, after, number):
        process = subprocess.Popen(self.command(db), cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   text=True)
        time.sleep(after)
        process.send_signal(number)
        out, err = process.communicate(timeout=600)
        return process.returncode, out, err

    def check(self, db):
        done = subprocess.run([self.allocsim, 'db', 'check', db], cwd=self.folder, capture_output=True, text=True,
                              timeout=60, check=False)
        if done.returncode:
            fail(f'the store is not whole: {done.stdout}{done.stderr}')


def fail(what):
    print(what)
    sys.exit(1)


def compare(path, expected, what):
    found = stores.content(path)
    for key, run in found.items():
        if expected.get(key) != run:
            fail(f'{what}: the run {key} is not that of the undisturbed sweep')
    return len(found)


def stop_at_random(sweeps, expected, took, chance, number):
    """Stops a chain of sweeps over one store until all is stored, then lets one end; returns how many were stopped."""
    db = f'{int(number)}-{chance.randrange(1 << 30)}.db'
    path = os.path.join(sweeps.folder, db)
    stops = kept = told = 0
    while kept < len(expected):
        before = stores.about(path) if os.path.exists(path) else {}
        status, out, err = sweeps.stopped(db, chance.uniform(0, took / 4), number)
        if status == 0:
            break
        if status != -number:
            fail(f'{number}: exit {status}: {out[:400]}{err}')
        stops += 1
        if os.path.exists(path) and os.path.getsize(path):
            sweeps.check(db)
            kept = compare(path, expected, f'after stop {stops}')
            after = stores.about(path)
            if {run: after.get(run) for run in before} != before:
                fail('a stored run was repeated or lost')
            # Before the sweep begins, a signal ends the program without a word.
            if 'stopped' in err and f'runs in {db}: {kept};' not in err:
                fail(f'{kept} runs are in the store, and the message says: {err}')
            told += 'stopped' in err
    sweeps.whole(db)
    if compare(path, expected, 'at the end') != len(expected):
        fail('the sweep that went on is not complete')
    if number != signal.SIGKILL and not told:
        fail('no sweep said that it was stopped')
    return stops


def main(allocsim, recording, seed='20261201'):
    chance = random.Random(int(seed))
    with tempfile.TemporaryDirectory(prefix='allocsim-sweep-') as folder:
        subprocess.run([allocsim, 'import', '-q', recording, '-o', os.path.join(folder, 'step.zst')], check=True)
        sweeps = Sweeps(allocsim, folder)
        started = time.monotonic()
        printed = sweeps.whole('one.db', '--jobs', '1')
        took = time.monotonic() - started
        expected = stores.content(os.path.join(folder, 'one.db'))
        if len(expected) < 200:
            fail(f'only {len(expected)} runs: nothing to stop')
        for jobs in ('2', '7', '64'):
            if sweeps.whole(f'{jobs}.db', '--jobs', jobs) != printed:
                fail(f'--jobs {jobs} prints something else')
            if stores.content(os.path.join(folder, f'{jobs}.db')) != expected:
                fail(f'--jobs {jobs} stores something else')
        if sweeps.whole('one.db') != printed:
            fail('what is read back from a store is not what was printed')
        stops = 0
        while stops < KILLS:
            stops += stop_at_random(sweeps, expected, took, chance, signal.SIGKILL)
        interrupts = stop_at_random(sweeps, expected, took, chance, signal.SIGINT)
        terminated = stop_at_random(sweeps, expected, took, chance, signal.SIGTERM)
        if not interrupts or not terminated:
            fail('no sweep was interrupted: are they too short?')
        print(f'{len(expected)} runs; killed {stops} times, interrupted {interrupts}, terminated {terminated}')


if __name__ == '__main__':
    main(*sys.argv[1:])
