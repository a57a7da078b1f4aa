#!/usr/bin/env python3
"""Every header compiles alone, as C11 and without a warning, under each compiler that is there.

usage: headers.py ROOT [COMPILER...]      (gcc and clang, where installed)
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

import tree

FLAGS = ['-std=c11', '-D_GNU_SOURCE', '-Wall', '-Wextra', '-Wstrict-prototypes', '-Werror']


def compile_alone(root, compiler, header):
    with tempfile.TemporaryDirectory() as folder:
        source = os.path.join(folder, 'alone.c')
        with open(source, 'w', encoding='utf-8') as stream:
            # Twice: the guard must hold.
            stream.write(f'#include "{header}"\n#include "{header}"\nextern int not_empty;\n')
        command = [compiler, *FLAGS, '-I', root, '-c', source, '-o', os.devnull]
        return subprocess.run(command, capture_output=True, text=True, check=False)


def check(root, *compilers):
    present = [c for c in compilers or ('gcc', 'clang') if shutil.which(c)]
    if not present:
        yield 'no C compiler found'
    for name in tree.files(root):
        if not name.endswith('.h') or name.startswith('gpu_replay/'):
            continue
        guard = 'ASIM_' + re.sub(r'[^A-Z0-9]', '_', name.upper())
        if f'#ifndef {guard}\n#define {guard}\n' not in (tree.read_text(root, name) or ''):
            yield f'{name}: has no include guard {guard}'
        for compiler in present:
            result = compile_alone(root, compiler, name)
            if result.returncode:
                yield f'{name}: does not compile alone with {compiler}:\n{result.stderr.rstrip()}'


if __name__ == '__main__':
    tree.main(check, *sys.argv[1:])
