"""Seeded random cases for verify: every kind of operation, on several settings and sizes of device."""

import random

MIB = 1 << 20
POOLS_SINCE = 20300
EDGES = [1, 511, 512, 513, 1024, MIB - 512, MIB, MIB + 1, 10 * MIB - 1, 10 * MIB, 10 * MIB + 1, 20 * MIB, 32 * MIB]


def settings_of(release):
    """Option strings and memory fractions to try, for a release number such as 20600."""
    choices = [
        ("-", None),
        ("-", 0.6),
        ("max_split_size_mb:64", None),
        ("max_split_size_mb:200", 0.8),
        ("roundup_power2_divisions:4", None),
        ("garbage_collection_threshold:0.5", 0.9),
        ("garbage_collection_threshold:0.3,max_split_size_mb:100", 0.7),
    ]
    if release >= 20100:
        choices += [
            ("roundup_power2_divisions:[256:2,512:4,>:8]", None),
            ("expandable_segments:True", None),
            ("expandable_segments:True", 0.7),
            ("expandable_segments:True,roundup_power2_divisions:8", None),
            ("expandable_segments:True,garbage_collection_threshold:0.6", 0.8),
        ]
    if release >= 20600:
        choices += [
            ("max_split_size_mb:64,max_non_split_rounding_mb:40", None),
            ("expandable_segments:True,max_split_size_mb:128", None),
        ]
    if release >= 21000:
        choices.append(("per_process_memory_fraction:0.7,max_split_size_mb:20", None))
    if release >= 21100:
        choices += [
            ("large_segment_size_mb:64", None),
            ("large_segment_size_mb:12,expandable_segments:True", 0.8),
        ]
    if release >= 21200:
        choices.append(("throw_on_cudamalloc_oom:True,per_process_memory_fraction:1.0", None))
    if release >= 21500:
        choices += [
            ("expandable_segments:True,expandable_segments_reserve:0.3", None),
            ("expandable_segments:True,expandable_segments_reserve:0.2G", 0.9),
        ]
    return choices


def random_size(rng):
    kind = rng.random()
    if kind < 0.10:
        return rng.choice(EDGES)
    if kind < 0.11:
        return 0
    if kind < 0.55:
        return int(2 ** rng.uniform(0, 20))
    if kind < 0.85:
        return int(2 ** rng.uniform(20, 25))
    return int(2 ** rng.uniform(25, 28))


def operations_of(rng, count):
    streams = rng.choice([1, 2, 4])
    keep = rng.choice([10, 40, 150])
    live, made, lines = [], 0, []
    while len(lines) < count:
        dice = rng.random()
        if dice < 0.02:
            lines.append("s" if rng.random() < 0.5 else f"s {rng.randrange(streams)}")
        elif dice < 0.025:
            lines.append("e")
        elif dice < 0.035:
            lines.append("q")
        elif dice < 0.04:
            lines.append(rng.choice(["kp", "ka"]))
        elif dice < 0.10 and live and streams > 1:
            lines.append(f"r {rng.choice(live)} {rng.randrange(streams)}")
        elif live and (len(live) > keep or dice < 0.45):
            lines.append(f"f {live.pop(rng.randrange(len(live)))}")
        else:
            lines.append(f"a {made} {random_size(rng)} {rng.randrange(streams)}")
            live.append(made)
            made += 1
    return lines


def pool_operations_of(rng, count):
    """
    With private pools: filled by some streams or all, one after the other or at once, given up. Left out is what the
    original leaves open: emptying the cache during a fill, filling a pool that was given up, and uses by other streams
    that meet a fill.
    """
    streams, keep = rng.choice([1, 2, 4]), rng.choice([10, 40])
    live, used, made, lines = [], set(), 0, []
    filled, kept, gone = [], set(), set()
    while len(lines) < count:
        dice = rng.random()
        if dice < 0.03 and len(filled) < 2:
            free = [pool for pool in range(4) if pool not in filled and pool not in gone]
            if free:
                pool = rng.choice(free)
                taken = [str(n) for n in range(streams) if rng.random() < 0.7] or ["0"]
                lines.append(f"pb {pool} {'*' if rng.random() < 0.4 else ','.join(taken)}")
                if pool in kept:
                    lines.append(f"pr {pool}")
                filled.append(pool)
                kept.add(pool)
        elif dice < 0.07 and filled:
            lines.append(f"pe {filled.pop(rng.randrange(len(filled)))}")
        elif dice < 0.08 and kept - set(filled):
            pool = rng.choice(sorted(kept - set(filled)))
            lines.append(f"pr {pool}")
            kept.discard(pool)
            gone.add(pool)
        elif dice < 0.09:
            lines.append(rng.choice(["q", "m", "s"]))
        elif dice < 0.10 and not filled:
            lines.append("e")
        elif dice < 0.14 and live and streams > 1 and not filled:
            number = rng.choice(live)
            used.add(number)
            lines.append(f"r {number} {rng.randrange(streams)}")
        elif live and (len(live) > keep or dice < 0.5):
            free = [number for number in live if not filled or number not in used]
            if free:
                number = rng.choice(free)
                live.remove(number)
                lines.append(f"f {number}")
            elif len(live) > 3 * keep:
                lines.append(f"pe {filled.pop()}")
        else:
            lines.append(f"a {made} {random_size(rng)} {rng.randrange(streams)}")
            live.append(made)
            made += 1
    return lines


def write_cases(release, total, seed, family="verify"):
    """The text of cases with about `total` operations, without answers."""
    rng = random.Random(seed)
    choices = settings_of(release)
    each = max(50, min(1500, total // len(choices)))
    text, done, number = [], 0, 0
    while done < total:
        settings, fraction = choices[number % len(choices)]
        lines = operations_of(rng, min(each, max(1, total - done)))
        capacity = rng.choice([384, 1024, 2048, 6144]) * MIB
        name = family
        if release >= POOLS_SINCE and number % 4 == 3 and "expandable" not in settings:
            name = "pools-" + family  # the name tells that maps say which pool owns a segment
            lines = pool_operations_of(rng, len(lines))
        text.append(f"case {name}-{number:03d}\nconf {settings}\ncapacity {capacity}\n"
                    f"fraction {'-' if fraction is None else fraction}\nops {len(lines)}\n")
        text.extend(line + "\n" for line in lines)
        text.append("end\n")
        done += len(lines)
        number += 1
    return "".join(text)
