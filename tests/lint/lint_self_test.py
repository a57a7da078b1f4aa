#!/usr/bin/env python3
"""Proves that every check of this folder can fail: each is run on small bad trees.

usage: lint_self_test.py CC
"""
import os
import subprocess
import sys
import tempfile
import unittest

import format as formatting
import headers
import hygiene
import include_rules
import known_tests
import symbols

CC = 'cc'


class Tree(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.root = self.folder.name

    def write(self, name, text):
        path = os.path.join(self.root, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, 'w', encoding='utf-8', newline='') as stream:
            stream.write(text)
        return path

    def assert_found(self, findings, *fragments):
        """One finding for each fragment, in any order, and none besides."""
        findings = list(findings)
        for fragment in fragments:
            self.assertTrue(any(fragment in finding for finding in findings), (fragment, findings))
        self.assertEqual(len(findings), len(fragments), findings)


class IncludeRules(Tree):
    def check_one(self, name, header):
        self.write(header, '')
        self.write(name, f'#include <stdio.h>\n# include "{header}"\n')
        return list(include_rules.check(self.root))

    def test_each_forbidden_direction(self):
        for name, header in [('sim/err.c', 'sim/event.h'), ('sim/policy.h', 'sim/engine.h'),
                             ('sim/engine.c', 'policies/registry.h'), ('sim/engine.c', 'traces/native.h'),
                             ('traces/native.c', 'sim/engine.h'), ('traces/native.c', 'policies/registry.h'),
                             ('policies/pow2.c', 'sim/engine.h'), ('policies/pow2.c', 'traces/native.h'),
                             ('policies/pow2.c', 'policies/torchcache_conf.h'),
                             ('gpu_replay/cuda.c', 'tools/verbs.h'), ('tools/main.c', 'tests/golden_case.h'),
                             ('bench/harness.c', 'tests/golden_case.h')]:
            with self.subTest(name=name, header=header):
                self.assert_found(self.check_one(name, header), f'{name}: may not include "{header}"')
                os.remove(os.path.join(self.root, name))

    def test_allowed(self):
        for name, header in [('sim/engine.c', 'sim/policy.h'), ('policies/torchcache.c', 'policies/torchcache_a.h'),
                             ('policies/torchcache_b.c', 'policies/torchcache_a.h'),
                             ('policies/pow2.c', 'policies/free_index.h'), ('tests/a.c', 'sim/engine.h')]:
            with self.subTest(name=name, header=header):
                self.assertEqual(self.check_one(name, header), [])

    def test_paths_from_the_root(self):
        self.write('sim/err.h', '')
        self.write('sim/err.c', '#include "err.h"\n')
        self.assert_found(include_rules.check(self.root), 'no path from the root')

    def test_unknown_folder(self):
        self.write('other/a.c', '')
        self.assert_found(include_rules.check(self.root), 'no folder that the include rules know')


class Headers(Tree):
    GUARDED = '#ifndef ASIM_SIM_{0}_H\n#define ASIM_SIM_{0}_H\n{1}\n#endif\n'

    def test_missing_include(self):
        self.write('sim/a.h', self.GUARDED.format('A', 'uint64_t f(void);'))
        self.write('sim/b.h', self.GUARDED.format('B', '#include <stdint.h>\nuint64_t g(void);'))
        self.assert_found(headers.check(self.root, CC), 'sim/a.h: does not compile alone')

    def test_warning(self):
        self.write('sim/a.h', self.GUARDED.format('A', 'static int unused(void) { return 1; }'))
        self.assert_found(headers.check(self.root, CC), 'sim/a.h: does not compile alone')

    def test_guard(self):
        self.write('sim/a.h', 'int f(void);\n')
        self.assert_found(headers.check(self.root, CC), 'no include guard ASIM_SIM_A_H')


class Symbols(Tree):
    def check_source(self, source):
        path = self.write('a.c', source)
        subprocess.run([CC, '-c', '-fPIE', '-O1', path, '-o', path + '.o'], check=True)
        return symbols.check(path + '.o')

    def test_prefix(self):
        self.assert_found(self.check_source('int asim_a(void) { return 1; }\nint f(void) { return 2; }\n'),
                          'f is visible outside')

    def test_writable(self):
        self.assert_found(self.check_source('static int n = 1;\nint asim_a(void) { return n++; }\n'),
                          'n in .data')
        self.assert_found(self.check_source('static int n;\nint asim_a(void) { return n++; }\n'), 'n in .bss')
        self.assert_found(self.check_source('static _Thread_local int n;\nint asim_a(void) { return n++; }\n'),
                          'n in .tbss')
        self.assert_found(self.check_source('const char *asim_names[] = {"a"};\n'), 'asim_names in .data')

    def test_constant(self):
        self.assert_found(self.check_source('extern const char *const asim_names[];\n'
                                            'const char *const asim_names[] = {"a"};\n'
                                            'static void f(void) {}\n'
                                            'void (*const asim_table[])(void) = {f};\n'))

    def test_no_library(self):
        self.assert_found(symbols.check(self.write('a.txt', 'text\n')), 'a.txt')


class Hygiene(Tree):
    def test_clean(self):
        self.write('sim/a.c', 'int a;\n')
        self.write('a/meson.build', 'x\n')
        self.write('b/meson.build', 'x\n')
        self.assert_found(hygiene.check(self.root))

    def test_each_fault(self):
        for text, finding in [('int a; \n', ':1: ends with white space'), ('int a;', 'does not end with'),
                              ('int a;\n\n', 'ends with an empty line'), ('int a;\r\n', 'carriage returns'),
                              ('\tint a;\n', ':1: holds a tab'), ('', 'is empty'),
                              ('int ' + 130 * 'a' + ';\n', 'is longer than'),
                              ('\n/* ' + '/hom' + 'e/me/x */\n', ':2: a path of one machine'),
                              ('/* "' + '/wor' + 'k/x" */\n', 'a path of one machine'),
                              ('/* ../sha' + 'red/x */\n', 'a path outside the repository'),
                              ('/* in this ses' + 'sion */\n', 'how the work was done'),
                              ('/* the helper ag' + 'ents */\n', 'how the work was done'),
                              ('/* see iss' + 'ue 2 */\n', 'the number of a task'),
                              ('/* TO' + 'DO */\n', 'an open end'),
                              (7 * '<' + ' HEAD\n', 'a merge conflict')]:
            with self.subTest(text=text):
                self.write('sim/a.c', text)
                findings = [f for f in hygiene.check(self.root) if finding in f]
                self.assertEqual(len(findings), 1, list(hygiene.check(self.root)))

    def test_words_in_their_place(self):
        self.write('sim/a.c', '/* sqlite sessions; pytorch #35901; /home/user/train.py; framework/a */\n')
        self.assert_found(hygiene.check(self.root))

    def test_base_names(self):
        self.write('sim/a.c', 'int a;\n')
        self.write('tools/a.c', 'int b;\n')
        self.assert_found(hygiene.check(self.root), 'tools/a.c: has the base name of sim/a.c')


class Format(Tree):
    @unittest.skipUnless(formatting.formatter(), 'clang-format is not installed')
    def test_unformatted(self):
        self.write('.clang-format', 'BasedOnStyle: LLVM\n')
        self.write('sim/a.c', 'int  a ;\n')
        self.write('sim/b.c', 'int b;\n')
        self.assert_found(formatting.check(self.root), 'sim/a.c')


class KnownTests(Tree):
    def test_unknown(self):
        self.write('test_a.c', '')
        self.write('test_b.c', '')
        self.assert_found(known_tests.check(self.root, 'a'), 'test_b.c')
        self.assert_found(known_tests.check(self.root, 'a', 'b'))
        self.assert_found(known_tests.check(self.root, 'b', 'a'), 'not sorted')


if __name__ == '__main__':
    CC = sys.argv.pop(1)
    unittest.main()
