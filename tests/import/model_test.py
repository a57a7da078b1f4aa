#!/usr/bin/env python3
"""model_test.py IMPORT_DUMP SCRATCH [SEED...]

Random programs on the allocator model; the history is cut to its last entries, as a ring buffer does, and
written in several layouts and pickle protocols. What is imported must replay to the recorded end
(check_import.py), and its opening state must be the model's own state at the cut: segments, live and pending
blocks, and sizes, except for slack that no record shows (R170, third case)."""
import copy
import gzip
import os
import pickle
import random
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import check_import  # noqa: E402
import jit_pickle  # noqa: E402
import snapshot  # noqa: E402
import torch_model  # noqa: E402

MIB = 1 << 20
STATE = {'active_allocated': 1, 'active_pending_free': 2, 'inactive': 0}


def random_size(rng):
    kind = rng.randrange(10)
    if kind < 4:
        return rng.randrange(1, 64 << 10)
    if kind < 6:
        return rng.randrange(64 << 10, MIB + 1)
    if kind < 9:
        return rng.randrange(MIB + 1, 12 * MIB)
    return rng.randrange(12 * MIB, 60 * MIB)


def run_program(rng, model, steps, streams, with_pools):
    """Yields after each step, so that the state at any entry can be kept."""
    live = []
    for step in range(steps):
        choice = rng.randrange(100)
        model.stack = rng.choice(FRAMES)
        if choice < 52 or not live:
            block = model.alloc(random_size(rng), rng.choice(streams))
            if block:
                live.append(block)
        elif choice < 96:
            model.release(live.pop(rng.randrange(len(live))), uses=rng.randrange(4) == 0)
        elif choice < 98:
            model.process_events(rng.randrange(3))
        elif choice < 99:
            model.empty_cache()
        elif with_pools:
            model.routes = {} if model.routes else {streams[0]: (0, 1 + step % 3)}
        yield


FRAME = [{'name': f'f{i}', 'filename': f'/src/{i % 3}.py', 'line': 10 * i} for i in range(8)]
FRAMES = [None] + [FRAME[i:i + 4] for i in range(5)]


def snapshots_of(seed):
    """(name, snapshot, opening segments or None) of one random program."""
    rng = random.Random(seed)
    expandable = seed % 3 == 2
    capacity = rng.choice([1 << 40, 300 * MIB])
    streams = rng.choice([[0], [0, 94023849823744, 7]])
    model = torch_model.Allocator(capacity=capacity, expandable=expandable)
    states = {}
    for _ in run_program(rng, model, 400, streams, with_pools=seed % 4 == 1 and not expandable):
        states[len(model.trace)] = copy.deepcopy(model.segments())
    conf = 'expandable_segments:True' if expandable else ''
    top = {'segments': model.segments(), 'device_traces': [model.trace],
           'allocator_settings': {'PYTORCH_CUDA_ALLOC_CONF': conf, 'max_split_size': -1,
                                  'garbage_collection_threshold': 0.0, 'expandable_segments': expandable},
           'external_annotations': []}
    yield 'whole', top, []
    for cut in sorted(rng.sample(sorted(states), 4)) + [max(states)]:
        yield f'from {cut}', dict(top, device_traces=[model.trace[cut:]]), states[cut]


def compare_opening(name, dumped, expected, pools):
    got = dumped.segments
    check_import.need([(s['address'], s['size']) for s in got] == [(s['address'], s['total_size']) for s in expected],
                      f'{name}: opening segments differ')
    slack = 0
    for mine, s in zip(got, expected):
        where = f'{name}: opening segment {s["address"]:#x}'
        _, stream, pool = dumped.lanes[mine['lane']]
        check_import.need(stream == s['stream'], f'{where}: stream')
        if pools:
            check_import.need(bool(pool) == (s['segment_pool_id'] != (0, 0)), f'{where}: pool')
        check_import.need(bool(mine['expandable']) == s['is_expandable'], f'{where}: expandable')
        if any(b['state'] != 'inactive' for b in s['blocks']) or not mine['expandable']:
            check_import.need(bool(mine['small']) == (s['segment_type'] == 'small'), f'{where}: kind')
        at, blocks = s['address'], {}
        for b in mine['blocks']:
            if b['state']:
                blocks[at] = b
            at += b['size']
        live = {b['address']: b for b in s['blocks'] if b['state'] != 'inactive'}
        check_import.need(sorted(blocks) == sorted(live), f'{where}: other blocks in use')
        for address, b in live.items():
            m = blocks[address]
            check_import.need(m['state'] == STATE[b['state']], f'{where}: state of {address:#x}')
            check_import.need(m['requested'] == b['requested_size'], f'{where}: request of {address:#x}')
            if m['size'] != b['size']:
                check_import.need(not mine['small'] and 0 < b['size'] - m['size'] <= MIB,
                                  f'{where}: size of {address:#x}')
                slack += 1
    known = sum(int(n.split(' older blocks')[0].split()[-1]) for n in dumped.notes if 'exact size of' in n)
    check_import.need(slack <= known, f'{name}: {slack} blocks of other size, {known} said to be unknown')


def drop(snap, *keys):
    snap = copy.deepcopy(snap)
    for trace in snap['device_traces']:
        for entry in trace:
            for key in keys:
                entry.pop(key, None)
    return snap


def layout_2_0(snap):
    """Blocks without addresses, the owner in `history`; two keys at the top; entries without time."""
    snap = drop(snap, 'time_us')
    for key in ('allocator_settings', 'external_annotations'):
        del snap[key]
    for segment in snap['segments']:
        for key in ('segment_pool_id', 'is_expandable', 'frames'):
            del segment[key]
        for block in segment['blocks']:
            del block['address'], block['frames']
            if block['state'] != 'inactive':
                block['history'] = [{'addr': 0, 'real_size': block['requested_size'], 'frames': FRAME[:2]}]
    return snap


def layout_1_13(snap):
    """A bare list of segments; blocks tell the request only in their history."""
    segments = layout_2_0(snap)['segments']
    for segment in segments:
        for block in segment['blocks']:
            del block['requested_size']
    return segments


def shuffled(snap, rng):
    """Keys in any order and some that nobody knows."""
    def mix(value):
        if isinstance(value, dict):
            items = [(k, mix(v)) for k, v in value.items()]
            items.append(('x_unknown', rng.choice([None, 1.5, [], {'a': (1, 2, 3)}])))
            rng.shuffle(items)
            return dict(items)
        return [mix(v) for v in value] if isinstance(value, list) else value
    snap = mix(snap)
    for trace in snap['device_traces']:
        trace.insert(len(trace) // 2, {'action': 'teleport', 'addr': 1, 'size': 2, 'stream': 3})
        trace.append({'action': 'snapshot', 'addr': 0, 'size': 4096, 'stream': 0})
    return snap


def write(path, snap, protocol, zipped):
    data = jit_pickle.dumps(snap) if protocol == 'jit' else pickle.dumps(snap, protocol)
    with (gzip.open if zipped else open)(path, 'wb') as file:
        file.write(data)


def variants_of(seed, number, snap):
    """(name, snapshot, protocol, opening state is comparable)"""
    yield 'plain', snap, 2 + (seed + number) % 4
    if number != 1:
        return
    yield 'C++', snap, 'jit'
    yield 'without time', drop(snap, 'time_us'), 2
    yield 'without frames', drop(snap, 'frames'), 3
    yield 'keys in any order', shuffled(snap, random.Random(seed)), 5
    if seed % 3 != 2:
        yield 'layout of 2.0', layout_2_0(snap), 2
        yield 'layout of 1.13', layout_1_13(snap), 2


def main():
    program, scratch = sys.argv[1:3]
    seeds = [int(s) for s in sys.argv[3:]] or range(12)
    os.makedirs(scratch, exist_ok=True)
    path = os.path.join(scratch, f'model-{os.getpid()}.pickle')
    count = 0
    for seed in seeds:
        for number, (cut, snap, expected) in enumerate(snapshots_of(seed)):
            name = f'seed {seed}, {cut}'
            for what, shape, protocol in variants_of(seed, number, snap):
                write(path, shape, protocol, zipped=number % 2)
                try:
                    dumped = check_import.check(program, path)
                    check_import.need(not any('contradict' in n for n in dumped.notes),
                                      f'held for contradictory: {dumped.notes}')
                    if what != 'layout of 1.13':  # no history: the state is that of the end
                        compare_opening(name, dumped, expected, what == 'plain' and seed % 4 != 1)
                except check_import.Wrong as fault:
                    sys.exit(f'{name}, {what}: {fault} (kept: {path})')
                count += 1
    os.remove(path)
    print(f'{count} snapshots of {len(seeds)} programs: opening states and replays agree')


if __name__ == '__main__':
    main()
