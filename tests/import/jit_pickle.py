"""Writes a snapshot as PyTorch's C++ pickler does (_memory_snapshot_pickled, R164): protocol 2, every list and
dict filled in one piece of any length, also when empty, strings memoised with BINPUT, integers that don't fit
32 bits always eight bytes long, no sharing but of strings."""
import struct

ENTRY_ORDER = ['action', 'addr', 'device_free', 'size', 'stream', 'compile_context', 'user_metadata', 'time_us',
               'pool_id', 'frames']


class Writer:
    def __init__(self):
        self.out, self.memo = [b'\x80\x02'], {}

    def put(self, data):
        self.out.append(data)

    def text(self, text):
        number = self.memo.get(text)
        if number is not None:
            self.put(struct.pack('<cB', b'h', number) if number < 256 else struct.pack('<cI', b'j', number))
            return
        data = text.encode()
        self.put(struct.pack('<cI', b'X', len(data)) + data)
        number = self.memo[text] = len(self.memo)
        self.put(struct.pack('<cB', b'q', number) if number < 256 else struct.pack('<cI', b'r', number))

    def number(self, n):
        if 0 <= n < 256:
            self.put(struct.pack('<cB', b'K', n))
        elif 0 <= n < 65536:
            self.put(struct.pack('<cH', b'M', n))
        elif -2**31 <= n < 2**31:
            self.put(struct.pack('<ci', b'J', n))
        else:
            self.put(b'\x8a\x08' + struct.pack('<q', n))

    def value(self, value):
        if isinstance(value, bool):
            self.put(b'\x88' if value else b'\x89')
        elif isinstance(value, int):
            self.number(value)
        elif isinstance(value, float):
            self.put(b'G' + struct.pack('>d', value))
        elif isinstance(value, str):
            self.text(value)
        elif isinstance(value, tuple):
            for item in value:
                self.value(item)
            self.put(b'\x86')
        elif isinstance(value, list):
            self.put(b'](')
            for item in value:
                self.value(item)
            self.put(b'e')
        else:
            self.put(b'}(')
            keys = [k for k in ENTRY_ORDER if k in value] if 'action' in value else value
            for key in keys:
                self.text(key)
                self.value(value[key])
            self.put(b'u')


def dumps(snapshot):
    writer = Writer()
    writer.value(snapshot)
    writer.put(b'.')
    return b''.join(writer.out)
