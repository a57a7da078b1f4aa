#!/usr/bin/env python3
"""Broken inputs: each gets its own message and exit status, nothing crashes, nothing is left behind.

usage: broken.py ALLOCSIM [NAME...]

A row of CASES makes its input in an empty folder and names the command, its exit status and what the message must say
(a regular expression). Messages differ from row to row, unless a row says that it shares one.
"""
import os
import pickle
import re
import resource
import shutil
import sqlite3
import struct
import subprocess
import sys
import tempfile

import recordings

MEMORY = 3 << 30  # bytes of address space that a command may take


def put(name, data):
    with open(name, 'wb') as file:
        file.write(data)


def small_pickle(protocol=4):
    return pickle.dumps(recordings.small(), protocol=protocol)


def recording():
    recordings.write('small.pickle')


def put_pickle(make):
    return lambda: put('x.pickle', make())


def class_reference():
    return b'\x80\x04cposix\nsystem\n\x8c\x02id\x85R.'


def nested():
    return b'\x80\x04' + b']' * 100_000 + b'a' * 99_999 + b'.'


def huge_text():
    return b'\x80\x04\x8d' + struct.pack('<Q', 1 << 40) + b'abc'


def zstd(data, *options):
    return subprocess.run(['zstd', '-q', '-c', *options], input=data, stdout=subprocess.PIPE, check=True).stdout


def zstd_bomb():
    """4 GiB of zeros in a few hundred KiB, which begin like a pickle."""
    chunk = zstd(bytes(64 << 20))
    put('x.pickle', zstd(b'\x80\x04]') + chunk * 64)


def foreign_database():
    recording()
    with sqlite3.connect('allocsim.db') as db:
        db.execute('CREATE TABLE t(x)')
        db.execute('INSERT INTO t VALUES(1)')


def newer_store(allocsim):
    def make():
        recording()
        subprocess.run([allocsim, 'run', '-q', 'small.pickle'], check=True, stdout=subprocess.DEVNULL)
        with sqlite3.connect('allocsim.db') as db:
            db.execute('PRAGMA user_version=99')
    return make


def cut_store(allocsim):
    def make():
        recording()
        subprocess.run([allocsim, 'run', '-q', 'small.pickle'], check=True, stdout=subprocess.DEVNULL)
        os.truncate('allocsim.db', os.path.getsize('allocsim.db') // 2)
    return make


def with_recording(name, data=None):
    def make():
        recording()
        if data is None:
            os.mkdir(name)
        else:
            put(name, data)
    return make


def damaged_trace(allocsim, change):
    def make():
        recording()
        subprocess.run([allocsim, 'import', '-q', 'small.pickle', '-o', 'good.zst'], check=True)
        with open('good.zst', 'rb') as file:
            put('x.pickle', change(file.read()))
        os.remove('good.zst')
    return make


def cases(allocsim):
    run, store = ['run', '--no-db', 'x.pickle'], ['run', 'small.pickle']
    yield 'missing', lambda: None, run, 3, 'No such file'
    yield 'empty', put_pickle(lambda: b''), run, 3, 'empty'
    yield 'directory', lambda: os.mkdir('x.pickle'), run, 3, 'is a directory'
    yield 'text', put_pickle(lambda: b'hello world\n' * 100), run, 3, 'neither a trace .* nor a recording'
    yield 'truncated pickle', put_pickle(lambda: small_pickle()[:-40]), run, 3, 'ends|truncated'
    yield 'class reference', put_pickle(class_reference), run, 3, 'class|names|refer'
    yield 'nested 100000 deep', put_pickle(nested), run, 3, 'nest|deep'
    yield 'text of 2^40 bytes', put_pickle(huge_text), run, 3, None
    yield 'wrong kind of object', put_pickle(lambda: pickle.dumps({'a': 1})), run, 3, None
    yield 'damaged gzip', put_pickle(lambda: b'\x1f\x8b\x08\x00' + b'\x55' * 60), run, 3, 'gzip'
    yield 'damaged zstd', put_pickle(lambda: zstd(small_pickle())[:-9]), run, 3, 'zstd'
    yield 'zstd bomb', zstd_bomb, run, 3, None

    yield 'trace of another version', damaged_trace(allocsim, lambda data: data[:16] + b'\x09' + data[17:]), \
        run, 3, r'version 9\.0'
    yield 'trace with a blank header', damaged_trace(allocsim, lambda data: bytes(96) + data[96:]), run, 3, 'neither'
    yield 'import of text', lambda: put('x.pickle', b'hello\n' * 9), ['import', 'x.pickle', '-o', 'x.zst'], 3, \
        'neither'
    yield 'import into no folder', recording, ['import', 'small.pickle', '-o', 'none/x.zst'], 5, 'none/x.zst'
    yield 'import of a truncated pickle', put_pickle(lambda: small_pickle()[:-40]), \
        ['import', 'x.pickle', '-o', 'x.zst'], 3, None

    yield 'store is a directory', with_recording('allocsim.db'), store, 3, 'a directory, not a store'
    yield 'store is a text', with_recording('allocsim.db', b'some text\n' * 500), store, 3, 'no SQLite database'
    yield 'store of another program', foreign_database, store, 3, 'of another program'
    yield 'store of a newer version', newer_store(allocsim), store, 3, 'newer allocsim .schema version 99'
    yield 'store cut in half', cut_store(allocsim), store, 3, 'store is damaged'
    yield 'no folder for the store', recording, store + ['--db', 'none/a.db'], 5, 'none: No such file'
    yield 'no store to list', lambda: None, ['db', 'ls'], 3, 'there is no such store'
    yield 'empty store to list', lambda: put('allocsim.db', b''), ['db', 'ls'], 3, 'an empty file, not a store'
    yield 'profile is a directory', recording, store + ['--device', './'], 3, 'directory'
    yield 'profile is nonsense', with_recording('p.profile', b'name x\nspeed 3\n'), \
        store + ['--device', 'p.profile'], 3, 'p.profile'

    sweep = ['sweep', '--max-split', '32:64:x2']
    yield 'sweep of nothing', lambda: None, sweep + ['none.zst', 'neither.zst'], 3, 'none.zst: .*No such file'
    yield 'sweep of a text', put_pickle(lambda: b'hello sweep\n' * 9), sweep + ['./x.pickle'], 3, 'neither a trace'
    yield 'sweep into a folder', with_recording('s.db'), sweep + ['--db', 's.db', 'small.pickle'], 3, 's.db: a dir'
    yield 'sweep with a range that ends early', recording, ['sweep', '--max-split', '64:32:+8', 'small.pickle'], 2, \
        'the range 64:32:.8: it ends before it begins'
    yield 'sweep over an unknown parameter', recording, ['sweep', '--set', 'max_split=64', 'small.pickle'], 2, \
        'has a parameter max_split'
    yield 'merge of a text', with_recording('x.db', b'not a store\n' * 99), ['db', 'merge', 'new.db', 'x.db'], 3, \
        'x.db: not a store'
    yield 'merge of an empty store', lambda: put('x.db', b''), ['db', 'merge', 'new.db', 'x.db'], 3, 'an empty file'
    yield 'merge into no folder', lambda: put('x.db', b''), ['db', 'merge', 'none/new.db', 'x.db'], 5, 'none: No such'


def restricted_cases():
    """Run by a user that permissions hold for."""
    def read_only_file():
        recording()
        put('allocsim.db', b'')
        os.chmod('allocsim.db', 0o444)

    def read_only_folder():
        recording()
        os.mkdir('locked', 0o555)

    def unreadable():
        put('x.pickle', small_pickle())
        os.chmod('x.pickle', 0)

    yield 'read-only store', read_only_file, ['run', 'small.pickle'], 5, "store can't be written: Permission"
    yield 'read-only folder', read_only_folder, ['run', '--db', 'locked/a.db', 'small.pickle'], 5, \
        "folder can't be written"
    yield 'sweep into a read-only folder', read_only_folder, ['sweep', '--db', 'locked/s.db', 'small.pickle'], 5, \
        'locked/s.db: .*can.t be written'
    yield 'unreadable file', unreadable, ['run', '--no-db', 'x.pickle'], 5, 'Permission denied'


def listing():
    found = {}
    for folder, folders, files in os.walk('.'):
        for name in folders + files:
            path = os.path.join(folder, name)
            status = os.lstat(path)
            found[path] = status.st_size, status.st_mtime_ns
    return found


def limits(user):
    def apply():
        if not sanitized:
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        if user:
            os.setgid(user)
            os.setuid(user)
    return apply


def check(allocsim, case, user=None):
    name, make, command, status, pattern = case
    make()
    if user:
        shutil.copy(allocsim, 'program')
        os.chmod('program', 0o755)
        for folder, folders, files in os.walk('.'):
            for entry in ['.'] + folders + files:
                os.chown(os.path.join(folder, entry), user, user)
        allocsim = os.path.abspath('program')
    before = listing()
    done = subprocess.run([allocsim, *command], capture_output=True, text=True, timeout=300, check=False,
                          preexec_fn=limits(user), errors='replace')
    text = done.stderr
    if done.returncode != status:
        yield f'exit {done.returncode}, expected {status}: {text}'
    if not re.fullmatch(r'(allocsim: [^\n]+\n)+', text):
        yield f'not a message of one line: {text!r}'
    elif pattern and not re.search(pattern, text):
        yield f'the message does not say "{pattern}": {text}'
    if done.stdout:
        yield f'standard output holds {done.stdout[:100]!r}'
    if listing() != before:
        yield f'left behind or changed: {set(listing().items()) ^ set(before.items())}'
    if pattern != 'neither' and 'import of a' not in name:  # these share a message with another row
        messages.setdefault(text.splitlines()[-1] if text else '', []).append(name)


def check_every_byte(allocsim):
    """A small trace, cut after every byte (which includes every frame boundary) and with every byte flipped. Bits
    that a compressed block leaves unused may flip: then everything is as it was."""
    def replay():
        return subprocess.run([allocsim, 'run', '--no-db', '--format', 'csv', 'x.pickle'], capture_output=True,
                              text=True, timeout=60, check=False, preexec_fn=limits(None), errors='replace')

    damaged_trace(allocsim, lambda data: data)()
    with open('x.pickle', 'rb') as file:
        good = file.read()
    expected = replay().stdout
    for at in range(len(good)):
        for what, data in (('cut', good[:at]), ('flipped', good[:at] + bytes([good[at] ^ 0x40]) + good[at + 1:])):
            put('x.pickle', data)
            done = replay()
            if what == 'flipped' and done.returncode == 0 and done.stdout == expected:
                continue
            if done.returncode != 3 or not re.fullmatch(r'allocsim: x\.pickle: [^\n]+\n', done.stderr):
                yield f'{what} at byte {at} of {len(good)}: exit {done.returncode}: {done.stderr}'


messages = {}
sanitized = False  # its program maps terabytes of address space, none of it used


def main(allocsim, *only):
    global sanitized
    with open(allocsim, 'rb') as file:
        sanitized = b'__asan_init' in file.read()
    allocsim, here, failed, count = os.path.abspath(allocsim), os.getcwd(), 0, 0
    rows = [(case, None) for case in cases(allocsim)]
    if os.geteuid() == 0:
        rows += [(case, 65534) for case in restricted_cases()]
    else:
        rows += [(case, None) for case in restricted_cases()]
    for case, user in rows:
        if only and case[0] not in only:
            continue
        with tempfile.TemporaryDirectory(prefix='allocsim-broken-') as folder:
            os.chmod(folder, 0o755)
            os.chdir(folder)
            count += 1
            for problem in check(allocsim, case, user):
                print(f'{case[0]}: {problem}')
                failed += 1
            for path in ('locked', 'x.pickle'):
                if os.path.exists(path):
                    os.chmod(path, 0o755)
            os.chdir(here)
    with tempfile.TemporaryDirectory(prefix='allocsim-broken-') as folder:
        os.chdir(folder)
        for problem in check_every_byte(allocsim):
            print(problem)
            failed += 1
        os.chdir(here)
    for text, names in messages.items():
        if len(names) > 1:
            print(f'one message for {names}: {text}')
            failed += 1
    if only:
        print('\n'.join(messages))
    print(f'{count} broken inputs, {failed} problems')
    return 1 if failed or not count else 0


if __name__ == '__main__':
    sys.exit(main(*sys.argv[1:]))
