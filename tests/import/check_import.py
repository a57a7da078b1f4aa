#!/usr/bin/env python3
"""check_import.py IMPORT_DUMP SNAPSHOT...

Compares what was imported with the snapshot itself: counts of events, every allocation in order (size,
address, stream, call stack), and then a forward simulation from the imported opening state. In it every
allocation must land at the front of a free block of its stream, and what is live, pending and free at the
end must be the snapshot's final segments and blocks, sizes included."""
import collections
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import snapshot  # noqa: E402

MIB = 1 << 20
FREE, LIVE, PENDING = 0, 1, 2
SEGMENT_ALLOC, SEGMENT_FREE, MAP, UNMAP, OOM = range(5)


class Wrong(Exception):
    pass


def need(condition, text):
    if not condition:
        raise Wrong(text)


class Memory:
    """Segments with blocks, by (device, address)."""

    def __init__(self):
        self.segments = {}  # (device, address) -> dict
        self.max_split = None

    def find(self, device, address):
        for (d, a), s in self.segments.items():
            if d == device and a <= address < a + s['size']:
                return s
        return None

    def place(self, device, stream, address, requested, slot):
        s = self.find(device, address)
        need(s, f'allocation at {address:#x} in no segment')
        need(s['stream'] == stream, f'allocation at {address:#x} in a segment of another stream')
        need(address in s['blocks'], f'allocation at {address:#x} inside a block')
        size, state = s['blocks'][address][:2]
        need(state == FREE, f'allocation at {address:#x} where a block is in use')
        rounded = snapshot.round_size(requested)
        need(size >= rounded, f'{requested} bytes at {address:#x} in a free block of {size}')
        rest = size - rounded
        need(s['expandable'] or s['small'] == (rounded <= MIB), f'{requested} bytes in the wrong kind of pool')
        split = rest >= 512 if s['small'] or s['expandable'] else rest > MIB
        if self.max_split and rounded >= self.max_split and not s['expandable']:
            split = False
        if split:  # R62
            s['blocks'][address + rounded] = [rest, FREE, 0, None]
            size = rounded
        s['blocks'][address] = [size, LIVE, requested, slot]

    def release(self, device, address):
        s = self.find(device, address)
        block = s['blocks'][address]
        block[1] = FREE
        self.merge(s)

    @staticmethod
    def merge(s):
        merged = {}
        last = None
        for address in sorted(s['blocks']):
            block = s['blocks'][address]
            if last is not None and block[1] == FREE and merged[last][1] == FREE:
                merged[last][0] += block[0]
            else:
                merged[address] = block
                last = address
        s['blocks'] = merged

    def obtain(self, device, stream, address, size, expandable):
        small = size == 2 * MIB if not expandable else None
        new = dict(size=size, stream=stream, small=small, expandable=expandable,
                   blocks={address: [size, FREE, 0, None]})
        if expandable:
            for (d, a), s in list(self.segments.items()):
                if d != device or not s['expandable'] or s['stream'] != stream:
                    continue
                if a + s['size'] == address:  # left neighbour
                    s['blocks'].update(new['blocks'])
                    s['size'] += new['size']
                    new, address = s, a
                    del self.segments[d, a]
                elif a == address + new['size']:
                    new['blocks'].update(s['blocks'])
                    new['size'] += s['size']
                    del self.segments[d, a]
            self.merge(new)
        need(self.find(device, address) is None, f'segment at {address:#x} overlaps another')
        self.segments[device, address] = new

    def give_back(self, device, address, size):
        s = self.find(device, address)
        need(s, f'release of {address:#x}: no segment there')
        start = next(a for (d, a), x in self.segments.items() if x is s and d == device)
        if not s['expandable']:
            need(start == address and s['size'] == size, f'release of a part of the segment at {start:#x}')
        block = max(a for a in s['blocks'] if a <= address)
        bsize, state = s['blocks'][block][:2]
        need(state == FREE and block + bsize >= address + size, f'release of {address:#x} while in use')
        del self.segments[device, start]
        left = {a: b for a, b in s['blocks'].items() if a < block}
        right = {a: b for a, b in s['blocks'].items() if a > block}
        if block < address:
            left[block] = [address - block, FREE, 0, None]
        if block + bsize > address + size:
            right[address + size] = [block + bsize - address - size, FREE, 0, None]
        for part in (left, right):
            if part:
                first = min(part)
                self.segments[device, first] = dict(s, size=sum(b[0] for b in part.values()), blocks=part)


def final_state(snap, device):
    """{address: (size, stream, {address: (size, state, requested)})} of the recorded end."""
    states = {'active_allocated': LIVE, 'active_pending_free': PENDING, 'active_awaiting_free': PENDING,
              'inactive': FREE}
    result = {}
    for s in snap.get('segments', []):
        if s.get('device', 0) != device:
            continue
        at, blocks = s['address'], {}
        for b in s['blocks']:
            address = b.get('address', at)
            state = states[b['state']]
            requested = b.get('requested_size')
            if requested is None and b.get('history'):
                requested = b['history'][0]['real_size']
            blocks[address] = (b['size'], state, requested if state != FREE else None)
            at = address + b['size']
        result[s['address']] = (s['total_size'], s['stream'], blocks)
    return result


def kept_devices(snap):
    used = {s.get('device', 0) for s in snap.get('segments', [])}
    used |= {i for i, t in enumerate(snap.get('device_traces', [])) if t}
    return sorted(used) or [0]


def simulate(snap, dumped):
    memory = Memory()
    limit = snap.get('allocator_settings', {}).get('max_split_size', -1)
    memory.max_split = limit if limit > 0 else None
    slots = {}
    last = (-1, -1)
    for s in dumped.segments:
        device, stream, _ = dumped.lanes[s['lane']]
        need((device, s['address']) > last, 'opening segments out of order')
        last = (device, s['address'])
        at, blocks, before = s['address'], {}, LIVE
        for b in s['blocks']:
            need(not (b['state'] == FREE and before == FREE), 'two free opening blocks side by side')
            before = b['state']
            blocks[at] = [b['size'], b['state'], b['requested'], b['slot']]
            if b['state'] != FREE:
                need(b['slot'] not in slots, 'a slot twice in the opening state')
                slots[b['slot']] = (device, at)
            at += b['size']
        need(at == s['address'] + s['size'], 'opening blocks do not fill their segment')
        memory.segments[device, s['address']] = dict(size=s['size'], stream=stream, small=bool(s['small']),
                                                     expandable=bool(s['expandable']), blocks=blocks)
    # The kind of an expandable range that appears later is not in the calls: any pool will do there.
    for step in dumped.steps:
        kind = step[0]
        if kind == 'call':
            _, call, lane, address, size = step
            device, stream, _ = dumped.lanes[lane]
            if call in (SEGMENT_ALLOC, MAP):
                memory.obtain(device, stream, address, size, call == MAP)
            elif call in (SEGMENT_FREE, UNMAP):
                memory.give_back(device, address, size)
        elif kind == 'alloc':
            _, _, lane, slot, size, _, address = step[:7]
            if address == -1:
                continue
            need(slot not in slots, f'slot {slot} is in use')
            device, stream, _ = dumped.lanes[lane]
            memory.place(device, stream, address, size, slot)
            slots[slot] = (device, address)
        elif kind == 'free':
            _, flags, _, slot = step[:4]
            device, address = slots[slot]
            if flags & 1:
                memory.find(device, address)['blocks'][address][1] = PENDING
            else:
                memory.release(device, address)
                del slots[slot]
        elif kind == 'free_done':
            device, address = slots.pop(step[3])
            need(memory.find(device, address)['blocks'][address][1] == PENDING, 'free_done of a live block')
            memory.release(device, address)
    for index, device in enumerate(kept_devices(snap)):
        final = final_state(snap, device)
        mine = {a: s for (d, a), s in memory.segments.items() if d == index}
        need(sorted(mine) == sorted(final), f'device {device}: other segments at the end')
        for address, (size, stream, blocks) in final.items():
            s = mine[address]
            need((s['size'], s['stream']) == (size, stream), f'segment {address:#x} differs at the end')
            got = {a: (b[0], b[1], b[2] if b[1] != FREE else None) for a, b in s['blocks'].items()}
            for a in blocks:
                if blocks[a][2] is None and blocks[a][1] != FREE and a in got:  # layout without it
                    got[a] = (got[a][0], got[a][1], None)
            need(got == blocks, f'segment {address:#x}: blocks differ at the end: '
                 f'{sorted(set(got.items()) ^ set(blocks.items()))[:4]}')


def frames_of(entry):
    return [(f.get('name'), f.get('filename'), str(f.get('line'))) for f in entry.get('frames') or []]


def check(program, path):
    snap = snapshot.load(path)
    dumped = snapshot.dump(program, path)
    traces = snap.get('device_traces', [])
    contradicted = any(n.startswith('Recorded placements contradict') for n in dumped.notes)
    actions = collections.Counter(e['action'] for t in traces for e in t)
    # Counts.
    need(len(dumped.events('alloc')) == actions['alloc'] + actions['oom'], 'number of allocations')
    requested = actions['free_requested'] or actions['free_completed']
    ends = len(dumped.events('free'))
    left_out = sum(int(n.split()[0]) for n in dumped.notes if ' frees of addresses that are not known' in n)
    if actions['alloc'] or actions['free_requested']:
        need(ends + left_out == requested + actions['free'], f'number of frees: {ends} + {left_out}')
    # Each allocation, per device in order.
    for index, device in enumerate(kept_devices(snap)):
        trace = traces[device] if device < len(traces) else []
        expected = [e for e in trace if e['action'] in ('alloc', 'oom')]
        got = [s for s in dumped.events('alloc') if dumped.lanes[s[2]][0] == index]
        need(len(got) == len(expected), f'allocations of device {device}')
        for e, s in zip(expected, got):
            _, _, lane, _, size, time, address, stack = s[:8]
            need(size == e['size'] and dumped.lanes[lane][1] == e['stream'], f'allocation {e}')
            if e['action'] == 'alloc' and not contradicted:
                need(address == e['addr'], f'address of {e}')
            if frames_of(e):
                need(dumped.stacks[stack] == frames_of(e), f'stack of {e}')
            else:
                need(stack == -1 or not dumped.stacks[stack], f'a stack on {e}')
            if contradicted:
                need(address == -1, 'a placement that was to be left out')
    if contradicted:
        need(not dumped.segments, 'an opening state that was to be left out')
    else:
        simulate(snap, dumped)
    # Annotations, in order of time.
    marks = sorted(snap.get('external_annotations', []), key=lambda a: a['time_us'])
    if any(e.get('time_us') for t in traces for e in t):
        flags = {'START': 1, 'END': 2}
        need([(flags.get(a.get('stage'), 0), a.get('name')) for a in marks] ==
             [(s[1], s[8]) for s in dumped.events('mark')], 'annotations')
    last = 0
    for s in dumped.steps:
        if s[0] != 'call':
            need(s[5] >= last, 'times run backwards')
            last = s[5]
    return dumped


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    failed = False
    for path in sys.argv[2:]:
        try:
            dumped = check(sys.argv[1], path)
            print(f'{os.path.basename(path)}: {len(dumped.steps)} steps, {len(dumped.segments)} opening '
                  f'segments: as recorded')
        except Wrong as fault:
            failed = True
            print(f'{path}: {fault}')
    sys.exit(failed)


if __name__ == '__main__':
    main()
