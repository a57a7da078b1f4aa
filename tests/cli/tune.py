#!/usr/bin/env python3
"""tune against brute force, on the case of pytorch issue 123548, over ranks, and for any number of workers.

usage: tune.py ALLOCSIM SAMPLES

Brute force is `sweep` over every whole MiB that max_split_size_mb can have up to the largest size of the trace (or,
where these are too many, every MiB within 2 of a size), over expandable segments and over roundings. What tune finds
may need no more than the best of these; and between two values that tune tries, no run may differ.
"""
import csv
import io
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

MIB = 1 << 20
ALLOCSIM = SAMPLES = ''
MOST = 200  # values of a brute-force sweep


def call(*words, status=0):
    done = subprocess.run([ALLOCSIM, *words], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == status, f'{words}: exit {done.returncode}: {done.stderr}'
    return done


def tune(*words):
    return json.loads(call('tune', '-q', '--no-db', '--format', 'json', *words).stdout)


def sweep(*words):
    """Rows; a run that ends by a fault has none."""
    done = subprocess.run([ALLOCSIM, 'sweep', '-q', '--no-db', '--format', 'csv', *words], capture_output=True,
                          text=True, check=False, timeout=300)
    return list(csv.DictReader(io.StringIO(done.stdout)))


def sizes(trace):
    """Of the large pool, in MiB as whole numbers: requests and segments, also those that exist at the start."""
    text = call('trace', 'head', '-n', '100000000', trace).stdout
    found = [int(size) for size in re.findall(r'^(?:@\d+ )?(?:alloc|resize) \S+ (\d+)', text, re.M)]
    return sorted({size // MIB for size in found if size > MIB})


class Text(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix='allocsim-tune-')
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def trace(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, 'w', encoding='ascii') as file:
            file.write(text)
        return path


class BruteForce(unittest.TestCase):
    """One test a shipped recording; see the end of the file."""

    def compare(self, path):
        found = tune(path)
        torch = ['--torch', found['torch']]
        marks = sizes(path)
        top = min(max(marks + [20]) + 4, 100000)
        values = list(range(21, top + 1))
        if len(values) > MOST:
            near = {mark + step for mark in marks for step in (-1, 0, 1, 2)}
            values = [value for value in values if value in near][:MOST]
        text = ','.join(map(str, values + ['none'])) if values else 'none'
        split = sweep(*torch, '--conf', 'expandable_segments:False', '--max-split', text, path)
        other = sweep(*torch, '--conf', 'expandable_segments:True', path) \
            + sweep(*torch, '--conf', 'roundup_power2_divisions:4', path) \
            + sweep(*torch, path)
        served = [int(row['peak_reserved_bytes']) for row in split + other if row['status'] == 'ok']
        self.assertTrue(served, 'brute force ran nothing')
        self.assertLessEqual(found['best']['peak_reserved_bytes'], min(served))
        self.assertEqual(found['best']['ooms'], 0)
        if found['max_split_values_all']:
            self.same_between(found['max_split_values_mib'], split)

    def same_between(self, tried, rows):
        """The placements between two neighbouring values are those of the lower one."""
        by_value = {}
        for row in rows:
            match = re.search(r'max_split_size_mb=(\d+)', row['params'])
            if match and row['status'] != 'error':
                by_value[int(match[1])] = row
        for low, high in zip(tried, tried[1:]):
            inside = [by_value[value]['placement_digest'] for value in range(low, high) if value in by_value]
            self.assertLessEqual(len(set(inside)), 1, f'max_split_size_mb from {low} to {high - 1}')


class Known(Text):
    def growth(self):
        """64 MiB once; in each cycle 91, 45.5 and a kept 2 MiB, then the two go (pytorch pull request 193400)."""
        text = f'alloc base {64 * MIB}\n'
        for cycle in range(121):
            text += f'alloc a {91 * MIB}\nalloc b {91 * MIB // 2}\nalloc kept{cycle} {2 * MIB}\nfree a\nfree b\n'
            text += f'mark point other c{cycle}\n'
        return self.trace('growth.txt', text)

    def test_settings_that_fight(self):
        path = self.growth()
        options = ['--torch', '2.6', '--capacity', '16050MiB']
        found = tune(*options, path)
        points = [value // MIB for value in found['fighting_points_bytes']]
        self.assertEqual(points[:6], [220, 2980, 5760, 8520, 11300, 14060])  # as reported, at cycles 0, 20, ... 100
        self.assertIn('issue 123548', ' '.join(found['warnings']))
        self.assertLess(found['best']['peak_reserved_bytes'], 500 * MIB)
        for value in found['front']:
            self.assertFalse('max_split' in value['conf'] and 'expandable_segments:True' in value['conf'])
        conf = 'max_split_size_mb:128,expandable_segments:True'
        users = tune(*options, '--conf', conf, path)
        self.assertIn('you have both set', ' '.join(users['warnings']))
        self.assertEqual(users['baseline']['conf'], conf)
        self.assertEqual(users['answer'], 'gain')
        table = call('tune', '-q', '--no-db', *options, path).stdout
        self.assertIn('220.00 MiB, 2.91 GiB, 5.62 GiB', table)

    def test_split_limit_that_helps(self):
        """pytorch issue 35901: a large freed segment is carved up by blocks that stay, and is wanted again."""
        large = 1024 * MIB
        text = f'alloc large {large}\nfree large\nalloc small {30 * MIB}\nalloc again {large}\n'
        found = tune('--torch', '2.6', '--forbid', 'expandable_segments', '--forbid', 'preallocation',
                     self.trace('carved.txt', text))
        # Without a limit: 1024 carved, and 1024 more. With one: 1024 kept whole, 30 beside it.
        self.assertEqual(found['baseline']['peak_reserved_bytes'], 2048 * MIB)
        self.assertEqual(found['best']['peak_reserved_bytes'], 1054 * MIB)
        self.assertEqual(found['best']['conf'], 'max_split_size_mb:31')  # 31 to 1024; 21 to 30 would do, too
        self.assertEqual(found['paste'], ['PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:31'])

    def test_nothing_to_gain(self):
        path = self.trace('one.txt', f'alloc a {40 * MIB}\nfree a\n')
        found = tune('--torch', '2.6', path)
        self.assertEqual((found['answer'], found['paste']), ('nothing to gain', []))
        self.assertIn('Nothing to gain', call('tune', '-q', '--no-db', path).stdout)

    def test_empty_cache_at_a_mark(self):
        """40 and 60 MiB need segments of their own (40 is too small); given back at the mark, they don't add up."""
        text = (f'alloc a {40 * MIB}\nfree a\nmark begin phase second\nalloc b {60 * MIB}\nfree b\n')
        path = self.trace('phases.txt', text)
        without = ['--forbid', 'preallocation', '--forbid', 'expandable_segments',
                   '--forbid', 'roundup_power2_divisions', '--forbid', 'garbage_collection_threshold']
        found = tune('--torch', '2.6', *without, path)
        self.assertEqual(found['baseline']['peak_reserved_bytes'], 100 * MIB)
        self.assertEqual(found['best']['peak_reserved_bytes'], 60 * MIB)
        self.assertEqual(found['paste'], ["torch.cuda.empty_cache()  # at the first 'second'"])
        found = tune('--torch', '2.6', '--forbid', 'empty_cache', *without, path)
        self.assertEqual(found['answer'], 'nothing to gain')

    def test_threshold_with_fraction(self):
        """The freed 40 MiB are collected before 60 more are asked for: only with a fraction does PyTorch do so."""
        path = self.trace('phases.txt', f'alloc a {40 * MIB}\nfree a\nalloc b {60 * MIB}\nfree b\n')
        found = tune('--torch', '2.6', '--capacity', '200MiB', '--forbid', 'preallocation', '--forbid',
                     'expandable_segments', '--forbid', 'roundup_power2_divisions', path)
        self.assertEqual(found['best']['peak_reserved_bytes'], 60 * MIB)
        self.assertRegex(found['paste'][0], r'^PYTORCH_CUDA_ALLOC_CONF=garbage_collection_threshold:0\.\d+$')
        self.assertIn('set_per_process_memory_fraction(0.99)', found['paste'][1])

    def test_preallocation(self):
        """30 and 40 MiB freed do not make 60: a segment of the peak's 70 MiB, cached early, serves all three."""
        text = f'alloc a {30 * MIB}\nalloc b {40 * MIB}\nfree a\nfree b\nalloc c {60 * MIB}\n'
        others = [word for name in ('expandable_segments', 'garbage_collection_threshold', 'max_split_size_mb',
                                    'roundup_power2_divisions') for word in ('--forbid', name)]
        found = tune('--torch', '2.6', *others, self.trace('pre.txt', text))
        self.assertEqual(found['baseline']['peak_reserved_bytes'], 130 * MIB)
        self.assertEqual(found['best']['peak_reserved_bytes'], 70 * MIB)
        self.assertIn(f'torch.empty({70 * MIB}, ', found['paste'][0])

    def test_settings_by_phase(self):
        """A range that grows has pages of 20 MiB, one range a stream. 21 MiB that stay on stream 1 take 22 MiB or two
        pages; 30 and 40 that go and 70 that come take 140 MiB on the other stream, or four pages. With expandable
        segments from the second phase on: 22 + 80; without: 22 + 140; all the time: 40 + 80.
        """
        text = (f'lane main\nlane side stream=1\nalloc kept {21 * MIB} lane=side\nmark begin phase second\n'
                f'alloc a {30 * MIB}\nalloc b {40 * MIB}\nfree a\nfree b\nalloc c {70 * MIB}\n')
        path = self.trace('phases.txt', text)
        others = [word for name in ('preallocation', 'garbage_collection_threshold', 'max_split_size_mb', 'empty_cache',
                                    'roundup_power2_divisions') for word in ('--forbid', name)]
        found = tune('--torch', '2.6', *others, path)
        self.assertEqual(found['baseline']['peak_reserved_bytes'], 162 * MIB)
        self.assertEqual(found['best']['peak_reserved_bytes'], 102 * MIB)
        self.assertEqual(found['paste'], ['torch.cuda.memory._set_allocator_settings("expandable_segments:True")  '
                                          "# once, at the first 'second'"])
        found = tune('--torch', '2.6', '--forbid', 'phase_settings', *others, path)
        self.assertEqual(found['best']['peak_reserved_bytes'], 120 * MIB)

    def test_afresh(self):
        """200 MiB are reserved at the start, of which 40 live: asked for anew, these and 30
        need 70."""
        text = (f'segment 0x7f0000000000 {200 * MIB}\nblock live a {40 * MIB}\nblock free {160 * MIB}\n'
                f'alloc b {30 * MIB}\nfree a\nfree b\n')
        path = self.trace('midrun.txt', text)
        found = tune('--torch', '2.6', path)
        self.assertEqual((found['baseline']['peak_reserved_bytes'], found['answer']), (200 * MIB, 'nothing to gain'))
        self.assertIn('record from the start', ' '.join(found['uncertain']))
        found = tune('--torch', '2.6', '--afresh', path)
        self.assertEqual(found['baseline']['peak_reserved_bytes'], 70 * MIB)
        self.assertEqual(found['best']['peak_reserved_bytes'], 70 * MIB)
        self.assertIn('asked for anew', ' '.join(found['uncertain']))
        for name in ('lm-xl-fullstep-midrun.pickle.zst', 'vllm-rollout-private-pools.pickle', 'sketchkv-ring1.pickle'):
            found = tune('--afresh', '--jobs', '2', os.path.join(SAMPLES, name))
            self.assertGreaterEqual(found['best']['peak_reserved_bytes'], found['traces'][0]['peak_live_bytes'])
            self.assertLessEqual(found['best']['peak_reserved_bytes'], found['baseline']['peak_reserved_bytes'])

    def test_ranks(self):
        paths = [self.trace(f'rank{rank}.txt', f'alloc a {size * MIB}\nfree a\nalloc b {(size + 20) * MIB}\n')
                 for rank, size in enumerate((40, 80))]
        found = tune('--torch', '2.6', *paths)
        self.assertEqual(found['baseline']['worst'], paths[1])
        self.assertEqual(found['baseline']['peak_reserved_bytes'], 180 * MIB)
        self.assertEqual(found['baseline']['sum_peak_reserved_bytes'], 280 * MIB)
        self.assertIn(paths[1], call('tune', '-q', '--no-db', *paths).stdout)

    def test_fit(self):
        """1024 carved up by 30 and wanted again does not fit into 1100; with a limit it does."""
        text = f'alloc a {1024 * MIB}\nfree a\nalloc b {30 * MIB}\nalloc c {1024 * MIB}\n'
        found = tune('--torch', '2.6', '--objective', 'fit', '--capacity', '1100MiB', self.trace('fit.txt', text))
        self.assertEqual((found['baseline']['ooms'], found['best']['ooms'], found['answer']), (1, 0, 'gain'))

    def test_jobs(self):
        path = os.path.join(SAMPLES, 'mosaic-synthetic.pickle')
        texts = {call('tune', '-q', '--no-db', '--jobs', jobs, path).stdout for jobs in ('1', '2', '7')}
        self.assertEqual(len(texts), 1)

    def test_store(self):
        path, store = self.trace('one.txt', f'alloc a {40 * MIB}\nfree a\nalloc b {60 * MIB}\n'), \
            os.path.join(self.folder, 'x.db')
        text = call('tune', '-q', '--db', store, path).stdout
        self.assertRegex(text, r'confirmed by full runs under the referee: 1, 2 in ')
        listed = call('db', 'ls', store).stdout
        self.assertEqual(len(re.findall(r'^ +[0-9]+  ok ', listed, re.M)), 2)
        self.assertEqual(call('tune', '-q', '--db', store, path).stdout, text)

    def test_budget(self):
        path = os.path.join(SAMPLES, 'lm-xl-fullstep-midrun.pickle.zst')
        self.assertIn('the budget was spent', ' '.join(tune('--budget', '1ms', path)['uncertain']))

    def test_wrong_options(self):
        path = self.trace('one.txt', 'alloc a 100\n')
        for words, said in ((['--forbid', 'max_splt_size_mb'], "did you mean max_split_size_mb"),
                            (['--budget', '30'], 'is no time'), (['--budget', '0s'], 'is no time'),
                            (['--torch', '0.1'], 'torch'), (['--conf', 'max_split_size_mb:x'], '--conf'),
                            (['--capacity', '0'], '--capacity'), (['--objective', 'speed'], 'objective'),
                            (['--device', 'h200x'], 'there is no profile')):
            done = call('tune', '--no-db', *words, path, status=2)
            self.assertIn(said, done.stderr)
            self.assertEqual(done.stdout, '')
        self.assertIn('No such file', call('tune', '--no-db', os.path.join(self.folder, 'no'), status=3).stderr)
        empty = self.trace('empty.txt', '')
        done = subprocess.run([ALLOCSIM, 'tune', '--no-db', empty], capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stdout), (3, ''))


def add_recordings():
    for name in sorted(os.listdir(SAMPLES)):
        if '.pickle' in name or name.startswith('pool-') or name == 'small.text':
            def test(self, path=os.path.join(SAMPLES, name)):
                self.compare(path)
            setattr(BruteForce, 'test_' + re.sub(r'\W', '_', name), test)


if __name__ == '__main__':
    ALLOCSIM, SAMPLES = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    add_recordings()
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
