"""A small model of PyTorch's caching allocator (native backend, default options or expandable segments) that
records a history as PyTorch does, for tests of the import. Written from the rules of the specification (R25,
R31, R33, R57-R70, R87-R95); it shares nothing with the C code."""

MIB = 1 << 20
PAGE = {True: 2 * MIB, False: 20 * MIB}  # of expandable segments, by small


def round_size(n):
    return max(512, (n + 511) // 512 * 512)


class Block:
    __slots__ = ('address', 'size', 'requested', 'state', 'prev', 'next', 'small', 'stream', 'pool', 'mapped', 'uses',
                 'expandable')

    def __init__(self, address, size, like=None, **more):
        self.address, self.size, self.requested, self.state = address, size, 0, 'inactive'
        self.prev = self.next = None
        self.uses = 0
        self.mapped = True
        for name in ('small', 'stream', 'pool', 'expandable'):
            setattr(self, name, getattr(like, name) if like else more[name])


class Allocator:
    def __init__(self, device=0, capacity=1 << 40, expandable=False, base=0x7F0000000000):
        self.device, self.capacity, self.expandable = device, capacity, expandable
        self.blocks = []  # first blocks of chains
        self.live = {}  # address -> block
        self.free = []
        self.pending = []
        self.trace = []
        self.reserved = 0
        self.next_address = base
        self.holes = {}  # size -> addresses given back, to be used again as drivers do
        self.time = 1_700_000_000_000_000
        self.stack = None
        self.routes = {}  # stream -> pool id

    def record(self, action, address, size, stream):
        self.time += 3
        key = 'device_free' if action == 'oom' else 'addr'
        entry = {'action': action, key: address, 'size': size, 'stream': stream, 'time_us': self.time}
        if self.stack is not None:
            entry['frames'] = self.stack
        self.trace.append(entry)

    # Driver.
    def driver(self, size):
        if self.reserved + size > self.capacity:
            return None
        if self.holes.get(size):
            return self.holes[size].pop()
        address = self.next_address
        self.next_address += (size + 2 * MIB - 1) // (2 * MIB) * (2 * MIB) + 4 * MIB
        return address

    # The free set, ordered by stream, size, address.
    def search(self, size, small, stream, pool):
        fits = [b for b in self.free if b.small == small and b.stream == stream and b.pool == pool and
                b.size >= size and b.mapped]
        fits.sort(key=lambda b: (b.size, b.address))
        if not fits:
            return None
        room = [b.size + (b.next.size if b.next and not b.next.mapped else 0) for b in fits]
        at = 0  # what could grow into the hole behind it counts as that much larger (R37)
        while self.expandable and at + 1 < len(fits) and room[at + 1] < room[at]:
            at += 1
        return fits[at]

    def merge(self, block):
        for side in ('prev', 'next'):
            other = getattr(block, side)
            if other is None or other.state != 'inactive' or other.mapped != block.mapped:
                continue
            self.free.remove(other)
            if side == 'prev':
                block.address, block.prev = other.address, other.prev
                if other.prev:
                    other.prev.next = block
                if other in self.blocks:
                    self.blocks[self.blocks.index(other)] = block
            else:
                block.next = other.next
                if other.next:
                    other.next.prev = block
            block.size += other.size

    def obtain(self, rounded, small, stream, pool):
        if self.expandable:
            return self.map_more(rounded, small, stream, pool)
        whole = (rounded + 2 * MIB - 1) // (2 * MIB) * (2 * MIB)
        size = 2 * MIB if small else 20 * MIB if rounded < 10 * MIB else whole
        address = self.driver(size)
        if address is None:
            return None
        block = Block(address, size, small=small, stream=stream, pool=pool, expandable=False)
        self.blocks.append(block)
        self.reserved += size
        self.record('segment_alloc', address, size, stream)
        return block

    def map_more(self, rounded, small, stream, pool):
        """One range a (stream, pool kind), large enough for everything."""
        page = PAGE[small]
        first = next((b for b in self.blocks if b.expandable and b.small == small and b.stream == stream and
                      b.pool == pool), None)
        if first is None:
            address = self.next_address // page * page + page
            self.next_address = address + (1 << 40)
            first = Block(address, (1 << 40) // page * page, small=small, stream=stream, pool=pool, expandable=True)
            first.mapped = False
            self.blocks.append(first)
            self.free.append(first)
        # First fit over address space: a hole, with the free blocks around it (R87).
        hole = first
        while True:
            while hole.mapped or hole.state != 'inactive':
                hole = hole.next
            start = hole.prev if hole.prev and hole.prev.state == 'inactive' else hole
            total, b = 0, start
            while b is not None and b.state == 'inactive' and total < rounded:
                total += b.size
                b = b.next
            if total >= rounded:
                break
            hole = hole.next
        block = start
        if not block.mapped:
            block = self.map_block(block, min(block.size, rounded), page)
        while block and block.size < rounded:
            block = self.map_block(block.next, min(rounded - block.size, block.next.size), page)
        if block:
            self.free.remove(block)
        return block

    def map_block(self, block, want, page):
        size = (want + page - 1) // page * page
        if self.reserved + size > self.capacity:
            return None
        if size < block.size:
            rest = Block(block.address + size, block.size - size, block)
            rest.mapped = False
            rest.prev, rest.next = block, block.next
            if block.next:
                block.next.prev = rest
            block.next = rest
            block.size = size
            self.free.append(rest)
        block.mapped = True
        self.free.remove(block)
        address = block.address
        self.merge(block)
        self.free.append(block)
        self.reserved += size
        self.record('segment_map', address, size, block.stream)
        return block

    def process_events(self, how_many=None):
        for block in self.pending[:how_many]:
            self.complete(block)
            self.pending.remove(block)

    def release_cached(self):
        self.process_events()
        for small in (False, True):
            whole = sorted((b for b in self.free if b.small == small and b.mapped and not b.expandable and
                            not b.prev and not b.next and b.pool == (0, 0)),
                           key=lambda b: (b.stream, b.size, b.address))
            for block in whole:
                self.free.remove(block)
                self.blocks.remove(block)
                self.reserved -= block.size
                self.holes.setdefault(block.size, []).append(block.address)
                self.record('segment_free', block.address, block.size, block.stream)
            for block in sorted((b for b in self.free if b.small == small and b.mapped and b.expandable),
                                key=lambda b: (b.stream, b.size, b.address)):
                self.unmap(block)

    def unmap(self, block):
        page = PAGE[block.small]
        low = (block.address + page - 1) // page * page
        high = (block.address + block.size) // page * page
        if low >= high:
            return
        self.free.remove(block)
        if block.address < low:
            front = Block(block.address, low - block.address, block)
            front.prev, front.next = block.prev, block
            if block.prev:
                block.prev.next = front
            else:
                self.blocks[self.blocks.index(block)] = front
            block.prev = front
            self.free.append(front)
        if block.address + block.size > high:
            back = Block(high, block.address + block.size - high, block)
            back.prev, back.next = block, block.next
            if block.next:
                block.next.prev = back
            block.next = back
            self.free.append(back)
        block.address, block.size, block.mapped = low, high - low, False
        self.reserved -= block.size
        self.record('segment_unmap', low, block.size, block.stream)
        self.merge(block)
        self.free.append(block)

    # What a program does.
    def alloc(self, n, stream=0):
        pool = self.routes.get(stream, (0, 0))
        rounded = round_size(n)
        small = rounded <= MIB
        block = self.search(rounded, small, stream, pool)
        if block:
            self.free.remove(block)
        else:
            block = self.obtain(rounded, small, stream, pool)
            if block is None:
                self.release_cached()
                block = self.obtain(rounded, small, stream, pool)
            if block is None:
                self.record('oom', self.capacity - self.reserved, rounded, stream)
                return None
        rest = block.size - rounded
        if rest >= 512 if small or self.expandable else rest > MIB:
            front = Block(block.address, rounded, block)
            front.prev, front.next = block.prev, block
            if block.prev:
                block.prev.next = front
            else:
                self.blocks[self.blocks.index(block)] = front
            block.prev = front
            block.address += rounded
            block.size = rest
            self.free.append(block)
            block = front
        block.state, block.requested = 'active_allocated', n
        self.live[block.address] = block
        self.record('alloc', block.address, n, stream)
        return block

    def release(self, block, uses=False):
        del self.live[block.address]
        self.record('free_requested', block.address, block.requested, block.stream)
        if uses:
            block.state = 'active_pending_free'
            self.pending.append(block)
        else:
            self.complete(block)

    def complete(self, block):
        self.record('free_completed', block.address, block.requested, block.stream)
        block.state = 'inactive'
        self.merge(block)
        self.free.append(block)

    def empty_cache(self):
        self.release_cached()

    def segments(self):
        """As a snapshot lists them: one entry a segment, or a mapped run of an expandable one."""
        result = []
        for first in self.blocks:
            run, b = [], first
            while b is not None:
                if b.mapped:
                    run.append(b)
                if run and (b.next is None or not b.next.mapped):
                    result.append(self.segment(run))
                    run = []
                b = b.next
        return sorted(result, key=lambda s: s['address'])

    def segment(self, run):
        blocks = [{'address': b.address, 'size': b.size, 'requested_size': b.requested, 'state': b.state, 'frames': []}
                  for b in run]
        active = [b for b in blocks if b['state'] != 'inactive']
        return {'device': self.device, 'address': run[0].address, 'total_size': sum(b['size'] for b in blocks),
                'allocated_size': sum(b['size'] for b in blocks if b['state'] == 'active_allocated'),
                'active_size': sum(b['size'] for b in active),
                'requested_size': sum(b['requested_size'] for b in active), 'stream': run[0].stream,
                'segment_type': 'small' if run[0].small else 'large', 'segment_pool_id': run[0].pool,
                'is_expandable': run[0].expandable, 'frames': [], 'blocks': blocks}
