#!/usr/bin/env python3
"""Every tests/unit/test_NAME.c is in the list of tests/meson.build. Run when the build is configured.

usage: known_tests.py FOLDER NAME...
"""
import os
import re
import sys

import tree


def check(folder, *known):
    there = {match.group(1) for name in os.listdir(folder)
             if (match := re.fullmatch(r'test_(\w+)\.c', name))}
    for name in sorted(there - set(known)):
        yield f'tests/unit/test_{name}.c is in no list of tests/meson.build: add \'{name}\''
    if list(known) != sorted(set(known)):
        yield 'the list of unit tests in tests/meson.build is not sorted, or has a name twice'


if __name__ == '__main__':
    tree.main(check, *sys.argv[1:])
