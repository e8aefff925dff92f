#!/usr/bin/env python3
"""The parts of run.sh that read and write JSON and CSV.

corrections, parameters     the cases, one a line; "none" first
remove CASE ROOT            takes the correction out of all bundles under ROOT; prints the models that had it
neutral CASE ROOT           sets the parameter in calibration.json under ROOT; prints what was set, nothing where it counts for nothing
trace RUN                   the run's arrivals and lengths, as workload.trace takes them
cells FILE PIECE CASE WORKLOAD   the cells of compare.json: PIECE,CASE,WORKLOAD,METRIC,PERCENTILE,ERROR in %
tables CELLS                the tables
"""
import csv
import glob
import json
import os
import re
import sys

CORRECTIONS = [
    "iteration.decode", "iteration.decode_first", "iteration.decode_second", "iteration.prompt",
    "iteration.prompt_mixed", "iteration.decode_beside", "host.scale", "host.prefill_scale", "wake", "power_cap",
    "prompt_batches", "contention",
]

# At 0 it has no effect. Other efficiencies have no such value: 1 is the data sheet's, not nothing.
ZERO = [
    "layer_s", "experts_layer_s", "row_layer_s", "iteration_s", "sequence_s", "chunk_s", "token_s", "piece_layer_s",
    "kernel_layer_s", "kernel_experts_s", "launch_spread", "cold_launch", "answer_s", "collective_s",
]
SAME_AS = {"experts_weights_efficiency": "weights_efficiency", "experts_efficiency": "compute_efficiency"}
EXPERTS = {"experts_layer_s", "kernel_experts_s", *SAME_AS}

PERCENTILES = ("p50", "p90", "p99")


def write(path, value):
    with open(path, "w", encoding="utf-8") as f:
        json.dump(value, f)


def read(path):
    with open(path, encoding="utf-8") as f:
        return json.load(f)


def take_out(meta, correction):
    """True where META had it and it was not without effect."""
    *folders, name = correction.split(".")
    for folder in folders:
        meta = meta.get(folder, {})
    value = meta.pop(name, None)
    return value not in (None, [], 1) and not (name == "power_cap" and not value["held"])


def remove(case, root):
    """Whole sections go; scales of the host are 1 where they are not given."""
    for path in sorted(glob.glob(f"{root}/data/profiling/compute/*/*/bundle_meta.json")):
        meta = read(path)
        cases = {"none": [], "all": CORRECTIONS}.get(case, [case])
        had = [take_out(meta, c) for c in cases]
        write(path, meta)
        if any(had) or case == "none":
            print(os.path.basename(os.path.dirname(path)))


def neutral(case, root):
    if case == "none":
        print("none")
        return
    for path in glob.glob(f"{root}/data/profiling/compute/*/*/calibration.json"):
        calibration = read(path)
        parameters = calibration["parameters"]
        told = any(parameters[p]["fitted"] for p in EXPERTS) or case not in EXPERTS
        to = parameters[SAME_AS[case]]["value"] if case in SAME_AS else 0
        if case == "collective_s" or not told or parameters[case]["value"] == to:
            continue
        parameters[case]["value"] = to
        for end in ("low", "high"):
            parameters[case][end] = to
        write(path, calibration)
        print(case, to)


def trace(run):
    print("arrived_at,num_prefill_tokens,num_decode_tokens")
    with open(f"{run}/request_metrics.csv", encoding="utf-8", newline="") as f:
        for row in csv.DictReader(f):
            print(f'{int(row["arrival_time_ns"]) / 1e9:.9f},{row["num_prefill_tokens"]},{row["num_decode_tokens"]}')


def cells(path, piece, case, workload):
    """P99 with 1,000 requests."""
    compared = read(path)
    for metric in ("ttft", "tpot", "e2e"):
        of = compared["metrics"][metric]
        for percentile in PERCENTILES:
            error = of["percentiles"][percentile]["error_percent"]
            if error is not None and (percentile != "p99" or of["real_n"] >= 1000):
                print(f"{piece},{case},{workload},{metric},{percentile},{error:.4f}")


def mean(values):
    return sum(values) / len(values)


def table(title, rows, cases):
    errors = {}  # case -> workload -> cell -> absolute error
    for _, case, workload, metric, percentile, error in rows:
        errors.setdefault(case, {}).setdefault(workload, {})[metric, percentile] = abs(float(error))
    base = errors.get("none")
    if not base:
        return
    whole = [e for of in base.values() for e in of.values()]
    print(f"\n{title}: {len(base)} workloads, {len(whole)} cells, mean absolute error {mean(whole):.2f} %\n")
    print("| without | workloads | their error with, % | without, % | difference, points | over all workloads | largest of one workload | most gained without |")
    print("|---|---|---|---|---|---|---|---|")
    for case in cases:
        if case == "none":
            continue
        without = errors.get(case)
        if not without:
            print(f"| `{case}` | 0 | | | | | | |")
            continue
        before = [e for w in without for e in base[w].values()]
        after = [e for of in without.values() for e in of.values()]
        by = {w: mean(list(of.values())) - mean(list(base[w].values())) for w, of in without.items()}
        most, least = max(by, key=by.get), min(by, key=by.get)
        overall = (sum(after) - sum(before)) / len(whole)
        print(f"| `{case}` | {len(without)} | {mean(before):.2f} | {mean(after):.2f} | {mean(after) - mean(before):+.2f} | {overall:+.2f} "
              f"| {by[most]:+.2f} ({most}) | {by[least]:+.2f} ({least}) |")


def tables(path):
    with open(path, encoding="utf-8", newline="") as f:
        rows = list(csv.reader(f))
    table("bundles", [row for row in rows if row[0] == "bundles"], corrections())
    vllm = [row for row in rows if row[0] == "vllm"]
    for model in dict.fromkeys(re.sub(r"_[a-z0-9]+(_r\d)?$", "", row[2]) for row in vllm):
        table(model, [row for row in vllm if row[2].startswith(model + "_")], parameters())


def corrections():
    return ["none", *CORRECTIONS, "all"]


def parameters():
    return ["none", *ZERO, *SAME_AS]


def main(what, *words):
    listed = {"corrections": corrections, "parameters": parameters}
    if what in listed:
        print("\n".join(listed[what]()))
    else:
        {"remove": remove, "neutral": neutral, "trace": trace, "cells": cells, "tables": tables}[what](*words)


if __name__ == "__main__":
    main(*sys.argv[1:])
