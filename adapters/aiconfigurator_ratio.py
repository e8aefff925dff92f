#!/usr/bin/env python3
"""Operator times of a bundle against NVIDIA's own tables: ratio ours / theirs.

    python3 adapters/aiconfigurator_ratio.py --bundle data/h200 --hardware h200 --model configs/model/llama2_7b.yaml \
        --gpu h200_sxm --backend vllm [--tables SITE/aiconfigurator_core/systems/data]

Reads the package aiconfigurator-core where it is installed (or --tables), through adapters/aiconfigurator.py, and prints a
Markdown table: matrix products over tokens, attention of one prompt, attention of decode batches over cached tokens. Between
measured places both sides are interpolated, in the logarithm of the size. Theirs are of one kernel alone, warm; ours of the
kernels in a whole pass, with what is fused into them.
"""

import argparse
import csv
import importlib.util
import math
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
PRODUCTS = ("attn_pre_proj", "attn_post_proj", "mlp_up_proj", "mlp_down_proj", "lm_head")
TOKENS = (1, 8, 32, 128, 512, 2048, 4096)
PROMPTS = (128, 512, 1024, 2048, 4096)
DECODES = ((1, 1024), (8, 1024), (16, 1024), (64, 1024), (128, 1024), (1, 4000), (16, 4000), (64, 4000))


def refuse(text):
    sys.exit("aiconfigurator_ratio: " + text)


def rows_of(path):
    with open(path, newline="", encoding="utf-8") as f:
        return list(csv.DictReader(f))


def interpolated(points, x):
    """Of {x: y}, linear in the logarithms; None outside."""
    known = sorted(points)
    if not known or x < known[0] or x > known[-1]:
        return None
    if x in points:
        return points[x]
    high = next(i for i, v in enumerate(known) if v > x)
    a, b = known[high - 1], known[high]
    if points[a] <= 0 or points[b] <= 0:
        return None
    part = math.log(x / a) / math.log(b / a)
    return math.exp((1 - part) * math.log(points[a]) + part * math.log(points[b]))


class Bundle:
    def __init__(self, root, hardware, model):
        folder = os.path.join(root, "data/profiling/compute", hardware, model)
        if not os.path.isdir(folder):
            refuse("no bundle " + folder)
        self.mlp = [r for r in rows_of(os.path.join(folder, "mlp.csv")) if r["num_tensor_parallel_workers"] == "1"]
        self.attention = [r for r in rows_of(os.path.join(folder, "attention.csv")) if r["num_tensor_parallel_workers"] == "1"]

    def tokens(self, op, x):
        # Batches of few tokens are decodes on a GPU: their own columns where there are any.
        points = {}
        for row in self.mlp:
            for column in ("time_stats.%s.median" % op, "decode_stats.%s.median" % op):
                if row.get(column):
                    points[int(row["num_tokens"])] = float(row[column])
        return interpolated(points, x)

    def prefill(self, chunk):
        points = {int(r["prefill_chunk_size"]): float(r["time_stats.attn_prefill.median"]) for r in self.attention
                  if int(r["prefill_chunk_size"]) > 0 and int(r["kv_cache_size"]) == 0 and r["time_stats.attn_prefill.median"]}
        return interpolated(points, chunk)

    def decode(self, batch, kv):
        by_batch = {}
        for r in self.attention:
            if int(r["prefill_chunk_size"]) == 0 and r["time_stats.attn_decode.median"]:
                by_batch.setdefault(int(r["batch_size"]), {})[int(r["kv_cache_size"])] = float(r["time_stats.attn_decode.median"])
        at = {b: interpolated(points, kv) for b, points in by_batch.items()}
        return interpolated({b: v for b, v in at.items() if v}, batch)


def tables_of(given):
    if given:
        return given
    spec = importlib.util.find_spec("aiconfigurator_core")
    if not spec or not spec.submodule_search_locations:
        refuse("aiconfigurator-core is not installed; --tables names its systems/data (docs/aiconfigurator.md)")
    return os.path.join(list(spec.submodule_search_locations)[0], "systems", "data")


def ratio(ours, theirs):
    return "" if not ours or not theirs else "%.2f (%.1f us)" % (ours / theirs, ours * 1e3)


def line(name, cells):
    print("| " + " | ".join([name] + cells) + " |")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--bundle", required=True, help="profile.root of the bundle")
    p.add_argument("--hardware", required=True)
    p.add_argument("--model", required=True, help="a group of twinfer's or a folder's config.json")
    p.add_argument("--name", help="model's folder in the bundle; default: the file's name")
    p.add_argument("--gpu", default="h200_sxm")
    p.add_argument("--backend", default="vllm")
    p.add_argument("--tables")
    a = p.parse_args()
    name = a.name or os.path.splitext(os.path.basename(a.model))[0]
    ours = Bundle(a.bundle, a.hardware, name)
    with tempfile.TemporaryDirectory() as root:
        made = subprocess.run([sys.executable, os.path.join(HERE, "aiconfigurator.py"), "--tables", tables_of(a.tables), "--gpu",
                               a.gpu, "--backend", a.backend, "--model", a.model, "--hardware", "theirs", "--tp", "1", "--out",
                               root], stdout=subprocess.DEVNULL, check=False)
        if made.returncode:
            sys.exit(made.returncode)
        compute = os.path.join(root, "data/profiling/compute/theirs")
        theirs = Bundle(root, "theirs", os.listdir(compute)[0])
    line(name + ", tokens", [str(t) for t in TOKENS])
    line("---", ["---"] * len(TOKENS))
    for op in PRODUCTS:
        line(op, [ratio(ours.tokens(op, t), theirs.tokens(op, t)) for t in TOKENS])
    print()
    line(name + ", prompt", ["%d" % t for t in PROMPTS])
    line("---", ["---"] * len(PROMPTS))
    line("attn_prefill", [ratio(ours.prefill(t), theirs.prefill(t)) for t in PROMPTS])
    print()
    line(name + ", sequences x cached", ["%d x %d" % d for d in DECODES])
    line("---", ["---"] * len(DECODES))
    line("attn_decode", [ratio(ours.decode(*d), theirs.decode(*d)) for d in DECODES])


if __name__ == "__main__":
    main()
