"""Reads a memory snapshot with Python's own pickle, refusing every global, and says what an import of it
has to hold. Shares nothing with the C code."""
import gzip
import io
import pickle
import subprocess


class Restricted(pickle.Unpickler):
    def find_class(self, module, name):
        raise pickle.UnpicklingError(f'class reference {module}.{name}')


def load(path):
    with open(path, 'rb') as file:
        data = file.read()
    if data[:4] == b'\x28\xb5\x2f\xfd':
        data = subprocess.run(['zstd', '-dcq', path], stdout=subprocess.PIPE, check=True).stdout
    elif data[:2] == b'\x1f\x8b':
        data = gzip.decompress(data)
    snapshot = Restricted(io.BytesIO(data)).load()
    if isinstance(snapshot, list):
        snapshot = {'segments': snapshot, 'device_traces': []}
    return snapshot


def round_size(n):
    return max(512, (n + 511) // 512 * 512)


class Dump:
    """What import_dump printed."""

    def __init__(self, text):
        self.notes, self.lanes, self.stacks, self.segments, self.steps = [], [], [], [], []
        self.settings = None
        for line in text.splitlines():
            kind, _, rest = line.partition(' ')
            if kind == 'note':
                self.notes.append(rest)
            elif kind == 'settings':
                self.settings = rest
            elif kind == 'lane':
                self.lanes.append(tuple(map(int, rest.split()[1:])))
            elif kind == 'stack':
                words = rest.split('\t')[1:]
                self.stacks.append([tuple(words[i:i + 3]) for i in range(0, len(words), 3)])
            elif kind == 'segment':
                address, size, lane, small, expandable, stack = map(int, rest.split())
                self.segments.append(dict(address=address, size=size, lane=lane, small=small,
                                          expandable=expandable, stack=stack, blocks=[]))
            elif kind == 'block':
                size, requested, state, slot, stack = map(int, rest.split())
                self.segments[-1]['blocks'].append(dict(size=size, requested=requested, state=state,
                                                        slot=slot, stack=stack))
            elif kind == 'call':
                kind, lane, address, size = map(int, rest.split())
                self.steps.append(('call', kind, lane, address, size))
            elif kind == 'event':
                words = rest.split(' ', 8)
                self.steps.append((words[0], *map(int, words[1:8])) + tuple(words[8:]))

    def events(self, kind):
        return [s for s in self.steps if s[0] == kind]


def dump(program, path):
    done = subprocess.run([program, path], stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    if done.returncode:
        raise SystemExit(f'{path}: import failed ({done.returncode}): {done.stderr.decode()}')
    return Dump(done.stdout.decode())
