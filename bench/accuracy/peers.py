#!/usr/bin/env python3
"""AISimulate's prediction of recorded runs: the same arrivals, prompts and answers, at a server of that model on that GPU.

    python3 bench/accuracy/peers.py MODEL SYSTEM OUT RUN... >peers.csv

MODEL and SYSTEM as AISimulate has them (Qwen/Qwen3-32B, h100_sxm). A RUN is a run directory; its requests become a Mooncake trace
whose hashes are all different, since nothing is in the cache. OUT gets configuration and answer of each. Columns: run, metric
(means, medians and P90 of TTFT and TPOT), observed and predicted in ms, error in %; a run that it does not predict has its reason instead.
Needs PyPI's aisimulate in the Python that runs it.
"""
import csv
import json
import os
import shutil
import subprocess
import sys

BLOCK = 512  # tokens a hash stands for, Mooncake's


def requests_of(run):
    with open(os.path.join(run, "request_metrics.csv"), encoding="utf-8", newline="") as f:
        return [r for r in csv.DictReader(f) if r["status"] == "ok" and r["warmup"] != "1"]


def quantile(sorted_values, q):
    at = q * (len(sorted_values) - 1)
    low = int(at)
    high = min(low + 1, len(sorted_values) - 1)
    return sorted_values[low] + (at - low) * (sorted_values[high] - sorted_values[low])


def figures_of(rows):
    """TTFT from the planned arrival, and TPOT of the answers of two tokens and more, in ms, under AISimulate's names."""
    times = {"ttft": [int(r["ttft_ns"]) / 1e6 for r in rows],
             "tpot": [(int(r["completion_time_ns"]) - int(r["first_token_time_ns"])) / 1e6 / (int(r["num_decode_tokens_actual"]) - 1)
                      for r in rows if int(r["num_decode_tokens_actual"]) > 1]}
    out = {}
    for name, values in times.items():
        if values:
            values.sort()
            out["mean_%s_ms" % name] = sum(values) / len(values)
            out["median_%s_ms" % name] = quantile(values, 0.5)
            out["p90_%s_ms" % name] = quantile(values, 0.9)
    return out


def write_trace(path, rows):
    begin = min(int(r["arrival_time_ns"]) for r in rows)
    number = 0
    with open(path, "w", encoding="utf-8") as f:
        for r in sorted(rows, key=lambda r: int(r["arrival_time_ns"])):
            blocks = -(-int(r["num_prefill_tokens"]) // BLOCK)
            json.dump({"timestamp": (int(r["arrival_time_ns"]) - begin) / 1e6, "input_length": int(r["num_prefill_tokens"]),
                       "output_length": int(r["num_decode_tokens_actual"]), "hash_ids": list(range(number, number + blocks))}, f)
            f.write("\n")
            number += blocks


def predict(model, system, folder, rows):
    """The answer, or (None, why there is none)."""
    shutil.rmtree(folder, ignore_errors=True)  # it takes no folder with an answer, nor one with none
    os.makedirs(folder)
    trace, config, out = (os.path.join(folder, name) for name in ("trace.jsonl", "p.yaml", "out"))
    write_trace(trace, rows)
    with open(config, "w", encoding="utf-8") as f:
        json.dump({  # which is YAML
            "traffic": {"source": {"type": "trace", "paths": [trace], "format": "mooncake", "block_size": BLOCK},
                        "load": {"type": "trace_timestamps"}},
            "engine": {"mode": "aggregated", "model": model, "hardware": system, "backend": "vllm",
                       "workers": {"aggregated": {"parallelism": {"tensor": 1}}}}}, f)
    done = subprocess.run([sys.executable, "-m", "aisimulate", "predict", "--config", config, "--output-dir", out],
                          capture_output=True, text=True, check=False)
    answer = os.path.join(out, "prediction.json")
    if not os.path.exists(answer):
        lines = [line for line in (done.stderr + done.stdout).splitlines() if line.strip()]
        lines = [line for line in lines if "failed" in line] or lines
        return None, (lines[-1] if lines else "exit code %d" % done.returncode)[:200]
    with open(answer, encoding="utf-8") as f:
        found = json.load(f)
    if found.get("completed_requests") != len(rows):
        return None, "%s of %d requests completed" % (found.get("completed_requests"), len(rows))
    return found, None


def main():
    if len(sys.argv) < 5:
        sys.exit(__doc__)
    model, system, out = sys.argv[1:4]
    write = csv.writer(sys.stdout, lineterminator="\n")
    write.writerow(("run", "metric", "observed_ms", "aisimulate_ms", "error_percent"))
    for run in sys.argv[4:]:
        name, rows = os.path.basename(os.path.normpath(run)), requests_of(run)
        if not rows:
            write.writerow((name, "no request ended well", "", "", ""))
            continue
        answer, why = predict(model, system, os.path.join(os.path.abspath(out), name), rows)
        if answer is None:
            write.writerow((name, "not predicted: " + why, "", "", ""))
            continue
        for metric, observed in figures_of(rows).items():
            if answer.get(metric) is not None:
                write.writerow((name, metric, "%.3f" % observed, "%.3f" % answer[metric], "%+.1f" % (100 * (answer[metric] / observed - 1))))


if __name__ == "__main__":
    main()
