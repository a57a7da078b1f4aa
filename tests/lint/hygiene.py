#!/usr/bin/env python3
"""Text of the tree: line ends, file names, nothing of the machine or the place where it was written.

usage: hygiene.py ROOT
"""
import os
import re
import sys

import tree

# Written so that they don't match themselves.
FOREIGN = [
    (re.compile(r'(?<![\w.])/(hom[e]/(?!user/)|Use[r]s/|wor[k]/|tmp[/]w/)'), 'a path of one machine'),
    (re.compile(r'\.\./share[d]\b'), 'a path outside the repository'),
    (re.compile(r'\b(this|the next|previous) sessio[n]\b', re.I), 'talk about how the work was done'),
    (re.compile(r'\b(helper|sub|coding)[ -]?agent[s]?\b', re.I), 'talk about how the work was done'),
    (re.compile(r'\b(Claud[e]|ChatGP[T]|Copilo[t])\b', re.I), 'talk about how the work was done'),
    (re.compile(r'\bissu[e] [0-9]{1,3}\b', re.I), 'the number of a task'),
    (re.compile(r'\b(TOD[O]|FIXM[E]|XX[X])\b'), 'an open end'),
    (re.compile(r'^(<{7} |>{7} |={7}$)', re.M), 'a merge conflict'),
]

# Base names are unique among these, so that a name alone says which file is meant.
NAMED = re.compile(r'\.(c|h|cu|cuh|py)$')
LINE_MAX = 120  # the formatter keeps code below 110; tables and links of documents may be longer
COUNTED = re.compile(r'\.(c|h|cu|py)$|(^|/)meson\.build$')
DATA = re.compile(r'^tests/(cli|corpus|golden)/.*\.(stdout|stderr|bad|txt)$')


def check_text(name, text):
    if not text:
        if os.path.basename(name) != 'meson.build':  # a folder without anything to build yet
            yield f'{name}: is empty'
        return
    if DATA.search(name):
        return
    if not text.endswith('\n'):
        yield f'{name}: does not end with a newline'
    if text.endswith('\n\n'):
        yield f'{name}: ends with an empty line'
    if '\r' in text:
        yield f'{name}: has carriage returns'
    for number, line in enumerate(text.split('\n'), 1):
        if line != line.rstrip():
            yield f'{name}:{number}: ends with white space'
        if '\t' in line and NAMED.search(name):
            yield f'{name}:{number}: holds a tab'
        if len(line) > LINE_MAX and COUNTED.search(name):
            yield f'{name}:{number}: is longer than {LINE_MAX} characters'
    for pattern, what in FOREIGN:
        for match in pattern.finditer(text):
            number = text.count('\n', 0, match.start()) + 1
            yield f'{name}:{number}: {what}: "{match.group(0).strip()}"'


def check_names(names):
    seen = {}
    for name in names:
        if not re.fullmatch(r'[A-Za-z0-9_.+/-]+', name):
            yield f'{name}: a name of letters, digits and _ . + - is expected'
        base = os.path.basename(name)
        if NAMED.search(base):
            if base in seen:
                yield f'{name}: has the base name of {seen[base]}'
            seen[base] = name


def check(root):
    names = tree.files(root)
    yield from check_names(names)
    for name in names:
        text = tree.read_text(root, name)
        if text is not None:
            yield from check_text(name, text)


if __name__ == '__main__':
    tree.main(check, sys.argv[1])
