#!/usr/bin/env python3
"""Closed loops that were measured on GPUs, against simulations from operator times of the same source: silicon_sample.csv of
NVIDIA's AIConfigurator (PyPI aiconfigurator-core), its own tables, nothing fitted.

    python3 bench/accuracy/silicon.py SYSTEMS OUT [--jobs N] [--aisimulate SITE]
        [--budget rule|default] [--overheads server|none] [--rounds N]

SYSTEMS is aiconfigurator_core/systems of the package; needs pyarrow. Prints CSV, a line a row of dense models on H100 and H200:

    id,backend,version,gpu,model,dtype,tp,isl,osl,concurrency,ttft_ms,ttft_predicted_ms,ttft_error_percent,tpot_ms,...

and to stderr what was left out. OUT gets the bundles. A row states model, lengths, concurrency and parallelism. The rest is taken from
how the same project deploys and measures, not from the rows:

- requests: 10 x concurrency, after a warm-up that has ended, answers of exactly osl tokens, no prompt twice; TTFT is the mean of all
  (github.com/ai-dynamo/aiconfigurator, src/aiconfigurator/eval/benchmarks/genai_perf_runner.py; its bench_run.sh.j2 has 20: --rounds).
- tokens a batch: max_batch_size + isl + 1500 for vLLM, for TensorRT-LLM rounded up to blocks of 32 (package aiconfigurator,
  generator/rule_plugin/benchmark/*.rule); --budget default: what vLLM takes by itself.
- what requests pay over HTTP: the prior of calibrations (predictor.request_overheads=server); --overheads none leaves it out.
- since which version vLLM keeps two batches in flight.

--aisimulate names the folder where PyPI's aisimulate is installed: versioned
vLLM rows are predicted by it too, by the same number of requests (seconds a row). TWINFER names the program (build/twinfer).
"""

import argparse
import concurrent.futures
import csv
import json
import os
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..")
TWINFER = os.environ.get("TWINFER", os.path.join(ROOT, "build", "twinfer"))
MODELS = {
    "Qwen/Qwen3-32B": "qwen3_32b",
    "meta-llama/Llama-3.1-70B": "llama3_1_70b",
    "meta-llama/Llama-3.1-8B-Instruct": "llama3_1_8b",
    "nvidia/Llama-3.1-8B-Instruct-FP8": "llama3_1_8b",
}
# Of AIConfigurator's row, as AISimulate knows it: by name and number format.
AISIMULATE = {("Qwen/Qwen3-32B", ""): "Qwen/Qwen3-32B", ("Qwen/Qwen3-32B", "fp8"): "Qwen/Qwen3-32B-FP8-Static-PerTensor"}
GPUS = {"h100_sxm": "h100", "h200_sxm": "h200"}
DTYPES = {"": "bf16", "fp8": "fp8", "fp8_block": "fp8_block"}


def rows_of(systems):
    with open(os.path.join(systems, "silicon_sample.csv"), newline="", encoding="utf-8") as f:
        for r in csv.DictReader(f):
            if r["mode"] == "agg" and r["system"] in GPUS and r["model_path"] in MODELS and r["gemm_quant_mode"] in DTYPES:
                yield r


def key_of(r):
    return r["backend"], r["system"], MODELS[r["model_path"]], DTYPES[r["gemm_quant_mode"]], int(r["tp_size"])


def make_bundle(systems, out, key):
    """The folder of the bundle, or why there is none."""
    backend, system, model, dtype, tp = key
    root = os.path.join(out, "%s-%s-%s-%s-tp%d" % key)
    if not os.path.isdir(root):
        done = subprocess.run(
            [sys.executable, os.path.join(ROOT, "adapters", "aiconfigurator.py"), "--tables", os.path.join(systems, "data"),
             "--gpu", system, "--backend", backend, "--model", os.path.join(ROOT, "configs", "model", model + ".yaml"),
             "--hardware", GPUS[system], "--network", "%s_link" % GPUS[system], "--tp", str(tp), "--dtype", dtype, "--out", root],
            capture_output=True, text=True, check=False)
        if done.returncode:
            return None, done.stderr.strip().splitlines()[-1]
    return root, None


def before_async(r):
    """vLLM keeps two batches in flight since 0.14 (January 2026); rows without a version are of 2025."""
    version = [int(x) for x in r["backend_version"].split(".")[:2]] if r["backend_version"] else [0, 0]
    return version < [0, 14]


def token_budget(backend, r):
    """Tokens a batch, of the package's rules for benchmarks; None: it has none for that engine."""
    tokens = int(r["batch_size"]) + int(r["isl"]) + 1500
    return {"vllm": tokens, "trtllm": -(-tokens // 32) * 32}.get(backend)


def simulate(root, key, r, a):
    backend, system, model, dtype, tp = key
    n = int(r["batch_size"])
    shutil.rmtree(os.path.join(root, "runs", r["id"]), ignore_errors=True)
    words = [TWINFER, "simulate", "--json", "log.level=error", "profile.root=" + root, "model=" + model,
             "hardware=" + GPUS[system], "network_device=%s_link" % GPUS[system], "parallel.tp=%d" % tp, "scheduler=vllm_0_33",
             "scheduler.prefix_caching=false", "workload=synthetic", "workload.lengths.kind=fixed",
             "workload.lengths.prefill_tokens=" + r["isl"], "workload.lengths.decode_tokens=" + r["osl"],
             "scheduler.max_model_len=%d" % (int(r["isl"]) + int(r["osl"])),
             "workload.concurrency=%d" % n, "workload.num_requests=%d" % (a.rounds * n), "predictor.request_overheads=" + a.overheads,
             "output.tokens=none", "output.batches=none", "out=" + os.path.join(root, "runs", r["id"])]
    if dtype != "bf16":
        words.append("model.dtype=fp8")
    if backend == "vllm" and before_async(r):
        words.append("scheduler.async_scheduling=off")
    if a.budget == "rule" and token_budget(backend, r):
        words.append("scheduler.token_budget=%d" % token_budget(backend, r))
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=ROOT)
    if done.returncode:
        return None, " ".join(done.stderr.split())
    return json.loads(done.stdout), None


def aisimulate(site, out, rounds, r):
    """(TTFT, TPOT) in ms, or None."""
    model = AISIMULATE.get((r["model_path"], r["gemm_quant_mode"]))
    if not site or not model or r["backend"] != "vllm" or not r["backend_version"]:
        return None
    folder = os.path.join(out, "aisimulate", r["id"])
    n = int(r["batch_size"])
    os.makedirs(folder, exist_ok=True)
    config = {
        "traffic": {"source": {"type": "synthetic", "input_tokens": int(r["isl"]), "output_tokens": int(r["osl"])},
                    "load": {"type": "concurrency", "concurrency": n}, "stop": {"requests": rounds * n}},
        "engine": {"mode": "aggregated", "model": model, "hardware": r["system"], "backend": "vllm",
                   "workers": {"aggregated": {"parallelism": {"tensor": int(r["tp_size"])}}}}}
    with open(os.path.join(folder, "p.yaml"), "w", encoding="utf-8") as f:
        json.dump(config, f)  # which is YAML
    answer = os.path.join(folder, "out", "prediction.json")
    if not os.path.exists(answer):
        subprocess.run([sys.executable, "-m", "aisimulate", "predict", "--config", os.path.join(folder, "p.yaml"), "--output-dir",
                        os.path.join(folder, "out")], capture_output=True, check=False, env=dict(os.environ, PYTHONPATH=site))
    if not os.path.exists(answer):
        return None
    with open(answer, encoding="utf-8") as f:
        d = json.load(f)
    return d["mean_ttft_ms"], d["mean_tpot_ms"]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("systems")
    p.add_argument("out")
    p.add_argument("--jobs", type=int, default=2)
    p.add_argument("--aisimulate", metavar="SITE")
    p.add_argument("--budget", choices=["rule", "default"], default="rule")
    p.add_argument("--overheads", choices=["server", "none"], default="server")
    p.add_argument("--rounds", type=int, default=10)
    a = p.parse_args()
    os.makedirs(a.out, exist_ok=True)
    rows = list(rows_of(a.systems))
    bundles, left_out = {}, {}
    for key in sorted({key_of(r) for r in rows}):
        bundles[key], why = make_bundle(a.systems, a.out, key)
        if why:
            left_out[key] = why
    out = csv.writer(sys.stdout, lineterminator="\n")
    out.writerow("id backend version gpu model dtype tp isl osl concurrency ttft_ms ttft_predicted_ms ttft_error_percent tpot_ms "
                 "tpot_predicted_ms tpot_error_percent aisimulate_ttft_error_percent aisimulate_tpot_error_percent".split())
    rows = [r for r in rows if bundles[key_of(r)]]
    with concurrent.futures.ThreadPoolExecutor(a.jobs) as pool:
        done = list(pool.map(lambda r: simulate(bundles[key_of(r)], key_of(r), r, a), rows))
        theirs = list(pool.map(lambda r: aisimulate(a.aisimulate, a.out, a.rounds, r), rows))
    for r, (result, why), other in zip(rows, done, theirs):
        if why:
            left_out[r["id"]] = why
            continue
        key, cells = key_of(r), []
        for name in ("ttft", "tpot"):
            seen, said = float(r["silicon_%s_ms" % name]), result[name + "_mean_ms"]
            cells += ["%.3f" % seen, "%.3f" % said, "%.2f" % (100 * (said / seen - 1))]
        for name, said in zip(("ttft", "tpot"), other or (None, None)):
            cells.append("" if said is None else "%.2f" % (100 * (said / float(r["silicon_%s_ms" % name]) - 1)))
        out.writerow([r["id"], key[0], r["backend_version"], r["system"], key[2], key[3], key[4], r["isl"], r["osl"],
                      r["batch_size"]] + cells)
    for what, why in left_out.items():
        print("left out: %s: %s" % (what, why), file=sys.stderr)


if __name__ == "__main__":
    main()
