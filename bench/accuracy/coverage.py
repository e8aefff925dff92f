#!/usr/bin/env python3
"""Do the intervals of `twinfer calibrate` hold the truth? Servers with known parameters, drawn from the prior, are simulated,
their latencies written as `vllm bench serve` would, and calibrated: how often is the truth inside the 95 % intervals?

    python3 bench/accuracy/coverage.py [--seeds 20] [--requests 400] [--work DIR]

Of each server: calibrated on two rates of one workload, two others predicted: a third rate, and other lengths. The parameters are
Llama-3-8B's on an H100, with the deviations that the prior has (docs/methodology.md); request overheads are drawn too. Prints CSV
`what,inside,of`, then a line of how far the predicted P50s were off. No noise but arrivals, lengths and the schedule. A minute on two
idle cores. TWINFER names the program (build/twinfer).
"""

import argparse
import collections
import csv
import json
import math
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
TWINFER = os.environ.get("TWINFER", os.path.join(ROOT, "build", "twinfer"))
SERVER = ["model=llama3_8b", "hardware=h100", "log.level=error"]
# Value and standard deviation of the logarithm: src/profile/read/iteration_params.c, src/calibrate/theta.c.
PARAMETERS = {"weights_efficiency": (0.85, 0.15), "kv_efficiency": (0.88, 0.3), "activation_efficiency": (0.70, 0.5),
              "compute_efficiency": (0.77, 0.2), "attention_efficiency": (0.50, 0.4), "layer_s": (36e-6, 0.7),
              "row_layer_s": (0.1e-6, 0.7), "iteration_s": (1.5e-3, 0.7), "sequence_s": (15e-6, 1), "chunk_s": (100e-6, 1),
              "piece_layer_s": (0.22e-3, 0.4), "kernel_layer_s": (0.73e-3, 0.4), "launch_spread": (0.4, 0.5), "cold_launch": (0.19, 0.7),
              "answer_s": (2e-3, 0.5)}
OVERHEADS = {"first_token_s": (4.75e-3, 0.6), "prompt_token_s": (2e-6, 0.8), "completion_s": (1e-3, 0.8)}
FITTED = (("low_rate", 3, 512, 128), ("high_rate", 9, 512, 128))
PREDICTED = (("other_rate", 6, 512, 128), ("other_lengths", 5, 1024, 200))


def run(words, codes=(0,)):
    done = subprocess.run([TWINFER] + words, capture_output=True, text=True, check=False, cwd=ROOT)
    if done.returncode not in codes:
        sys.exit("coverage.py: twinfer %s: %s" % (words[0], done.stderr.strip()))
    return done


def draw(rng, table):
    return {k: min(1.15, v * math.exp(rng.gauss(0, sd))) if k.endswith("efficiency") else v * math.exp(rng.gauss(0, sd))
            for k, (v, sd) in table.items()}


def record(work, name, rate, prompt, answer, truth, overheads, seed, requests):
    """Simulates; the latencies that a client sees as a result of vllm bench serve --save-detailed."""
    out = os.path.join(work, name)
    run(["simulate"] + SERVER + ["predictor=roofline", "scheduler=vllm_0_33", "scheduler.prefix_caching=false", "workload=synthetic",
         "workload.arrival.rate=%g" % rate, "workload.num_requests=%d" % requests, "workload.lengths.kind=normal",
         "workload.lengths.prefill_tokens=%d" % prompt, "workload.lengths.prefill_stddev=%d" % (prompt // 4),
         "workload.lengths.decode_tokens=%d" % answer, "workload.lengths.decode_stddev=%d" % (answer // 4), "seed=%d" % seed,
         "output.batches=none", "output.tokens=none", "out=" + out] + ["+predictor.parameters.%s=%.9g" % x for x in truth.items()])
    d = collections.defaultdict(list)
    with open(os.path.join(out, "request_metrics.csv"), newline="", encoding="utf-8") as f:
        for r in csv.DictReader(f):
            if r["status"] != "ok" or int(r["num_decode_tokens"]) < 2:
                continue
            ttft = int(r["ttft_ns"]) / 1e9 + overheads["first_token_s"] + overheads["prompt_token_s"] * int(r["num_prefill_tokens"])
            d["ttfts"].append(ttft)
            d["itls"].append([(int(r["completion_time_ns"]) - int(r["first_token_time_ns"])) / 1e9 + overheads["completion_s"]])
            d["start_times"].append(int(r["arrival_time_ns"]) / 1e9)
            d["input_lens"].append(int(r["num_prefill_tokens"]))
            d["output_lens"].append(int(r["num_decode_tokens"]))
    path = os.path.join(work, name + ".json")
    with open(path, "w", encoding="utf-8") as f:
        json.dump(dict(d, mean_ttft_ms=1e3 * statistics.mean(d["ttfts"]), request_rate=rate), f)
    shutil.rmtree(out)
    return path


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--seeds", type=int, default=20)
    p.add_argument("--requests", type=int, default=400)
    p.add_argument("--work")
    a = p.parse_args()
    work = a.work or tempfile.mkdtemp()
    inside, of, off = collections.Counter(), collections.Counter(), collections.defaultdict(list)
    for seed in range(1, a.seeds + 1):
        rng, here = random.Random(seed), os.path.join(work, str(seed))
        shutil.rmtree(here, ignore_errors=True)
        os.makedirs(here)
        truth, overheads = draw(rng, PARAMETERS), draw(rng, OVERHEADS)
        files = [record(here, *x, truth, overheads, 10 * seed + i, a.requests) for i, x in enumerate(FITTED + PREDICTED)]
        run(["calibrate"] + SERVER + ["from=[%s]" % ",".join(files[:2]), "check=[%s]" % ",".join(files[2:]), "scheduler=vllm_0_33",
             "scheduler.prefix_caching=false", "out=" + os.path.join(here, "root")], (0, 5))
        meta = os.path.join(here, "root", "data", "profiling", "compute", "h100", "llama3_8b", "bundle_meta.json")
        with open(meta, encoding="utf-8") as f:
            fitted = json.load(f)["calibration"]["parameters"]
        for name, value in list(truth.items()) + list(overheads.items()):
            of[name] += 1
            inside[name] += fitted[name]["low"] <= value <= fitted[name]["high"]
        with open(os.path.join(here, "root", "check.csv"), newline="", encoding="utf-8") as f:
            for r in csv.DictReader(f):
                if r["metric"] in ("e2e_p50", "e2e_p90", "ttft_p50", "ttft_p90"):
                    what = "%s of %s" % (r["metric"], r["experiment"])
                    of[what] += 1
                    inside[what] += float(r["low"]) <= float(r["observed"]) <= float(r["high"])
                    off[r["metric"]].append(abs(float(r["error_percent"])))
    print("what,inside,of")
    for what in of:
        print("%s,%d,%d" % (what, inside[what], of[what]))
    print("median errors in %%: %s" % ", ".join("%s %.2f" % (m, statistics.median(v)) for m, v in off.items()))
    if not a.work:
        shutil.rmtree(work)


if __name__ == "__main__":
    main()
