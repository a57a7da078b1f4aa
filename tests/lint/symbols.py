#!/usr/bin/env python3
"""The libraries export names with the prefix asim_ only, and hold nothing that can be written to.

usage: symbols.py LIBRARY...      (object files or static libraries)

Two runs in one process share what a library keeps in a writable variable; without any, they can't disturb
each other. Tables of pointers lie in .data.rel.ro: written by the loader, constant afterwards.
"""
import os
import re
import subprocess
import sys

import tree

SYMBOL = re.compile(r'^[0-9a-f]+ (?P<flags>.{7}) (?P<section>\S+)\t[0-9a-f]+ +(?:\.hidden )?(?P<name>\S+)$')
WRITABLE = re.compile(r'\.(data|bss|tdata|tbss)(\.|$)|\*COM\*')
CONSTANT = re.compile(r'\.data\.rel\.ro(\.|$)')


def check(*libraries):
    for library in libraries:
        result = subprocess.run(['objdump', '-t', library], capture_output=True, text=True, check=False)
        if result.returncode:
            yield f'{library}: {result.stderr.strip()}'
            continue
        symbols = 0
        for line in result.stdout.splitlines():
            match = SYMBOL.match(line)
            if not match or match['section'] == '*UND*':
                continue
            symbols += 1
            short, name, section = os.path.basename(library), match['name'], match['section']
            is_object = 'O' in match['flags'] or re.match(r'\.t(data|bss)|\*COM', section)
            if WRITABLE.match(section) and not CONSTANT.match(section) and is_object:
                yield f'{short}: {name} in {section} can be written to; make it const or part of a state'
            if match['flags'][0] in 'gu!' or section == '*COM*' or match['flags'][1] == 'w':
                if not name.startswith('asim_'):
                    yield f'{short}: {name} is visible outside and lacks the prefix asim_'
        if not symbols:
            yield f'{library}: holds no symbol; is it a library?'


if __name__ == '__main__':
    tree.main(check, *sys.argv[1:])
