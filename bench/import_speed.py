#!/usr/bin/env python3
"""import_speed.py IMPORT_DUMP FOLDER [SIZE...]: CPU time and peak memory of importing generated snapshots
(gen_snapshot.py, kept in FOLDER), against Python's own pickle.load of the same file. Both run on one core. Best of
three each; Python's once beyond 300 MB, and not at all with --alone."""
import os
import resource
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
PYTHON = 'import pickle, sys; pickle.load(open(sys.argv[1], "rb"))'


def measure(command, times):
    best, peak = None, 0
    for _ in range(times):
        pid = os.posix_spawnp(command[0], command, os.environ, file_actions=[
            (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)])
        _, status, used = os.wait4(pid, 0)
        if status:
            sys.exit(f'{command}: failed')
        best = min(best or 1e9, used.ru_utime + used.ru_stime)
        peak = max(peak, used.ru_maxrss)
    return best, peak / 1024


def main():
    args = [a for a in sys.argv[1:] if a != '--alone']
    if len(args) < 2:
        sys.exit(__doc__)
    program, folder, sizes = args[0], args[1], args[2:] or ['50M', '250M', '1G']
    print('file         bytes  import s    MiB  MB/s  pickle.load s    MiB  times faster')
    for size in sizes:
        path = os.path.join(folder, f'snapshot-{size}.pickle')
        if not os.path.exists(path):
            subprocess.run([sys.executable, os.path.join(HERE, 'gen_snapshot.py'), size, path], check=True,
                           stdout=subprocess.DEVNULL)
        length = os.path.getsize(path)
        seconds, memory = measure([program, '--count', path], 3)
        line = f'{size:4} {length:13} {seconds:9.2f} {memory:6.0f} {length / 1e6 / seconds:5.0f}'
        if '--alone' not in sys.argv:
            theirs, their_memory = measure([sys.executable, '-c', PYTHON, path], 3 if length < 3e8 else 1)
            line += f' {theirs:14.2f} {their_memory:6.0f} {theirs / seconds:13.1f}'
        print(line, flush=True)


if __name__ == '__main__':
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    main()
