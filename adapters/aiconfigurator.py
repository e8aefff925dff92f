#!/usr/bin/env python3
"""A profiling bundle from the tables of NVIDIA's AIConfigurator (PyPI: aiconfigurator-core).

    python3 adapters/aiconfigurator.py --tables SITE/aiconfigurator_core/systems/data --gpu h100_sxm --backend vllm \
        --model configs/model/llama3_8b.yaml --hardware h100 --tp 1,2,4 --out ROOT
    twinfer simulate profile.root=ROOT model=llama3_8b hardware=h100

--model is a group of twinfer's or a folder's config.json. The tables are Parquet, which needs pyarrow, or CSV of the same
columns and names. Measured there, and taken over: GEMMs, attention over prompts and while decoding, experts, collectives.
Everything else is a formula, and says so in bundle_meta.json; docs/aiconfigurator.md has them.
"""

import argparse
import csv
import glob
import json
import math
import os
import re
import sys

VERSION = 1
# A kernel over activations: a constant and the part of the memory bandwidth that it reaches (docs/methodology.md).
KERNEL_S, ACTIVATION_EFFICIENCY = 2.5e-6, 0.7
# Of the roofline that GEMMs are interpolated against; what they are cancels where the grid is dense.
WEIGHTS_EFFICIENCY, COMPUTE_EFFICIENCY = 0.85, 0.77
SEND_S, LINK_EFFICIENCY = 10e-6, 0.6
CONTEXTS = (512, 2048, 8192)  # cached tokens of the prefill rows that are derived

# Peaks that the interpolation needs: memory in bytes/s, 16-bit arithmetic in FLOP/s, one direction of the link in bytes/s.
PEAKS = {
    "a100_pcie": (1935e9, 312e12, 300e9), "a100_sxm": (2039e9, 312e12, 300e9), "a30": (933e9, 165e12, 100e9),
    "b200_sxm": (7700e9, 2250e12, 900e9), "b300_sxm": (8000e9, 2250e12, 900e9), "gb200": (8000e9, 2450e12, 900e9),
    "gb300": (8000e9, 2450e12, 900e9), "h100_pcie": (2039e9, 756e12, 300e9), "h100_sxm": (3350e9, 989e12, 450e9),
    "h200_sxm": (4800e9, 989e12, 450e9), "l4": (300e9, 121e12, 32e9), "l40s": (864e9, 362e12, 32e9),
    "rtx_pro_6000_server": (1597e9, 504e12, 64e9),
}
# --dtype: names in the tables in order of preference, bytes of a weight, speed against 16 bits.
GEMM_DTYPES = {"bf16": (("bfloat16", "float16"), 2, 1), "fp8": (("fp8", "fp8_static"), 1, 2),
               "fp8_block": (("fp8_block",), 1, 2), "fp4": (("nvfp4",), 0.5625, 4)}
KV_DTYPES = {"bf16": ("bfloat16", "float16"), "fp8": ("fp8",)}


def refuse(text):
    sys.exit("aiconfigurator: " + text)


# ---- tables ----------------------------------------------------------------------------------


def number(text):
    try:
        return int(text)
    except ValueError:
        try:
            return float(text)
        except ValueError:
            return text


def read_csv(path):
    with open(path, newline="", encoding="utf-8") as f:
        return [{k: number(v) for k, v in row.items()} for row in csv.DictReader(f)]


def read_parquet(path, where):
    try:
        import pyarrow.parquet as pq
    except ImportError:
        refuse(path + " is Parquet: install pyarrow (pip install pyarrow), or give the tables as CSV")
    names = pq.read_schema(path).names
    filters = [(k, "in", list(v)) for k, v in where.items() if k in names]
    return pq.read_table(path, filters=filters or None).to_pylist()


def version_key(name):
    """1.3.0rc23 after 1.3.0rc5, and before 1.3.0."""
    return [(1, int(x)) if x.isdigit() else (0, x) for x in re.findall(r"\d+|[a-z]+", name)] + [(1, 0)]


class Tables:
    """The rows of the newest version of each table that has any, or of the one asked for."""

    def __init__(self, root, gpu, backend, version):
        self.root, self.gpu, self.backend, self.version = root, gpu, backend, version
        self.used = {}

    def find(self, family, backend, name):
        top = os.path.join(self.root, self.gpu, family, backend)
        found = [p for p in glob.glob(os.path.join(top, "*", name + ".*")) if p.endswith((".parquet", ".csv"))]
        if self.version and backend == self.backend:
            exact = [p for p in found if os.path.basename(os.path.dirname(p)) == self.version]
            found = exact or found
        return sorted(found, key=lambda p: (version_key(os.path.basename(os.path.dirname(p))), p), reverse=True)

    def rows(self, family, name, where, backend=None, required=True):
        paths = self.find(family, backend or self.backend, name)
        if not paths and required:
            refuse("no table %s of %s for %s in %s" % (name, backend or self.backend, self.gpu, self.root))
        for path in paths:
            rows = read_csv(path) if path.endswith(".csv") else read_parquet(path, where)
            rows = [r for r in rows if all(k not in r or r[k] in v for k, v in where.items())]
            if rows:
                self.used[name] = os.path.relpath(path, self.root)
                return rows
        if required:
            refuse("%s has no rows of %s" % (paths[0], ", ".join("%s %s" % (k, "/".join(map(str, v))) for k, v in where.items())))
        return []


# ---- the model -------------------------------------------------------------------------------


def read_group(path):
    """The flat keys of a group file of twinfer's: those below config, and name and hub."""
    out, top = {}, {}
    with open(path, encoding="utf-8") as f:
        for line in f:
            m = re.match(r"^(\s*)([a-z_0-9]+):\s*(\S.*)?$", line.split(" #")[0].rstrip())
            if m and m.group(3) is not None:
                value = number(m.group(3).strip("'\""))
                value = {"true": True, "false": False, "null": None}.get(value, value)
                (out if m.group(1) else top)[m.group(2)] = value
    return out, top.get("name")


class Model:
    def __init__(self, path, name):
        if os.path.isdir(path):
            path = os.path.join(path, "config.json")
        if not os.path.exists(path):
            refuse("there is no " + path)
        if path.endswith(".json"):
            with open(path, encoding="utf-8") as f:
                c, own = json.load(f), os.path.basename(os.path.dirname(os.path.abspath(path)))
        else:
            c, own = read_group(path)
        kind = c.get("model_type")
        if kind not in ("llama", "qwen2", "qwen3", "mixtral", "qwen3_moe"):
            refuse("models of type %s are not imported; llama, qwen2, qwen3, mixtral and qwen3_moe are" % kind)
        self.name = name or own
        self.layers, self.hidden, self.vocab = c["num_hidden_layers"], c["hidden_size"], c["vocab_size"]
        self.heads = c["num_attention_heads"]
        self.kv_heads = c.get("num_key_value_heads") or self.heads
        self.head_dim = c.get("head_dim") or (128 if kind.startswith("qwen3") else self.hidden // self.heads)
        self.experts = c.get("num_local_experts") or c.get("num_experts") or 0
        self.topk = c.get("num_experts_per_tok") or 0 if self.experts else 0
        self.inter = c["moe_intermediate_size"] if kind == "qwen3_moe" else c["intermediate_size"]
        self.qk_norm = kind.startswith("qwen3")


# ---- interpolation ---------------------------------------------------------------------------


def bracket(grid, v):
    """Neighbours of v and the weight of the upper one, in logarithms; the edge beyond the grid."""
    if v <= grid[0]:
        return grid[0], grid[0], 0.0
    if v >= grid[-1]:
        return grid[-1], grid[-1], 0.0
    for a, b in zip(grid, grid[1:]):
        if a <= v <= b:
            return a, b, math.log(v / a) / math.log(b / a)
    raise AssertionError


class Gemm:
    """Seconds of [m, k] x [k, n]: measured / roofline, interpolated over log n and log k at each m of the table."""

    def __init__(self, rows, peaks, weight_bytes, speed):
        self.bandwidth, self.flops = peaks[0], peaks[1] * speed
        self.weight_bytes, self.at = weight_bytes, {}
        for r in rows:
            self.at.setdefault(r["m"], {})[(r["n"], r["k"])] = r["latency"] / 1e3
        self.ms = sorted(self.at)
        self.ns = {m: sorted({n for n, _ in t}) for m, t in self.at.items()}
        self.ks = {m: sorted({k for _, k in t}) for m, t in self.at.items()}

    def roofline(self, m, n, k):
        a = n * k * self.weight_bytes / self.bandwidth / WEIGHTS_EFFICIENCY
        b = 2.0 * m * n * k / self.flops / COMPUTE_EFFICIENCY
        return (a ** 4 + b ** 4) ** 0.25

    def seconds(self, m, n, k):
        t = self.at[m]
        if (n, k) in t:
            return t[(n, k)]
        n0, n1, wn = bracket(self.ns[m], n)
        k0, k1, wk = bracket(self.ks[m], k)
        total = weight = 0.0
        for nn, a in ((n0, 1 - wn), (n1, wn)):
            for kk, b in ((k0, 1 - wk), (k1, wk)):
                if (nn, kk) in t and a * b > 0:
                    total += a * b * math.log(t[(nn, kk)] / self.roofline(m, nn, kk))
                    weight += a * b
        if weight == 0:  # a hole of the grid: the nearest shape
            nn, kk = min(t, key=lambda x: abs(math.log(x[0] / n)) + abs(math.log(x[1] / k)))
            total, weight = math.log(t[(nn, kk)] / self.roofline(m, nn, kk)), 1.0
        return self.roofline(m, n, k) * math.exp(total / weight)


class Curve:
    """Linear between points; proportional beyond the last."""

    def __init__(self, points):
        self.p = sorted(points)

    def at(self, x):
        p = self.p
        if x <= p[0][0]:
            return p[0][1]
        if x >= p[-1][0]:
            return p[-1][1] * x / p[-1][0]
        for (a, ya), (b, yb) in zip(p, p[1:]):
            if a <= x <= b:
                return ya + (yb - ya) * (x - a) / (b - a)
        raise AssertionError


def divided(n, parts):
    return -(-n // parts)


# ---- the bundle ------------------------------------------------------------------------------

FORMULAS = {
    "emb": "kernel of 2 T hidden elements",
    "input_layernorm": "kernel of 4 T hidden elements: norm and residual addition in one",
    "post_attention_layernorm": "kernel of 4 T hidden elements: norm and residual addition in one",
    "attn_qk_norm": "kernel of 2 T (q + k) elements",
    "attn_rope": "kernel of 2 T (q + k) elements",
    "attn_kv_cache_save": "kernel of 4 T k elements",
    "mlp_act": "kernel of 3 T intermediate elements",
    "add": "0: part of the norms",
    "final_layernorm": "kernel of 2 R hidden elements",
    "sample": "kernel of 2 R vocab elements",
    "moe_act": "0: part of moe_up_proj", "moe_down_proj": "0: part of moe_up_proj", "moe_combine": "0: part of moe_up_proj",
}


class Bundle:
    def __init__(self, args, model, tables):
        self.args, self.m, self.tables, self.peaks = args, model, tables, PEAKS[args.gpu]
        names, self.weight_bytes, speed = GEMM_DTYPES[args.dtype]
        kv = KV_DTYPES[args.kv]
        rows = tables.rows("gemm", "gemm_perf", {"gemm_dtype": names})
        self.gemm = Gemm([r for r in rows if r["gemm_dtype"] == names[0]] or rows, self.peaks, self.weight_bytes, speed)
        half = rows if args.dtype == "bf16" else tables.rows("gemm", "gemm_perf", {"gemm_dtype": GEMM_DTYPES["bf16"][0]})
        self.gemm16 = Gemm(half, self.peaks, 2, 1)
        self.quantised = args.dtype != "bf16"
        where = {"kv_cache_dtype": kv, "window_size": (0,), "head_dim": (model.head_dim,)}
        self.context = tables.rows("attention", "context_attention_perf", dict(where, step=(0,)))
        self.generation = tables.rows("attention", "generation_attention_perf", where)
        self.moe = []
        if model.experts:
            self.moe = tables.rows("moe", "moe_perf", {
                "moe_dtype": names, "hidden_size": (model.hidden,), "inter_size": (model.inter,), "topk": (model.topk,),
                "num_experts": (model.experts,), "moe_ep_size": (1,)})
        self.dir = os.path.join(args.out, "data", "profiling")
        self.points, self.notes = {}, set()

    def kernel(self, elements, bytes_each=2):
        return KERNEL_S + elements * bytes_each / self.peaks[0] / ACTIVATION_EFFICIENCY

    def linear(self, tokens, n, k):
        """A GEMM of the layers; quantised inputs are made by a kernel of their own."""
        s = self.gemm.seconds(tokens, n, k)
        return s + self.kernel(tokens * k * 1.5) if self.quantised else s

    def experts(self, tp):
        rows = [r for r in self.moe if r["moe_tp_size"] == tp]
        best = [r for r in rows if r.get("distribution") == "balanced"] or rows
        if not best:
            refuse("moe_perf has no rows for moe_tp_size %d, hidden %d, inter %d, %d experts, top %d" % (
                tp, self.m.hidden, self.m.inter, self.m.experts, self.m.topk))
        return Curve([(r["num_tokens"], r["latency"] / 1e3) for r in best])

    def mlp_rows(self, tp):
        m, h = self.m, self.m.hidden
        q, kv = m.heads // tp * m.head_dim, divided(m.kv_heads, tp) * m.head_dim
        experts = self.experts(tp) if m.experts else None
        for t in self.gemm.ms:
            if t not in self.gemm16.at or t > self.args.max_tokens:
                continue
            ops = {
                "emb": self.kernel(2 * t * h), "input_layernorm": self.kernel(4 * t * h),
                "attn_pre_proj": self.linear(t, q + 2 * kv, h), "attn_rope": self.kernel(2 * t * (q + kv)),
                "attn_post_proj": self.linear(t, h, q), "post_attention_layernorm": self.kernel(4 * t * h), "add": 0.0,
                "final_layernorm": self.kernel(2 * t * h), "lm_head": self.gemm16.seconds(t, divided(m.vocab, tp), h),
                "sample": self.kernel(2 * t * m.vocab),
            }
            if m.qk_norm:
                ops["attn_qk_norm"] = self.kernel(2 * t * (q + kv))
            if experts:
                ops.update(moe_router=self.gemm16.seconds(t, m.experts, h), moe_up_proj=experts.at(t), moe_act=0.0,
                           moe_down_proj=0.0, moe_combine=0.0)
            else:
                inter = m.inter // tp
                ops.update(mlp_up_proj=self.linear(t, 2 * inter, h), mlp_act=self.kernel(3 * t * inter),
                           mlp_down_proj=self.linear(t, h, inter))
            yield t, ops

    def heads_of(self, rows, tp, what):
        """Rows of a shard's heads; else those of a part of them, with as many times the sequences: heads are independent."""
        heads, kv = self.m.heads // tp, divided(self.m.kv_heads, tp)
        parts = 1
        while heads % parts == 0 and kv % parts == 0:
            found = [dict(r, batch_size=r["batch_size"] // parts) for r in rows if r["batch_size"] % parts == 0 and
                     (r["num_heads"], r["num_key_value_heads"]) == (heads // parts, kv // parts)]
            if found:
                if parts > 1:
                    self.notes.add("%s: %d heads over %d KV heads as %d over %d with %d times the sequences." % (
                        what, heads, kv, heads // parts, kv // parts, parts))
                return found
            parts *= 2
        refuse("%s has no rows for %d heads over %d KV heads of %d (parallel.tp=%d)" % (what, heads, kv, self.m.head_dim, tp))

    def attention_rows(self, tp):
        m = self.m
        kv = divided(m.kv_heads, tp) * m.head_dim
        prompts = Curve([(r["isl"], r["latency"] / 1e3) for r in self.heads_of(self.context, tp, "context_attention_perf")
                         if r["batch_size"] == 1])
        for chunk, seconds in prompts.p:
            yield chunk, 0, 1, seconds, None, self.kernel(4 * chunk * kv)
            for cached in CONTEXTS:
                same = math.sqrt(chunk * chunk + 2.0 * chunk * cached)  # a prompt with as many pairs of query and key
                if chunk > 1 and same <= prompts.p[-1][0]:
                    yield chunk, cached, 1, prompts.at(same), None, self.kernel(4 * chunk * kv)
        for r in sorted(self.heads_of(self.generation, tp, "generation_attention_perf"), key=lambda r: (r["batch_size"], r["step"])):
            yield 0, r["isl"] + r["step"] - 1, r["batch_size"], None, r["latency"] / 1e3, self.kernel(4 * r["batch_size"] * kv)

    # -- files --

    def open(self, *path):
        path = os.path.join(self.dir, *path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return open(path, "w", newline="", encoding="utf-8")

    def stats(self, op, seconds):
        ms = "" if seconds is None else repr(seconds * 1e3)
        return {"time_stats.%s.%s" % (op, s): ("" if seconds is None else 0) if s == "std" else ms
                for s in ("min", "max", "mean", "median", "std")}

    def write(self, f, rows):
        rows = list(rows)
        w = csv.DictWriter(f, list(rows[0]), lineterminator="\n")
        w.writeheader()
        w.writerows(rows)

    def count(self, op):
        self.points[op] = self.points.get(op, 0) + 1

    def dims(self, tp):
        m = self.m
        return {"n_head": m.heads, "n_kv_head": m.kv_heads, "n_embd": m.hidden, "n_expanded_embd": m.inter,
                "vocab_size": m.vocab, "use_gated_mlp": True, "num_tensor_parallel_workers": tp, "num_experts": m.experts,
                "num_experts_per_tok": m.topk, "head_dim": m.head_dim}

    def mlp(self):
        for tp in self.args.tp:
            for tokens, ops in self.mlp_rows(tp):
                row = dict(self.dims(tp), num_tokens=tokens)
                for op, seconds in ops.items():
                    row.update(self.stats(op, seconds))
                    self.count(op)
                yield row

    def attention(self):
        for tp in self.args.tp:
            for chunk, cached, batch, prefill, decode, save in self.attention_rows(tp):
                row = {"prefill_chunk_size": chunk, "kv_cache_size": cached, "batch_size": batch, "is_prefill": chunk > 0,
                       "n_embd": self.m.hidden, "n_q_head": self.m.heads, "n_kv_head": self.m.kv_heads,
                       "head_dim": self.m.head_dim, "block_size": self.args.block_size, "num_tensor_parallel_workers": tp}
                row.update(self.stats("attn_prefill", prefill))
                row.update(self.stats("attn_decode", decode))
                row.update(self.stats("attn_kv_cache_save", save))
                self.count("attn_decode" if chunk == 0 else "attn_prefill")
                self.count("attn_kv_cache_save")
                yield row

    def host(self):
        for tp in self.args.tp:
            for batch in (1, 2, 4, 8, 16, 32, 64, 128, 256):
                ms = self.args.host_ms + batch * self.args.host_sequence_us / 1e3
                yield {"model_name": self.m.name, "tensor_parallel_degree": tp, "batch_size": batch, "schedule_median": repr(ms),
                       "sampler_e2e_median": 0, "prepare_inputs_e2e_median": 0, "process_model_outputs_median": 0,
                       "ray_comm_time_mean": 0}

    def collective(self, op, rows, out):
        for (gpus, elements), seconds in sorted(rows.items()):
            row = {"collective": out, "num_workers": gpus, "size": elements * 2, "devices_per_node": gpus,
                   "max_devices_per_node": 8}
            row.update(self.stats(out, seconds))
            yield row

    def network(self):
        graph = "graph"  # decodes run in CUDA graphs; eager all-reduces add a launch of 15 us
        reduce = {}
        rows = self.tables.rows("comm", "custom_allreduce_perf", {}, required=False)
        for r in [r for r in rows if graph in str(r.get("kernel_source"))] or rows:
            reduce.setdefault((r["num_gpus"], r["message_size"]), r["latency"] / 1e3)
        nccl = self.tables.rows("comm", "nccl_perf", {"nccl_dtype": ("half",)}, backend="nccl", required=False)
        for r in nccl:
            if r["op_name"] == "all_reduce" and not rows:
                reduce.setdefault((r["num_gpus"], r["message_size"]), r["latency"] / 1e3)
        to_all = {(r["num_gpus"], r["message_size"]): r["latency"] / 1e3 for r in nccl if r["op_name"] == "alltoall"}
        sizes = [1 << i for i in range(10, 28)]
        send = {(2, s // 2): SEND_S + s / self.peaks[2] / LINK_EFFICIENCY for s in sizes}
        return [("all_reduce", reduce), ("all_to_all", to_all), ("send_recv", send)]

    def meta(self):
        measured = {"attn_pre_proj", "attn_post_proj", "mlp_up_proj", "mlp_down_proj", "lm_head", "moe_router", "moe_up_proj",
                    "attn_prefill", "attn_decode"}
        ops = {}
        for op, n in sorted(self.points.items()):
            ops[op] = {"points": n, "method": "table" if op in measured else "formula"}
            if op in FORMULAS and op not in measured:
                ops[op]["formula"] = FORMULAS[op]
        a = self.args
        return {
            "schema_version": 1, "run_type": "vidur_profile", "model": self.m.name, "hardware_id": a.hardware,
            "block_size": a.block_size,
            "formats": {"weights": a.dtype.split("_")[0], "kv": a.kv}, "operators": ops,
            "formula_terms": {"kernel": "%g s + bytes / (%g x %g bytes/s)" % (KERNEL_S, ACTIVATION_EFFICIENCY, self.peaks[0]),
                              "kernel_s": KERNEL_S, "activation_efficiency": ACTIVATION_EFFICIENCY},
            "notes": [
                "GEMMs between the shapes of the tables: measured / roofline, interpolated over the logarithms of n and k.",
                "Prefill after cached tokens: as a prompt with as many pairs of query and key.",
                "Norms, activations, rope, KV save, embedding and sampling are formulas.",
                "Host time is assumed: %g ms and %g us per sequence." % (a.host_ms, a.host_sequence_us) if a.host_ms else
                "No host time.",
                "send_recv is a formula: %g s + bytes / (%g x %g bytes/s)." % (SEND_S, LINK_EFFICIENCY, self.peaks[2]),
            ] + sorted(self.notes),
            "provenance": {"source": "NVIDIA AIConfigurator", "gpu": a.gpu, "backend": a.backend, "tables": self.tables.used,
                           "importer": VERSION},
        }

    def make(self):
        a = self.args
        final = os.path.join(self.dir, "compute", a.hardware, self.m.name)
        if os.path.exists(final):
            refuse("%s exists already" % final)
        mlp, attention, network = list(self.mlp()), list(self.attention()), self.network()  # refusals leave no files
        with self.open("compute", a.hardware, self.m.name, "mlp.csv") as f:
            self.write(f, mlp)
        with self.open("compute", a.hardware, self.m.name, "attention.csv") as f:
            self.write(f, attention)
        if a.host_ms:
            with self.open("cpu_overhead", a.network, self.m.name, "cpu_overheads.csv") as f:
                self.write(f, self.host())
        for name, rows in network:
            if rows:
                with self.open("network", a.network, name + ".csv") as f:
                    self.write(f, self.collective(name, rows, name))
        with self.open("compute", a.hardware, self.m.name, "bundle_meta.json") as f:
            json.dump(self.meta(), f, indent=2, sort_keys=True)
            f.write("\n")
        print("bundle          %s" % final)
        print("profile.root    %s" % a.out)


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--tables", required=True, help="folder systems/data of the package")
    p.add_argument("--gpu", required=True, choices=sorted(PEAKS))
    p.add_argument("--backend", required=True, choices=("vllm", "sglang", "trtllm"))
    p.add_argument("--version", help="of the backend; the newest when left out")
    p.add_argument("--model", required=True, help="config.json, its folder, or a group file of twinfer's")
    p.add_argument("--name", help="name of the model's folder; the group's or the folder's when left out")
    p.add_argument("--hardware", required=True, help="hardware.id of the bundle")
    p.add_argument("--network", help="folder of collectives and host time: network_device, else --hardware")
    p.add_argument("--tp", default="1", help="degrees of tensor parallelism: 1,2,4")
    p.add_argument("--dtype", default="bf16", choices=sorted(GEMM_DTYPES))
    p.add_argument("--kv", default="bf16", choices=sorted(KV_DTYPES))
    p.add_argument("--block-size", type=int, default=16)
    p.add_argument("--max-tokens", type=int, default=16384)
    p.add_argument("--host-ms", type=float, default=1.5, help="host time of an iteration, assumed; 0 = none")
    p.add_argument("--host-sequence-us", type=float, default=15, help="and per sequence")
    p.add_argument("--out", required=True, help="root to write into: profile.root")
    args = p.parse_args()
    args.tp = [int(x) for x in args.tp.split(",")]
    args.network = args.network or args.hardware
    model = Model(args.model, args.name)
    for tp in args.tp:
        if tp < 1 or model.heads % tp:
            refuse("%d shards do not divide %d heads" % (tp, model.heads))
    Bundle(args, model, Tables(args.tables, args.gpu, args.backend, args.version)).make()


if __name__ == "__main__":
    main()
