#!/usr/bin/env python3
"""Batches of a real run whose batches.csv was not kept, from its request_metrics.csv: batches.py RUN > batches.csv

A request has one token in each iteration from its first token to its last, so the number of iterations between these two is known;
requests whose tokens came at the same moment tie the counts together. What is tied to nothing is placed between its
neighbours in time, at the nearest whole iteration. True where no request was preempted and none ended early; where the rows say
otherwise this ends with an error. Columns: iterations of the row (the ends of some are not known), when the last of them
ended, their mean duration, and of that last one the prompts' tokens, decode sequences, and the sum and the longest of their
cached tokens. Needs Python alone."""

import bisect
import collections
import csv
import os
import sys


def requests(run):
    with open(os.path.join(run, "request_metrics.csv"), encoding="utf-8") as f:
        rows = [r for r in csv.DictReader(f) if r["status"] == "ok"]
    if any(int(r["preemptions"] or 0) for r in rows):
        sys.exit(f"{run}: requests were preempted: their iterations cannot be counted")
    return [(int(r["first_token_time_ns"]), int(r["completion_time_ns"]), int(r["num_prefill_tokens"]),
             int(r["num_decode_tokens_actual"])) for r in rows]


def tied(rows):
    """Groups of moments whose iterations are known relative to each other: [{moment: iteration}]."""
    ties = collections.defaultdict(list)
    for first, last, _, tokens in rows:
        ties[first].append((last, tokens - 1))
        ties[last].append((first, 1 - tokens))
    at, groups = {}, []
    for start in sorted(ties):
        if start in at:
            continue
        group, queue = {start: 0}, [start]
        at[start] = 0
        while queue:
            here = queue.pop()
            for there, k in ties[here]:
                if there not in at:
                    at[there] = group[there] = at[here] + k
                    queue.append(there)
                elif at[there] != at[here] + k:
                    sys.exit("the requests' tokens do not add up: not one token an iteration")
        groups.append(group)
    return groups


def placed(groups):
    """{moment: iteration} of all groups: the tightest next, at the median of what its neighbours say."""
    groups = sorted(groups, key=len, reverse=True)
    known = dict(groups[0])
    left = groups[1:]
    while left:
        moments = sorted(known)
        best = None
        for g in left:
            low, high, guesses = -10**9, 10**9, []
            for t, k in g.items():
                j = bisect.bisect(moments, t)
                below, above = moments[j - 1] if j else None, moments[j] if j < len(moments) else None
                if below is not None:
                    low = max(low, known[below] + 1 - k)
                if above is not None:
                    high = min(high, known[above] - 1 - k)
                if below is not None and above is not None:
                    part = (t - below) / (above - below)
                    guesses.append(known[below] + part * (known[above] - known[below]) - k)
            if best is None or high - low < best[0]:
                best = (high - low, g, low, high, guesses)
        room, g, low, high, guesses = best
        if room < 0:
            sys.exit("the requests' tokens do not add up: two orders of the same iterations")
        guesses.sort()
        shift = round(guesses[len(guesses) // 2]) if guesses else (low if low > -10**8 else high)
        shift = min(max(shift, low), high)
        known.update((t, k + shift) for t, k in g.items())
        left.remove(g)
    return known


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    try:
        rows = requests(sys.argv[1])
    except (OSError, KeyError) as e:
        sys.exit(f"{sys.argv[1]}: no request rows of a run: {e}")
    if not rows:
        sys.exit(f"{sys.argv[1]}: no request ended well")
    at = placed(tied(rows))
    first = min(at.values())
    n = max(at.values()) - first + 1
    cached, prompts = [[] for _ in range(n)], [0] * n
    for begin, end, prompt, _ in rows:
        b, e = at[begin] - first, at[end] - first
        prompts[b] += prompt
        for i in range(b + 1, e + 1):
            cached[i].append(prompt + i - b - 1)
    print("iterations,end_ns,duration_ns,num_prefill_tokens,num_decode_tokens,kv_sum,kv_max")
    moments = sorted(at)
    for before, t in zip(moments, moments[1:]):
        i, k = at[t] - first, at[t] - at[before]
        print(k, t, round((t - before) / k), prompts[i], len(cached[i]), sum(cached[i]), max(cached[i], default=0), sep=",")
    print(f"{n} iterations, the ends of {len(moments)} of them known", file=sys.stderr)


if __name__ == "__main__":
    main()
