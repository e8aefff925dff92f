#!/usr/bin/env python3
"""make_trace.py LENGTHS.csv N RATE > trace.csv: the synthetic trace that Vidur makes from a trace of
lengths: shuffled as numpy's RandomState(42) does, at most 4,096 tokens a request, Poisson arrivals with
gaps of at most three means. With the splitwise_conv.csv that Vidur publishes, 10000 and 2.5 it is the
benchmark's case; the first 1,000 requests are those of Vidur's own run of that length."""
import csv
import math
import random
import sys

LIMIT, SEED = 4096, 42


def shuffled(n):
    """numpy.random.RandomState(SEED).permutation(n): the same Mersenne twister, otherwise seeded."""
    key = [SEED]
    for i in range(1, 624):
        key.append((1812433253 * (key[-1] ^ (key[-1] >> 30)) + i) & 0xFFFFFFFF)
    twister = random.Random()
    twister.setstate((3, tuple(key) + (624,), None))
    order = list(range(n))
    for i in range(n - 1, 0, -1):
        mask = (1 << i.bit_length()) - 1
        while (j := twister.getrandbits(32) & mask) > i:
            pass
        order[i], order[j] = order[j], order[i]
    return order


def main():
    path, n, rate = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    with open(path, newline="") as f:
        rows = [(int(r["num_prefill_tokens"]), int(r["num_decode_tokens"])) for r in csv.DictReader(f)]
    random.seed(SEED)
    at = 0.0
    print("arrived_at,num_prefill_tokens,num_decode_tokens")
    for i in shuffled(len(rows))[:n]:
        p, d = rows[i]
        over = max(0, p + d - LIMIT)
        if over:  # taken off both in proportion, rounded up
            p, d = p - math.ceil(over * p / (p + d)), d - math.ceil(over * d / (p + d))
        at += min(-math.log(1 - random.random()) / rate, 3 * (1 / rate))
        print(f"{at!r},{max(p, 1)},{max(d, 1)}")


main()
