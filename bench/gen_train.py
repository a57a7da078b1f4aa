#!/usr/bin/env python3
"""gen_train.py EVENTS [SEED]: writes a training run as a text trace of about EVENTS events.

Twelve transformer layers, width 1024, batch 4; the sequence length is drawn anew each step from 64 values between 128
and 1024, so that sizes change and free blocks of many sizes stay behind. Activations of the forward pass live until
their layer's backward pass; gradients and optimizer state live on. Same arguments, same bytes."""
import random
import sys

LAYERS, WIDTH, BATCH, VOCABULARY = 12, 1024, 4, 32000


class Writer:
    def __init__(self, events):
        self.left, self.spare, self.next = events, [], 0

    def alloc(self, size):
        slot = self.spare.pop() if self.spare else self.next
        self.next = max(self.next, slot + 1)
        print(f'alloc {slot} {size}')
        self.left -= 1
        return slot

    def free(self, slot):
        print(f'free {slot}')
        self.spare.append(slot)
        self.left -= 1


def layer(w, chance, length):
    """The forward pass of one layer: what it leaves for the backward pass."""
    kept = []
    for factor in (1, 3, 1, 1, 4, 4, 1):  # norm, qkv, attention, projection, feed-forward up and down, sum
        kept.append(w.alloc(2 * BATCH * length * WIDTH * factor))
        for _ in range(chance.randrange(1, 4)):
            w.free(w.alloc(2 * BATCH * length * chance.choice((16, 256, WIDTH))))
    return kept


def step(w, chance):
    length = 128 + 896 * chance.randrange(64) // 63
    saved = [layer(w, chance, length) for _ in range(LAYERS)]
    logits = w.alloc(2 * BATCH * length * VOCABULARY)
    gradient = w.alloc(2 * BATCH * length * WIDTH)
    w.free(logits)
    for kept in reversed(saved):
        for slot in reversed(kept):
            scratch = w.alloc(2 * BATCH * length * WIDTH * chance.choice((1, 1, 4)))
            w.free(slot)
            w.free(scratch)
        following = w.alloc(2 * BATCH * length * WIDTH)
        w.free(gradient)
        gradient = following
    w.free(gradient)


def main(events, seed=1):
    chance, w = random.Random(int(seed)), Writer(int(events))
    print('source train')
    for _ in range(LAYERS):  # weights, gradients, two moments
        for _ in range(4):
            for rows in (3, 1, 4, 4):
                w.alloc(4 * WIDTH * WIDTH * rows)
    while w.left > 0:
        step(w, chance)


if __name__ == '__main__':
    main(*sys.argv[1:])
