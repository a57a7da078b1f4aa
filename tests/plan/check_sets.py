#!/usr/bin/env python3
"""check_sets.py PLAN_CHECK FOLDER NAME...

Packs each set of the folder into the capacity in its name and has every packing checked; then sees to it that
the checker notices packings that are wrong."""
import glob
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import validate  # noqa: E402


def check_set(program, path, place):
    capacity = os.path.basename(path).split('.')[1]
    packed = os.path.join(place, 'packed.csv')
    with open(packed, 'w', encoding='utf-8') as out:
        done = subprocess.run([program, path, capacity], stdout=out, stderr=subprocess.PIPE, text=True, check=False)
    print(f'{os.path.basename(path)}: {done.stderr.strip()}')
    if done.returncode:
        print(f'{path}: plan_check exits with {done.returncode}')
        return 1
    return validate.main(path, packed, int(capacity))


def check_validator():
    """Two buffers that meet, and one later: each mistake is named once."""
    rows = [(0, 4, 10, 1, None), (3, 6, 10, 8, None), (4, 8, 5, 1, None)]
    cases = [([0, 16, 0], 26, []), ([0, 8, 0], 26, ['overlap']), ([0, 17, 0], 27, ['no multiple']),
             ([0, 16, 0], 25, ['beyond']), ([0, 16, 20], 26, ['overlap']), ([-1, 16, 0], 26, ['beyond'])]
    wrong = 0
    for offsets, capacity, words in cases:
        found = list(validate.problems(rows, offsets, capacity))
        if len(found) != len(words) or any(word not in line for word, line in zip(words, found)):
            print(f'the validator says {found} of {offsets} in {capacity}')
            wrong = 1
    return wrong


def main(program, folder, *names):
    paths = [os.path.join(folder, f'{name}.csv') for name in names] or sorted(glob.glob(f'{folder}/*.csv'))
    with tempfile.TemporaryDirectory() as place:
        return max([check_validator()] + [check_set(program, path, place) for path in paths])


if __name__ == '__main__':
    sys.exit(main(*sys.argv[1:]))
