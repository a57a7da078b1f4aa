#!/usr/bin/env python3
"""validate.py FILE.csv PACKED.csv CAPACITY

Is PACKED.csv a packing of the buffers of FILE.csv into CAPACITY? Shares no code with the planner: reads both
files itself, and compares every buffer with every other. Rows must be the same, in the same order; offsets
must be multiples of the alignment, inside the capacity, and apart wherever two lives meet.

As a module: problems(rows, offsets, capacity)."""
import csv
import sys

ALIASES = {'buffer': 'id', 'buffer_id': 'id', 'begin': 'lower', 'start': 'lower'}


def read(path):
    """The rows of a list of buffers: (lower, upper, size, alignment, offset or None)."""
    rows = []
    with open(path, newline='', encoding='utf-8') as file:
        for row in csv.DictReader(file):
            row = {ALIASES.get(key, key): value for key, value in row.items()}
            upper = int(row['upper']) if 'upper' in row else int(row['end']) + 1
            offset = int(row['offset']) if 'offset' in row else None
            rows.append((int(row['lower']), upper, int(row['size']), int(row.get('alignment') or 1), offset))
    return rows


def problems(rows, offsets, capacity):
    """What is wrong with a packing, a line each."""
    placed = [(*row[:4], offset, index) for index, (row, offset) in enumerate(zip(rows, offsets)) if row[2] > 0]
    for _, _, size, alignment, offset, index in placed:
        if offset < 0 or offset + size > capacity:
            yield f'buffer {index}: {offset} + {size} is beyond {capacity}'
        if offset % alignment:
            yield f'buffer {index}: {offset} is no multiple of {alignment}'
    placed.sort()
    for i, (_, upper, size, _, offset, index) in enumerate(placed):
        for other in placed[i + 1:]:
            if other[0] >= upper:
                break
            if offset < other[4] + other[2] and other[4] < offset + size:
                yield f'buffers {index} and {other[5]} live at the same time and overlap'


def main(given, packed, capacity):
    rows, result = read(given), read(packed)
    found = []
    if [row[:4] for row in rows] != [row[:4] for row in result]:
        found.append('the rows are not those of the problem')
    else:
        found += problems(rows, [row[4] for row in result], capacity)
    for line in found:
        print(f'{packed}: {line}')
    return 1 if found else 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
