#!/usr/bin/env python3
"""Simulates the cases of a folder and compares every batch to what vLLM's scheduler decided.

    compare.py TWINFER FOLDER [--bundle DIR] [CASE ...]

A case is a folder as record.py writes it. Its args become these settings:

    (all)                scheduler=vllm_0_33 scheduler.max_model_len=65536
    --budget N           scheduler.token_budget=N (2048)
    --max-num-seqs N     scheduler.batch_cap=N (128)
    --blocks N           scheduler.num_blocks=N, vLLM's num_gpu_blocks less its null block
    --watermark X        scheduler.watermark=X
    --long-prefill N     scheduler.long_prefill_token_threshold=N
    --prefix 0|1         scheduler.prefix_caching
    --async 0|1          scheduler.async_scheduling=off|serial: in the recordings host time is not
                         overlapped
    --pp N               parallel.pp=N
    --max-model-len N    scheduler.max_model_len (65536)

A case with a config.json is of a model whose layers keep different things. vllm_replay serves it
(--replay), with the batch times of the recording, and its KV groups are compared to vLLM's too:

    --hybrid 0|1         vLLM's --disable-hybrid-kv-cache-manager (1)
    --chunked 0|1        VLLM_ALLOW_CHUNKED_LOCAL_ATTN_WITH_HYBRID_KV_CACHE (0)

FOLDER may be `shared`: vllm_sched of the test data beside the repository (TWINFER_TEST_DATA, or
../shared/data).

Equal means: as many batches, and each with the same prompt tokens, decoding sequences, sequences and
KV blocks in use, and with the same start and end within 1 us. Exit code: 0 all equal, 1 not, 77 no
case there."""

import argparse
import csv
import gzip
import io
import os
import shutil
import subprocess
import sys
import tempfile

NEAR_S = 1e-6


def arguments():
    p = argparse.ArgumentParser()
    p.add_argument("twinfer")
    p.add_argument("folder")
    p.add_argument("cases", nargs="*")
    p.add_argument("--bundle")
    p.add_argument("--replay")
    return p.parse_args()


def case_options(text):
    p = argparse.ArgumentParser()
    p.add_argument("--budget", default="2048")
    p.add_argument("--max-num-seqs", default="128")
    p.add_argument("--blocks", required=True)
    p.add_argument("--watermark", default="0")
    p.add_argument("--long-prefill", default="0")
    p.add_argument("--prefix", default="0")
    p.add_argument("--async", default="0", dest="async_")
    p.add_argument("--pp", default="1")
    p.add_argument("--ids")
    p.add_argument("--max-model-len", default="65536")
    p.add_argument("--hybrid", default="1")
    p.add_argument("--chunked", default="0")
    return p.parse_args(text.split())


def settings(o):
    s = [
        "scheduler=vllm_0_33",
        "scheduler.max_model_len=65536",
        "scheduler.token_budget=" + o.budget,
        "scheduler.batch_cap=" + o.max_num_seqs,
        "scheduler.num_blocks=" + o.blocks,
        "scheduler.prefix_caching=" + ("true" if o.prefix == "1" else "false"),
        "scheduler.async_scheduling=" + ("serial" if o.async_ == "1" else "off"),
        "parallel.pp=" + o.pp,
    ]
    if float(o.watermark):
        s.append("scheduler.watermark=" + o.watermark)
    if o.long_prefill != "0":
        s.append("scheduler.long_prefill_token_threshold=" + o.long_prefill)
    return s


def output(command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit("%s\n%s" % (" ".join(command), done.stderr))
    return done.stdout


def run(command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        sys.exit("%s\n%s" % (" ".join(command), done.stdout))


def workload(twinfer, case, tmp):
    if not os.path.exists(os.path.join(case, "ids.jsonl")):
        return "workload.trace=" + os.path.join(case, "trace.csv")
    out = os.path.join(tmp, "workload")
    run([twinfer, "workload", "import=mooncake", "path=" + os.path.join(case, "ids.jsonl"), "out=" + out])
    return "workload.dir=" + out


def simulated(twinfer, bundle, case, o, tmp):
    out = os.path.join(tmp, "run")
    run(
        [
            twinfer, "simulate", "model=llama3_8b", "hardware=h200", "network_device=h200_dgx",
            "profile.root=" + bundle, workload(twinfer, case, tmp), "output.tokens=none",
            *settings(o), "out=" + out,
        ]
    )
    with open(os.path.join(out, "batches.csv"), newline="") as f:
        return read_batches(f)


def replayed(replay, twinfer, case, o, tmp):
    """By vllm_replay; None where its groups are not vLLM's."""
    config = os.path.join(case, "config.json")
    keys = ("budget", "max_num_seqs", "blocks", "watermark", "long_prefill", "prefix", "pp", "max_model_len",
            "hybrid", "chunked")
    words = ["%s=%s" % (k, getattr(o, k)) for k in keys] + ["async=" + o.async_]
    with open(os.path.join(case, "groups")) as f:
        theirs = f.read()
    ours = output([replay, config, "--groups", *words])
    if ours != theirs:
        print("    vllm's groups:\n%s    twinfer's:\n%s" % (theirs, ours))
        return None
    path = workload(twinfer, case, tmp).split("=", 1)[1]
    return read_batches(io.StringIO(output([replay, config, path, *words])))


def read_batches(f):
    batches = {}
    for r in csv.DictReader(f):
        start, end = int(r["start_ns"]) / 1e9, (int(r["start_ns"]) + int(r["duration_ns"])) / 1e9
        key = int(r["iteration"])
        if key in batches:
            batches[key]["end"] = end
            continue
        batches[key] = {
            "start": start,
            "end": end,
            "pf": int(r["num_prefill_tokens"]),
            "nd": int(r["num_decode_tokens"]),
            "bs": int(r["batch_size"]),
            "kv": int(r["kv_blocks"]),
        }
    return [batches[k] for k in sorted(batches)]


def recorded(case):
    with gzip.open(os.path.join(case, "batches.csv.gz"), "rt", newline="") as f:
        return [
            {k: float(r[k]) if k in ("start", "end") else int(r[k]) for k in ("start", "end", "pf", "nd", "bs", "kv")}
            for r in csv.DictReader(f)
        ]


def first_difference(a, b):
    for i, (x, y) in enumerate(zip(a, b)):
        for k in ("pf", "nd", "bs", "kv"):
            if x[k] != y[k]:
                return i, k
        for k in ("start", "end"):
            if abs(x[k] - y[k]) > NEAR_S:
                return i, k
    return (min(len(a), len(b)), "number") if len(a) != len(b) else None


def shared():
    source = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    data = os.environ.get("TWINFER_TEST_DATA") or os.path.join(source, "..", "shared", "data")
    return os.path.join(data, "vllm_sched")


def main():
    a = arguments()
    if a.folder == "shared":
        a.folder = shared()
    names = a.cases or (sorted(os.listdir(a.folder)) if os.path.isdir(a.folder) else [])
    names = [n for n in names if os.path.exists(os.path.join(a.folder, n, "batches.csv.gz"))]
    if not names:
        print("skipped: no cases in %s" % a.folder)
        return 77
    differ = 0
    for name in names:
        case = os.path.join(a.folder, name)
        with open(os.path.join(case, "args")) as f:
            o = case_options(f.read())
        tmp = tempfile.mkdtemp()
        if os.path.exists(os.path.join(case, "config.json")):
            if not a.replay:
                sys.exit("%s: needs --replay" % name)
            ours = replayed(a.replay, a.twinfer, case, o, tmp) or []
        else:
            ours = simulated(a.twinfer, a.bundle or os.path.join(a.folder, "bundle"), case, o, tmp)
        shutil.rmtree(tmp)
        theirs = recorded(case)
        d = first_difference(theirs, ours)
        if d is None:
            print("%-24s equal: %d batches" % (name, len(theirs)))
            continue
        differ += 1
        i, what = d
        print("%-24s %s differs at batch %d of %d" % (name, what, i, len(theirs)))
        for k in range(max(0, i - 1), i + 2):
            print("    vllm   ", theirs[k] if k < len(theirs) else "none")
            print("    twinfer", ours[k] if k < len(ours) else "none")
    print("%d of %d equal" % (len(names) - differ, len(names)))
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
