#!/usr/bin/env python3
"""Proves that golden_check can fail: on every number of a small file, and on files that are malformed.

usage: golden_self_test.py GOLDEN_CHECK SMALL_FILE
"""
import os
import re
import subprocess
import sys
import tempfile
import unittest

PROGRAM = SMALL = ''


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        with open(SMALL, encoding='ascii') as stream:
            self.text = stream.read()

    def run_on(self, content, *options):
        path = os.path.join(self.folder.name, 'bad.txt')
        with open(path, 'wb') as stream:
            stream.write(content.encode('ascii') if isinstance(content, str) else content)
        return subprocess.run([PROGRAM, *options, path], capture_output=True, text=True, check=False, timeout=60)

    def assert_malformed(self, content, *fragments):
        result = self.run_on(content)
        self.assertEqual(result.returncode, 3, result)
        for fragment in fragments:
            self.assertIn(fragment, result.stderr)

    def edited(self, old, new):
        self.assertIn(old, self.text)
        return self.text.replace(old, new, 1)


class Differences(Case):
    def test_unchanged(self):
        result = self.run_on(self.text)
        self.assertEqual((result.returncode, result.stdout), (0, 'bad: 4 of 4 cases equal, 36 operations\n'))

    def test_every_number(self):
        """Every number of a result, of the first Q line, and every ninth of the later ones."""
        position, statistics, tried = 0, 0, 0
        for line in self.text.splitlines(keepends=True):
            result = line.find('\t') + 1
            is_end = re.match('[QGBD] ', line) is not None
            is_statistics = line.startswith('Q ', result)
            for match in re.finditer(r'\d+', line[result:]) if result or is_end else []:
                statistics += is_statistics
                if is_statistics and statistics > 122 and statistics % 9:
                    continue
                start = position + result + match.start()
                end = position + result + match.end()
                changed = self.text[:start] + str(int(match.group()) + 1) + self.text[end:]
                expected = (3,) if line[result:].startswith('M ') else (1,)
                outcome = self.run_on(changed)
                self.assertIn(outcome.returncode, expected, (line, match.group(), outcome))
                tried += 1
            position += len(line)
        self.assertGreater(tried, 300)

    def test_the_difference_is_told_in_full(self):
        result = self.run_on(self.edited('sa:1:400556032:0', 'sa:1:400556032:1'))
        self.assertEqual(result.stdout,
                         'bad: 3 of 4 cases equal, 36 operations\n'
                         '  case user-cases-t03-empty, operation 2 of 9, a 1 400000000 0\n'
                         '    expected: A 1 0 400556032 sa:1:400556032:1\n'
                         '    got:      A 1 0 400556032 sa:1:400556032:0\n')

    def test_a_statistic_is_named(self):
        result = self.run_on(self.edited('\tQ 2 2 2 0', '\tQ 2 2 5 0'))
        self.assertIn('first at: allocation.all.allocated\n', result.stdout)

    def test_another_world(self):
        for old, new in [('capacity 85899345920', 'capacity 8589934592'), ('conf -', 'conf max_split_size_mb:32'),
                         ('expandable_segments:True', 'expandable_segments:False'), ('fraction -', 'fraction 0.01'),
                         ('pc 0', 'd 0'), ('gb 1 0', 'pi 0')]:
            with self.subTest(new=new):
                self.assertNotEqual(self.run_on(self.edited(old, new)).returncode, 0)

    def test_cases_are_chosen(self):
        result = self.run_on(self.text, '--cases', 'capture$')
        self.assertEqual((result.returncode, result.stdout), (0, 'bad: 1 of 1 cases equal, 7 operations\n'))
        self.assertEqual(self.run_on(self.text, '--cases', 'none').returncode, 2)


class Malformed(Case):
    def test_each_fault_has_its_message(self):
        for old, new, line, fragment in [
                ('case user-cases-t03-empty', 'cases', 1, 'expected a line "case NAME"'),
                ('conf -', 'config -', 2, 'expected a line "conf ..."'),
                ('capacity 17179869184', 'capacity x', 3, 'device capacities'),
                ('capacity 17179869184', 'capacity 99999999999999999999', 3, 'device capacities'),
                ('capacity 17179869184', 'capacity 1 2 3 4 5 6 7 8 9', 3, 'device capacities'),
                ('fraction -', 'fraction 1.5', 4, 'fraction from 0 to 1'),
                ('fraction -', 'fraction nan', 4, 'fraction from 0 to 1'),
                ('ops 9', 'ops -9', 5, 'number of operations'),
                ('ops 9', 'ops 8', 14, 'expected a line "Q ..."'),
                ('ops 9', 'ops 10', 15, 'expected an operation, a tab and a result'),
                ('ops 9', 'ops 4000000000', 15, 'expected an operation, a tab and a result'),
                ('a 0 400000000 0\t', 'a 0 400000000 0 ', 6, 'a tab and a result'),
                ('a 0 400000000 0', 'z 0 400000000 0', 6, 'unknown operation'),
                ('a 0 400000000 0', 'a 0 400000000 4', 6, "the operation's fields"),
                ('a 0 400000000 0', 'a 0 400000000', 6, "the operation's fields"),
                ('a 0 400000000 0', 'a 0 400000000 0 0', 6, "the operation's fields"),
                ('a 0 400000000 0', 'a 0 9400000000000000000 0', 6, 'size of at most'),
                ('a 0 400000000 0', 'a 18446744073709551616 1 0', 6, 'expected an ID'),
                ('a 1 400000000 0', 'a 0 400000000 0', 7, 'live already'),
                ('f 0\t.', 'f 7\t.', 9, 'the ID is not live'),
                ('f 0\t.', 'f 0\t-', 9, 'the ID is live'),
                ('f 0\t', 'd 1\t', 9, "the operation's fields"),
                ('f 0\t', 'x 2\t', 9, 'fraction from 0 to 1'),
                ('f 0\t', 'c\t', 9, 'a space and the options'),
                ('f 0\t', 'pe 0\t', 9, 'not being filled'),
                ('f 0\t', 'pr 0\t', 9, 'no use left'),
                ('f 0\t', 'pc -\t', 9, 'no pool is active'),
                ('f 0\t', 'pc 4\t', 9, 'pool from 0 to 3'),
                ('f 0\t', 'pb 0 0,9\t', 9, "the operation's fields"),
                ('f 0\t', 'ge 0\t', 9, 'no capture was begun'),
                ('f 0\t', 'gj 0 1\t', 9, 'takes part in no capture'),
                ('G 2 0 801112064 0 1 0', 'G 2 0', 16, '8, 10 or 11 fields'),
                ('B 800000000 800000000 1 1', 'C 1', 17, 'line of a memory map'),
                ('D 3 0 2 0 0 0 0 0 0\nend', 'D 3 0 2 0 0 0 0 0 0\nEND', 20, 'expected the line "end"'),
                ('case user-cases-t03-empty', 'case \0', 1, 'zero byte')]:
            with self.subTest(new=new):
                self.assert_malformed(self.edited(old, new), f'line {line}: ', fragment)

    def test_options_that_no_release_knows(self):
        self.assert_malformed(self.edited('conf -', 'conf no_such:1'), 'case user-cases-t03-empty: ', 'no_such')
        self.assert_malformed(self.edited('conf -', 'conf ' + 600 * 'a'), 'longer than')

    def test_cut_at_every_line(self):
        lines = self.text.splitlines(keepends=True)
        for count in range(1, len(lines)):
            if lines[count - 1] != 'end\n':
                self.assert_malformed(''.join(lines[:count]), 'the file ends inside case')

    def test_cut_inside_a_line(self):
        self.assert_malformed(self.text[:-2], 'ends inside this line')

    def test_no_zstd_file_after_all(self):
        self.assert_malformed(b'\x28\xb5\x2f\xfd' + b'\xff' * 100, 'compressed data is damaged')
        self.assert_malformed(b'\x28\xb5\x2f\xfd', 'compressed data ends early')

    def test_nothing_there(self):
        missing = subprocess.run([PROGRAM, os.path.join(self.folder.name, 'none')], capture_output=True, text=True,
                                 check=False)
        self.assertEqual(missing.returncode, 3)
        self.assertIn("can't be opened: No such file", missing.stderr)
        folder = subprocess.run([PROGRAM, self.folder.name], capture_output=True, text=True, check=False)
        self.assertEqual(folder.returncode, 3)
        self.assertIn("can't be read: Is a directory", folder.stderr)

    def test_usage(self):
        for arguments in [[], ['--what'], ['--cases'], ['--cases', '(', 'x'], ['--policy', 'none', 'x'],
                          ['--check', 'most', 'x']]:
            result = subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, check=False)
            self.assertEqual(result.returncode, 2, arguments)
            self.assertIn('usage:', result.stderr)


if __name__ == '__main__':
    PROGRAM, SMALL = sys.argv[1:3]
    del sys.argv[1:3]
    unittest.main()
