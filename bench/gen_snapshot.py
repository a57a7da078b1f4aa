#!/usr/bin/env python3
"""gen_snapshot.py SIZE OUT: writes a PyTorch memory snapshot of about SIZE (50M, 250M, 1G) for measurements.

Laid out as torch.cuda.memory._dump_snapshot() writes it (protocol 4): framed, everything memoised, keys and
frames fetched from the memo, lists filled in batches of 1000, a list of about 45 frames for each allocation and
one for each free, which its completion shares. The program is a training loop on a best-fit caching allocator in
its steady state, so segments and history agree and every iteration has the same addresses. Same SIZE, same
bytes. The file is written as it grows; memory stays small."""
import random
import struct
import sys

MIB = 1 << 20
UNITS = {'K': 1 << 10, 'M': 1 << 20, 'G': 1 << 30}


class Allocator:
    """PyTorch's default policy without limits: best fit, split, merge."""

    def __init__(self):
        self.segments = {}  # address -> [(address, size, requested or None), ...]
        self.home = {}
        self.next = 0x7F2000000000
        self.trace = []

    def alloc(self, n):
        size = max(512, (n + 511) // 512 * 512)
        small = size <= MIB
        fits = [(b[1], b[0], s) for s, blocks in self.segments.items() for b in blocks
                if b[2] is None and b[1] >= size and (self.total(s) == 2 * MIB) == small]
        if fits:
            _, address, segment = min(fits)
        else:
            total = 2 * MIB if small else 20 * MIB if size < 10 * MIB else (size + 2 * MIB - 1) // (2 * MIB) * 2 * MIB
            address = segment = self.next
            self.next += total
            self.segments[segment] = [(segment, total, None)]
            self.trace.append(('segment_alloc', segment, total))
        blocks = self.segments[segment]
        at = next(i for i, b in enumerate(blocks) if b[0] == address)
        rest = blocks[at][1] - size
        if rest >= 512 if small else rest > MIB:
            blocks[at:at + 1] = [(address, size, n), (address + size, rest, None)]
        else:
            blocks[at] = (address, blocks[at][1], n)
        self.home[address] = segment
        self.trace.append(('alloc', address, n))
        return address

    def total(self, segment):
        return sum(b[1] for b in self.segments[segment])

    def free(self, address):
        blocks = self.segments[self.home.pop(address)]
        at = next(i for i, b in enumerate(blocks) if b[0] == address)
        n = blocks[at][2]
        self.trace += [('free_requested', address, n), ('free_completed', address, n)]
        low = at - 1 if at and blocks[at - 1][2] is None else at
        high = at + 1 if at + 1 < len(blocks) and blocks[at + 1][2] is None else at
        blocks[low:high + 1] = [(blocks[low][0], sum(b[1] for b in blocks[low:high + 1]), None)]


def training(rng, allocator):
    """Weights, then iterations until one repeats the one before; returns that one's entries."""
    for _ in range(200):
        allocator.alloc(rng.choice([4096, 16384, 6553600, 26214400, 102400000]))
    sizes = [512, 8192, 40960, 131072, 1310720, 5242880, 26214400]
    plan = [(rng.choice(sizes), rng.randrange(100)) for _ in range(1500)]
    before = None
    while True:
        allocator.trace = []
        live = []
        for n, die in plan:
            live.append(allocator.alloc(n))
            while die > 45 and len(live) > 8:
                allocator.free(live.pop(die % len(live)))
                die -= 45
        while live:
            allocator.free(live.pop())
        if allocator.trace == before:
            return before
        before = allocator.trace


class Writer:
    def __init__(self, file):
        self.file, self.size, self.memo, self.strings, self.part = file, 0, 0, {}, []
        self.raw(b'\x80\x04')

    def raw(self, data):
        self.file.write(data)
        self.size += len(data)

    def put(self, data):
        self.part.append(data)

    def flush(self):
        """What was put becomes one frame."""
        data = b''.join(self.part)
        self.part = []
        if data:
            self.raw(b'\x95' + struct.pack('<Q', len(data)) + data)

    def memoize(self):
        self.put(b'\x94')
        self.memo += 1
        return self.memo - 1

    @staticmethod
    def fetch(number):
        return struct.pack('<cB', b'h', number) if number < 256 else struct.pack('<cI', b'j', number)

    def text(self, text):
        if text in self.strings:
            self.put(self.fetch(self.strings[text]))
            return
        data = text.encode()
        self.put(b'\x8c' + bytes([len(data)]) + data if len(data) < 256 else b'X' + struct.pack('<I', len(data)) + data)
        self.strings[text] = self.memoize()

    @staticmethod
    def number(n):
        if 0 <= n < 256:
            return struct.pack('<cB', b'K', n)
        if 0 <= n < 65536:
            return struct.pack('<cH', b'M', n)
        if -2**31 <= n < 2**31:
            return struct.pack('<ci', b'J', n)
        data = n.to_bytes(n.bit_length() // 8 + 1, 'little', signed=True)
        return b'\x8a' + bytes([len(data)]) + data

    def value(self, value):
        if isinstance(value, bool):
            self.put(b'\x88' if value else b'\x89')
        elif isinstance(value, int):
            self.put(self.number(value))
        elif isinstance(value, str):
            self.text(value)
        elif isinstance(value, float):
            self.put(b'G' + struct.pack('>d', value))
        elif isinstance(value, tuple):
            for item in value:
                self.value(item)
            self.put(b'\x86')
            self.memoize()
        elif isinstance(value, list):
            self.put(b']')
            self.memoize()
            for i in range(0, len(value), 1000):
                batch = value[i:i + 1000]
                self.put(b'(' if len(batch) > 1 else b'')
                for item in batch:
                    self.value(item)
                self.put(b'e' if len(batch) > 1 else b'a')
        else:
            self.put(b'}')
            self.memoize()
            self.put(b'(' if len(value) > 1 else b'')
            for key, item in value.items():
                self.text(key)
                self.value(item)
            self.put((b'u' if len(value) > 1 else b's') if value else b'')


def segments_of(allocator):
    result = []
    for address, blocks in sorted(allocator.segments.items()):
        total = sum(b[1] for b in blocks)
        used = [b for b in blocks if b[2] is not None]
        result.append({
            'device': 0, 'address': address, 'total_size': total, 'allocated_size': sum(b[1] for b in used),
            'active_size': sum(b[1] for b in used), 'requested_size': sum(b[2] for b in used), 'stream': 0,
            'segment_type': 'small' if total == 2 * MIB else 'large', 'segment_pool_id': (0, 0), 'is_expandable': False,
            'frames': [],
            'blocks': [{'address': b[0], 'size': b[1], 'requested_size': b[2] or 0,
                        'state': 'inactive' if b[2] is None else 'active_allocated', 'frames': []} for b in blocks]})
    return result


def stacks_of(rng):
    """150 call stacks of about 45 frames that share their outer part."""
    frames = [{'name': f'layer_{i}.forward_with_a_name_of_usual_length', 'filename': f'/opt/model/part{i % 37}.py',
               'line': 17 * i % 900} for i in range(600)]
    outer = frames[:30]
    return [[frames[30 + rng.randrange(570)] for _ in range(rng.randrange(8, 24))] + outer for _ in range(150)]


def history(writer, rng, entries, target):
    frames = {}

    def frame(f):
        if id(f) not in frames:
            writer.put(b'}')
            frames[id(f)] = writer.memoize()
            writer.put(b'(')
            for key, item in f.items():
                writer.text(key)
                writer.value(item)
            writer.put(b'u')
        else:
            writer.put(writer.fetch(frames[id(f)]))

    stacks = stacks_of(rng)
    chosen = [stacks[rng.randrange(len(stacks))] for _ in entries]
    clock, prepared, batch, number = 1_700_000_000_000_000, None, 0, 0
    writer.put(b']')
    writer.memoize()
    while prepared is None or writer.size < target:
        templates, shared = [], None
        for i, (action, address, size) in enumerate(entries):
            if batch == 0:
                writer.put(b'(')
            clock += 3
            time = b'\x8a\x07' + clock.to_bytes(7, 'little')
            if prepared:
                head, tail, uses = prepared[i]
                writer.put(head)
                writer.put(time)
                writer.put(tail)
                if action == 'free_completed':
                    writer.put(b'j' + struct.pack('<I', shared) + b'u')
                elif action == 'free_requested':
                    shared = writer.memo + 1
                writer.memo += uses
            else:
                start, memo = len(writer.part), writer.memo
                writer.put(b'}')
                writer.memoize()
                writer.put(b'(')
                for key, item in (('action', action), ('addr', address), ('size', size), ('stream', 0)):
                    writer.text(key)
                    writer.value(item)
                writer.text('time_us')
                middle = len(writer.part)
                writer.put(time)
                for key, item in (('compile_context', 'N/A'), ('user_metadata', '')):
                    writer.text(key)
                    writer.text(item)
                writer.text('frames')
                if action == 'free_completed':
                    end = len(writer.part)
                    writer.put(b'j' + struct.pack('<I', shared) + b'u')
                else:
                    writer.put(b']')
                    shared = writer.memoize()
                    writer.put(b'(')
                    for f in chosen[i]:
                        frame(f)
                    writer.put(b'eu')
                    end = len(writer.part)
                templates.append((b''.join(writer.part[start:middle]), b''.join(writer.part[middle + 1:end]),
                                  writer.memo - memo))
            number += 1
            batch += 1
            if batch == 1000:
                writer.put(b'e')
                writer.flush()
                batch = 0
        if prepared is None and number > len(entries):  # the second pass has every string and frame in the memo
            prepared = templates
    if batch:
        writer.put(b'e')
        writer.flush()
    return number


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    size = sys.argv[1].upper()
    target = int(size[:-1]) * UNITS[size[-1]] if size[-1] in UNITS else int(size)
    rng = random.Random(1)
    allocator = Allocator()
    entries = training(rng, allocator)
    with open(sys.argv[2], 'wb') as file:
        writer = Writer(file)
        writer.put(b'}')
        writer.memoize()
        writer.put(b'(')
        writer.text('segments')
        writer.value(segments_of(allocator))
        writer.text('device_traces')
        writer.put(b']')
        writer.memoize()
        number = history(writer, rng, entries, target)
        writer.put(b'a')
        writer.text('allocator_settings')
        writer.value({'PYTORCH_CUDA_ALLOC_CONF': '', 'max_split_size': -1, 'garbage_collection_threshold': 0.0})
        writer.text('external_annotations')
        writer.value([])
        writer.put(b'u.')
        writer.flush()
    print(f'{sys.argv[2]}: {writer.size} bytes, {number} history entries, {len(entries)} in an iteration')


if __name__ == '__main__':
    main()
