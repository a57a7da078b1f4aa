#!/usr/bin/env python3
"""What `run --snapshot` writes equals what PyTorch recorded, and can be read again.

usage: snapshot_out.py ALLOCSIM FAULT_SHIM SAMPLES

Every recording in SAMPLES is run as torchcache with its own settings; the snapshot of the end is compared with the
recording, segment by segment and entry by entry. Pickles are read by Python's own unpickler, which refuses globals.
"""
import json
import os
import pickle
import shutil
import subprocess
import sys
import tempfile

import recordings

# Not a real run: its addresses lie outside of its segments, so that it is imported without them.
GENERATED = 'mosaic-synthetic'
# Blocks that were inactive when the window began and were cut or merged later: what was last asked for in them is
# not recorded (specification, R172). Everything else is equal.
UNKNOWN_REQUESTS = {'lm-forward-growing': 250, 'lm-train-windows': 11}
# Recorded with stacks switched on where there was none to record: an empty list instead of no key (R144).
EMPTY_STACKS = {'lm-train-windows': 3742}
# Entries with a key more than release 2.6 writes, which --torch stands for here.
EXTRA_KEYS = {'compile_context', 'user_metadata'}


class Unpickler(pickle.Unpickler):
    def find_class(self, module, name):
        raise pickle.UnpicklingError(f'{module}.{name} is no data')


def load(path):
    with open(path, 'rb') as file:
        return Unpickler(file).load()


def call(allocsim, *words, status=0, env=None):
    done = subprocess.run([allocsim, *words], capture_output=True, text=True, timeout=300, check=False,
                          env=dict(os.environ, **(env or {})))
    assert done.returncode == status, f'{words}: exit {done.returncode}: {done.stderr}'
    return done


def run(allocsim, trace, snapshot, *words):
    release = () if '--policy' in words else ('--torch', '2.6')
    done = call(allocsim, 'run', '--quiet', '--no-db', '--format', 'json', '--snapshot', snapshot, *release, *words,
                trace)
    return json.loads(done.stdout)


def unpack(path, folder):
    plain = os.path.join(folder, os.path.basename(path).removesuffix('.zst'))
    if path.endswith('.zst'):
        subprocess.run(['zstd', '-qdf', path, '-o', plain], check=True)
    else:
        shutil.copy(path, plain)
    return plain


def segment_values(segment):
    values = {key: value for key, value in segment.items() if key not in ('blocks', 'frames')}
    values['segment_pool_id'] = tuple(values['segment_pool_id'])
    return values


def entry_values(entry):
    return (entry['action'], entry['device_free'] if entry['action'] == 'oom' else entry['addr'], entry['size'],
            entry['stream'], entry.get('frames') or [])


def compare_segments(name, recorded, written):
    assert len(recorded) == len(written), f'{name}: {len(written)} segments instead of {len(recorded)}'
    unknown = 0
    for a, b in zip(recorded, written):
        assert segment_values(a) == segment_values(b), f'{name}: {segment_values(a)} became {segment_values(b)}'
        assert list(a) == list(b), f'{name}: segment {a["address"]:#x}: keys {list(a)} became {list(b)}'
        assert a['frames'] == b['frames'], f'{name}: the stack of segment {a["address"]:#x} differs'
        assert len(a['blocks']) == len(b['blocks']), f'{name}: blocks of segment {a["address"]:#x}'
        for c, d in zip(a['blocks'], b['blocks']):
            assert list(c) == list(d), f'{name}: keys of a block'
            for key in c:
                if c[key] == d[key]:
                    continue
                where = f'{name}: block {c["address"]:#x}: {key} {c[key]} became {d[key]}'
                assert key == 'requested_size' and c['state'] == 'inactive', where
                unknown += 1
    assert unknown == UNKNOWN_REQUESTS.get(name, 0), f'{name}: {unknown} stale requested sizes differ'


def compare_histories(name, recorded, written):
    used = [history for history in recorded if history]
    kept = [history for history in written if history]
    assert len(used) == len(kept), f'{name}: histories of {len(kept)} devices instead of {len(used)}'
    for a, b in zip(used, kept):
        a = [entry for entry in a if entry['action'] != 'snapshot']
        assert len(a) == len(b), f'{name}: {len(b)} entries instead of {len(a)}'
        empty = late = 0
        for number, (c, d) in enumerate(zip(a, b)):
            assert entry_values(c) == entry_values(d), f'{name}: entry {number}: {entry_values(c)} became ' \
                                                       f'{entry_values(d)}'
            empty += c.get('frames') == [] and 'frames' not in d
            keys = [key for key in c if key not in EXTRA_KEYS and not (key == 'frames' and not c[key])]
            assert keys == list(d), f'{name}: entry {number}: keys {keys} became {list(d)}'
            # Two entries of one call have one time here.
            late += abs(c['time_us'] - d['time_us']) > 100000
        assert empty == EMPTY_STACKS.get(name, 0), f'{name}: {empty} empty stacks'
        assert late == 0, f'{name}: {late} entries are more than 0.1 s off'


def check_sample(allocsim, path, folder):
    name = os.path.basename(path).split('.')[0]
    recording, first, second = unpack(path, folder), *(os.path.join(folder, f'{name}.{i}') for i in (1, 2))
    record = run(allocsim, recording, first)
    written = load(first)
    with open(first, 'rb') as file:
        same = pickle.dumps(written, protocol=4) == file.read()
    assert same, f'{name}: Python writes other bytes for the same objects'
    again = run(allocsim, first, second)
    assert again['placement_digest'] == record['placement_digest'], f'{name}: the snapshot replays differently'
    compare_segments(name + ', written twice', written['segments'], load(second)['segments'])
    if name == GENERATED:
        return
    recorded = load(recording)
    compare_segments(name, recorded['segments'], written['segments'])
    # A ring of one entry says nothing of the run: it is the free of a block that is not known.
    compare_histories(name, recorded['device_traces'], written['device_traces'])
    assert recorded.get('external_annotations', []) == written['external_annotations'], f'{name}: annotations'
    for key, value in written['allocator_settings'].items():
        assert recorded['allocator_settings'][key] == value, f'{name}: setting {key} is {value}'


def check_forms(allocsim, folder):
    small, out = os.path.join(folder, 'small.pickle'), os.path.join(folder, 'out.pickle')
    recordings.write(small)
    whole = recordings.small()
    run(allocsim, small, out)
    written = load(out)
    assert written['segments'] == whole['segments'], written['segments']
    compare_histories('small', whole['device_traces'], written['device_traces'])
    # R136: a ring of two holds the last two.
    run(allocsim, small, out, '--history', '2')
    short = load(out)
    assert short['segments'] == whole['segments']
    assert [entry_values(e) for e in short['device_traces'][0]] == \
        [entry_values(e) for e in whole['device_traces'][0][-2:]]
    # 1.13: a list of segments without what came later (section 21).
    run(allocsim, small, out, '--torch', '1.13')
    old = load(out)
    assert list(old[0]) == ['device', 'address', 'total_size', 'allocated_size', 'active_size', 'stream',
                            'segment_type', 'blocks'], list(old[0])
    assert [list(block.items()) for block in old[0]['blocks']][0] == [('size', 3 << 20), ('state', 'active_allocated')]
    # The option string, given and composed (R154).
    for words in (['--conf', 'max_split_size_mb:64,garbage_collection_threshold:0.5'],
                  ['--policy', 'torchcache,max_split_size_mb=64,garbage_collection_threshold=0.5']):
        run(allocsim, small, out, *words)
        settings = load(out)['allocator_settings']
        assert settings['PYTORCH_CUDA_ALLOC_CONF'] == 'max_split_size_mb:64,garbage_collection_threshold:0.5', settings
        assert settings['max_split_size'] == 64 << 20 and settings['garbage_collection_threshold'] == 0.5, settings
    # Another allocator, and a recording without times: the file is whole, and says nothing of settings.
    for entry in whole['device_traces'][0]:
        del entry['time_us']
    with open(small, 'wb') as file:
        pickle.dump(whole, file)
    run(allocsim, small, out, '--policy', 'skeleton')
    other = load(out)
    assert 'allocator_settings' not in other and 'time_us' not in other['device_traces'][0][0]
    actions = [entry['action'] for entry in other['device_traces'][0]]
    assert [a for a in actions if not a.startswith('segment')] == \
        ['alloc', 'alloc', 'free_requested', 'free_completed', 'alloc'], actions
    assert sum(b['requested_size'] for s in other['segments'] for b in s['blocks']
               if b['state'] == 'active_allocated') == whole['segments'][0]['requested_size']


def check_refusals(allocsim, shim, folder):
    small = os.path.join(folder, 'small.pickle')
    recordings.write(small)
    place = os.path.join(folder, 'place')
    os.mkdir(place)
    for path, reason in ((os.path.join(folder, 'missing', 'out'), 'No such file or directory'),
                         (place, 'Is a directory'), ('/dev/full', 'No space left on device')):
        done = call(allocsim, 'run', '--no-db', '--snapshot', path, small, status=5)
        assert path in done.stderr and reason in done.stderr and not done.stdout, done
    call(allocsim, 'run', '--no-db', '--snapshot', os.path.join(place, 'out'), small, small, status=2)
    assert os.listdir(place) == []
    if os.geteuid() != 0:
        os.chmod(place, 0o500)
        done = call(allocsim, 'run', '--no-db', '--snapshot', os.path.join(place, 'out'), small, status=5)
        assert 'Permission denied' in done.stderr, done
        os.chmod(place, 0o700)
    # A disk that is full from any step on: the old file stays, nothing is left beside it.
    target = os.path.join(place, 'out')
    done_at = None
    for at in range(1, 40):
        with open(target, 'wb') as file:
            file.write(b'\x80old')
        done = subprocess.run([allocsim, 'run', '--no-db', '-q', '--snapshot', target, small], capture_output=True,
                              text=True, timeout=60, check=False,
                              env=dict(os.environ, LD_PRELOAD=shim, FAULT_AT=str(at), FAULT_MODE='enospc',
                                       # A sanitizer's library wants to come first; here it may come second.
                                       ASAN_OPTIONS=os.environ.get('ASAN_OPTIONS', '')
                                       + ':verify_asan_link_order=0'))
        assert os.listdir(place) == ['out'], os.listdir(place)
        if done.returncode == 0:
            load(target)
            done_at = at
            break
        assert done.returncode == 5 and 'No space left on device' in done.stderr and target in done.stderr, done
        with open(target, 'rb') as file:
            assert file.read() == b'\x80old'
    assert done_at and done_at > 1, 'the disk was never full, or always'


def main():
    allocsim, shim, samples = sys.argv[1:]
    with tempfile.TemporaryDirectory(prefix='allocsim-snapshot-') as folder:
        check_forms(allocsim, folder)
        if os.path.basename(shim) != '-':
            check_refusals(allocsim, shim, folder)
        # Each kind of event, and a recorded call that names no lane.
        everything = os.path.join(folder, 'everything')
        run(allocsim, os.path.join(samples, 'everything.zst'), everything)
        settings = load(everything)['allocator_settings']
        assert settings['PYTORCH_CUDA_ALLOC_CONF'] == 'max_split_size_mb:128', 'the string set last (R154)'
        assert settings['max_split_size'] == 128 << 20
        names = sorted(name for name in os.listdir(samples) if name.endswith(('.pickle', '.pickle.zst')))
        assert names
        for name in names:
            check_sample(allocsim, os.path.join(samples, name), folder)
    print(f'{len(names)} recordings equal')


if __name__ == '__main__':
    main()
