"""Small recordings for the command-line tests, made by hand so that every number of a result can be checked."""
import pickle

MIB = 1 << 20
BASE = 0x7F0000000000


def small():
    """Three allocations in one segment of 20 MiB (specification: R31, R37, R62).

    3 MiB and 4 MiB lie one after the other; the first is freed; 2 MiB and 100 bytes take its place. What is left of
    that block is less than 1 MiB, so that it is not split off: slack of 3 MiB - 2097252 bytes.
    """
    size = 2 * MIB + 100

    def entry(action, address, length, time):
        return {'action': action, 'addr': address, 'size': length, 'stream': 0, 'time_us': 1000 + time}

    def block(address, length, requested, state):
        return {'address': address, 'size': length, 'requested_size': requested, 'state': state, 'frames': []}

    return {
        'segments': [{
            'device': 0, 'address': BASE, 'total_size': 20 * MIB, 'allocated_size': 7 * MIB,
            'active_size': 7 * MIB, 'requested_size': 4 * MIB + size, 'stream': 0, 'segment_type': 'large',
            'segment_pool_id': (0, 0), 'is_expandable': False, 'frames': [],
            'blocks': [block(BASE, 3 * MIB, size, 'active_allocated'),
                       block(BASE + 3 * MIB, 4 * MIB, 4 * MIB, 'active_allocated'),
                       block(BASE + 7 * MIB, 13 * MIB, 0, 'inactive')]}],
        'device_traces': [[
            entry('segment_alloc', BASE, 20 * MIB, 0),
            entry('alloc', BASE, 3 * MIB, 1),
            entry('alloc', BASE + 3 * MIB, 4 * MIB, 2),
            entry('free_requested', BASE, 3 * MIB, 3),
            entry('free_completed', BASE, 3 * MIB, 4),
            entry('alloc', BASE, size, 5)]],
        'allocator_settings': {
            'PYTORCH_CUDA_ALLOC_CONF': '', 'max_split_size': -1, 'garbage_collection_threshold': 0.0,
            'expandable_segments': False},
        'external_annotations': [],
    }


def write(path, protocol=4):
    with open(path, 'wb') as file:
        pickle.dump(small(), file, protocol=protocol)
