#!/usr/bin/env python3
"""Every C file is as clang-format leaves it. Skipped where release 14 is not installed.

usage: format.py ROOT
"""
import re
import shutil
import subprocess
import sys

import tree

RELEASE = 14  # others break lines differently


def formatter():
    for program in (f'clang-format-{RELEASE}', 'clang-format'):
        if shutil.which(program):
            version = subprocess.run([program, '--version'], capture_output=True, text=True, check=True).stdout
            if re.search(rf'version {RELEASE}\.', version):
                return program
    return None


def check(root):
    names = [name for name in tree.files(root) if re.search(r'\.(c|h|cu|cuh)$', name)]
    program = formatter()
    if names and program:
        result = subprocess.run([program, '--dry-run', '-Werror', *names], cwd=root, capture_output=True,
                                text=True, check=False)
        bad = sorted(set(re.findall(r'^(\S+?):\d+:\d+: error:', result.stderr, re.M)))
        yield from (f'{name}: run clang-format -i {name}' for name in bad)
        if result.returncode and not bad:
            yield result.stderr.strip()


if __name__ == '__main__':
    if not formatter():
        print(f'skipped: clang-format {RELEASE} is not installed')
        sys.exit(tree.SKIPPED_EXIT)
    tree.main(check, sys.argv[1])
