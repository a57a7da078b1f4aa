#!/usr/bin/env python3
"""The texts of the mutation table still stand in the tree, each exactly once.

usage: check.py ROOT
"""
import pathlib
import sys

from mutations import MUTATIONS


def problems(root):
    if len(MUTATIONS) < 45:
        yield f'the table has only {len(MUTATIONS)} mutations'
    if len({(file, old, new) for _, file, old, new in MUTATIONS}) != len(MUTATIONS):
        yield 'a mutation stands in the table twice'
    for rule, file, old, new in MUTATIONS:
        count = (pathlib.Path(root) / 'policies' / file).read_text().count(old)
        if count != 1:
            yield (f'{rule}: policies/{file} has {count} times: {old}\n'
                   '    change the table in tests/mutation/mutations.py along with the policy')
        if old == new:
            yield f'{rule}: policies/{file} stays as it is: {old}'


if __name__ == '__main__':
    found = list(problems(sys.argv[1]))
    for line in found:
        print(line)
    sys.exit(bool(found))
