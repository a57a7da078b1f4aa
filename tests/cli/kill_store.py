#!/usr/bin/env python3
"""Kills `allocsim run`, `sweep` and `db merge` before every call that changes a file, then fills the disk at every
one of them, and looks at the store afterwards.

usage: kill_store.py ALLOCSIM SHIM

After a kill the store opens, holds every run that was reported, and takes the next one. After a full disk the
status is 5, the store is as it was, and a store that did not exist still does not.
"""
import os
import shutil
import subprocess
import sys
import tempfile

import recordings

STEPS_MAX = 2000


class Place:
    def __init__(self, allocsim, shim, folder):
        self.allocsim, self.shim, self.folder = os.path.abspath(allocsim), os.path.abspath(shim), folder
        self.db = os.path.join(folder, 'a.db')
        recordings.write(os.path.join(folder, 'small.pickle'))

    def command(self, *arguments, fault=None, mode='kill'):
        env = dict(os.environ)
        if fault:
            env.update(LD_PRELOAD=self.shim, FAULT_AT=str(fault), FAULT_MODE=mode)
            # A sanitizer's library wants to come first; here it may come second.
            env['ASAN_OPTIONS'] = env.get('ASAN_OPTIONS', '') + ':verify_asan_link_order=0'
        return subprocess.run([self.allocsim, *arguments], cwd=self.folder, env=env, capture_output=True,
                              text=True, timeout=60, check=False)

    def run(self, seed, **fault):
        return self.command('run', '-q', '--db', 'a.db', '--layout', '--seed', str(seed), 'small.pickle', **fault)

    def runs(self):
        listed = self.command('db', 'ls', 'a.db')
        if listed.returncode:
            return None
        return sum(line[:4].strip().isdigit() for line in listed.stdout.splitlines())

    def files(self):
        return sorted(name for name in os.listdir(self.folder) if name.startswith('a.db'))

    def content(self):
        if not os.path.exists(self.db):
            return None
        with open(self.db, 'rb') as file:
            return file.read()

    def restore(self, saved):
        for name in self.files():
            os.remove(os.path.join(self.folder, name))
        if saved:
            shutil.copy(saved, self.db)


def fail(what):
    print(what)
    sys.exit(1)


def kill_everywhere(place, before, saved):
    """before: how many runs the store holds; seed `before` is the one to be added."""
    for step in range(1, STEPS_MAX):
        place.restore(saved)
        done = place.run(before, fault=step)
        reported = 'stored as run' in done.stdout
        if done.returncode == 0:
            if not reported or place.runs() != before + 1:
                fail(f'undisturbed, yet not stored: {done.stdout}{done.stderr}')
            return step - 1
        if done.returncode != -9:
            fail(f'step {step}: exit {done.returncode}: {done.stderr}')
        if before:
            checked = place.command('db', 'check', 'a.db')
            if checked.returncode:
                fail(f'killed at step {step} of run {before + 1}: {checked.stdout}{checked.stderr}')
            if place.runs() not in ((before + 1,) if reported else (before, before + 1)):
                fail(f'killed at step {step}: {place.runs()} runs, {before} were reported before')
        elif reported and place.runs() != 1:
            fail(f'killed at step {step}: the run that was reported is lost')
        again = place.run(before)
        if again.returncode or place.runs() != before + 1:
            fail(f'killed at step {step}: the next run is not stored: {again.stderr}')
        if place.files() != ['a.db']:
            fail(f'killed at step {step}: the next run leaves {place.files()}')
    return fail('it never ends')


def fill_everywhere(place, before, saved):
    for step in range(1, STEPS_MAX):
        place.restore(saved)
        content = place.content()
        done = place.run(before, fault=step, mode='enospc')
        if done.returncode == 0:
            return step - 1
        if done.returncode != 5 or 'the disk is full' not in done.stderr and 'No space left' not in done.stderr:
            fail(f'disk full at step {step}: exit {done.returncode}: {done.stderr}')
        if done.stdout:
            fail(f'disk full at step {step}: a result was printed')
        if place.content() != content or place.files() != (['a.db'] if saved else []):
            fail(f'disk full at step {step}: {place.files()} left behind or changed')
    return fail('it never ends')


def sweep_everywhere(place):
    """A sweep of three runs, killed before every call: what it stored stays, and the next one adds only the rest."""
    def sweep(jobs=1, **fault):
        return place.command('sweep', '--jobs', str(jobs), '--db', 'a.db', '--format', 'csv', '--max-split',
                             'none,32,64', 'small.pickle', **fault)

    for step in (1, 5, 9, 30, 60):
        place.restore(None)
        done = sweep(jobs=3, fault=step, mode='enospc')
        if done.returncode != 5 or done.stderr.count('the disk is full') != 1:
            fail(f'disk full at step {step} of a sweep: exit {done.returncode}: {done.stderr}')
    for step in range(1, STEPS_MAX):
        place.restore(None)
        done = sweep(fault=step)
        if done.returncode == 0:
            return step - 1
        kept = 0
        if place.content():
            checked = place.command('db', 'check', 'a.db')
            kept = place.runs() or 0  # none: the first run's journal is rolled back to an empty file
            if checked.returncode and kept or kept > 3:
                fail(f'a sweep killed at step {step}: {kept} runs: {checked.stdout}{checked.stderr}')
        again = sweep()
        if again.returncode or place.runs() != 3 or f'3, of which {kept} were there before' not in again.stderr:
            fail(f'a sweep killed at step {step}: the next one does not add {3 - kept} runs: {again.stderr}')
    return fail('it never ends')


def merge_everywhere(place, saved):
    """A merge of two runs into a store of one, killed before every call: the store holds one run or three."""
    other = os.path.join(place.folder, 'other.db')
    for seed in ('11', '12'):
        place.command('run', '-q', '--db', other, '--seed', seed, 'small.pickle')
    for step in range(1, STEPS_MAX):
        place.restore(saved)
        done = place.command('db', 'merge', 'a.db', 'other.db', fault=step)
        if done.returncode == 0:
            if place.runs() != 3:
                fail(f'undisturbed, yet not merged: {done.stdout}{done.stderr}')
            return step - 1
        checked = place.command('db', 'check', 'a.db')
        if checked.returncode or place.runs() not in (1, 3):
            fail(f'a merge killed at step {step}: {place.runs()} runs: {checked.stdout}{checked.stderr}')
        again = place.command('db', 'merge', 'a.db', 'other.db')
        if again.returncode or place.runs() != 3 or place.files() != ['a.db']:
            fail(f'a merge killed at step {step}: the next one fails: {again.stderr}')
    return fail('it never ends')


def main(allocsim, shim):
    with tempfile.TemporaryDirectory(prefix='allocsim-kill-') as folder:
        place = Place(allocsim, shim, folder)
        saved = os.path.join(folder, 'saved')
        first = kill_everywhere(place, 0, None)
        shutil.copy(place.db, saved)
        second = kill_everywhere(place, 1, saved)
        full = fill_everywhere(place, 0, None) + fill_everywhere(place, 1, saved)
        merged, swept = merge_everywhere(place, saved), sweep_everywhere(place)
        print(f'killed at {first} + {second} steps, merges at {merged}, sweeps at {swept}, disk full at {full}')
        if min(first, second, full, merged, swept) < 5:
            fail('too few steps: is the shim loaded?')


if __name__ == '__main__':
    main(*sys.argv[1:])
