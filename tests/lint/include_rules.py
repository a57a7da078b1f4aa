#!/usr/bin/env python3
"""Which file may include which: the folders of the tree depend on each other in one direction only.

usage: include_rules.py ROOT

One row a kind of file: which files, and which of the project's headers they may include. The first row that
fits a file counts. \\1 is what the first group of the file's pattern matched.
"""
import re
import sys

import tree

FOUNDATION = r'sim/(buf|err|hash|hostmem|idmap|nearest|ordered_index|rng)\.h'
CONTRACTS = r'sim/(device|event|observer|params|policy|source)\.h'
SHARED_BY_POLICIES = (r'policies/(arena|compaction|free_index|inner|order_lists|'
                      r'region_blocks|registry|size_classes|stream_uses)\.h')

RULES = [
    # files                                                  may include
    (r'sim/(buf|err|hash|hostmem|idmap|nearest|ordered_index|rng)\.[ch]', [FOUNDATION]),
    (r'sim/(device|event|observer|params|policy|source)\.[ch]', [FOUNDATION, CONTRACTS]),
    (r'sim/.*', [r'sim/.*']),
    (r'traces/.*', [r'traces/.*', FOUNDATION, r'sim/(event|source|params)\.h']),
    (r'policies/registry\.c', [r'policies/.*', FOUNDATION, CONTRACTS]),
    # npu is a second table over torchcache's core: torch_npu's allocator is a fork of PyTorch's, and a copy of the
    # core would be two versions of the same rules.
    (r'policies/npu\.c', [r'policies/torchcache(_[a-z0-9_]+)?\.h', SHARED_BY_POLICIES, FOUNDATION, CONTRACTS]),
    # torchcache_round.c belongs to the policy torchcache: its own headers and the shared ones, no other policy's.
    (r'policies/([a-z0-9]+)(_[a-z0-9_]+)?\.[ch]',
     [r'policies/\1(_[a-z0-9_]+)?\.h', SHARED_BY_POLICIES, FOUNDATION, CONTRACTS]),
    (r'gpu_replay/.*', [r'gpu_replay/.*', r'sim/.*']),
    (r'tools/.*', [r'(gpu_replay|policies|sim|tools|traces)/.*']),
    (r'bench/.*', [r'(bench|gpu_replay|policies|sim|tools|traces)/.*']),
    (r'tests/.*', [r'.*/.*']),
]

INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]*)"', re.MULTILINE)


def expand(pattern, match):
    return pattern.replace('\\1', re.escape(match.group(1))) if '\\1' in pattern else pattern


def check(root):
    names = tree.files(root)
    known = set(names)
    for name in names:
        if not re.search(r'\.(c|h|cu|cuh)$', name):
            continue
        row = next(((re.fullmatch(files, name), allowed) for files, allowed in RULES
                    if re.fullmatch(files, name)), None)
        if row is None:
            yield f'{name}: lies in no folder that the include rules know'
            continue
        match, allowed = row
        patterns = [expand(pattern, match) for pattern in allowed]
        for header in INCLUDE.findall(tree.read_text(root, name) or ''):
            if header not in known and not header.endswith('.inc'):  # .inc: written by the build
                yield f'{name}: includes "{header}", which is no path from the root of the tree'
            elif not any(re.fullmatch(pattern, header) for pattern in patterns):
                yield f'{name}: may not include "{header}"'


if __name__ == '__main__':
    tree.main(check, sys.argv[1])
