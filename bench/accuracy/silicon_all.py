#!/usr/bin/env python3
"""Every row of AIConfigurator's silicon_sample.csv: which are simulated, why others are not, and how far TTFT and TPOT are off, from
the package's own tables and from the roofline.

    python3 bench/accuracy/silicon_all.py OUT [--jobs N] [--models REGEX] [--roofline N] [--every N] >rows.csv 2>summary.md

Needs PyPI's aiconfigurator-core in the Python that runs it; TWINFER names the program (build/twinfer). OUT gets bundles and runs. A line a row:

    id,family,model,backend,version,gpu,mode,format,parallel,isl,osl,concurrency,launches,drafts,half,contradicted,why_not,ttft_ms,ttft_tables_ms,...

and stderr a table by family. Rows of one server and load are simulated once. The rows state model, formats, degrees, lengths and
concurrency; the rest is how they were measured, taken from where that is published, not from the rows:

- rows of InferenceMAX (github.com/SemiAnalysisAI/InferenceX, its benchmarks/*.sh; db-dump, dated and gap-analysis sources): 10 requests for
  each in flight, all sent at once, lengths drawn evenly from 0.8 to 1 of those stated, no prefix cache; tokens a batch: vLLM 8192,
  TensorRT-LLM concurrency + isl + 64 (DeepSeek, Kimi; at least 8192 under 1.2.0rc6), 20000 (gpt-oss), 16384 (Llama), SGLang 32768 (GLM-5: its default of 16384);
- AIConfigurator's own rows (other sources): silicon.py says how;
- the figures are means (its silicon_ttft_ms is mean_ttft).

Batches with prompts are launched by the host, kernel by kernel where the engine has graphs of decode steps alone (SGLang, TensorRT-LLM;
--launching): what a layer takes is LAUNCHES', measured on another engine's server. vLLM compiles and captures pieces; --launching vllm tries.
Rows whose image ran with drafts alone are marked (drafts), rows of one load that contradict each other too. Halves: rows are split by their load; causes
were looked for in one half, and the other was opened when everything was settled.

SGLang computes prompts before decodes (policy vllm; host time none: its scheduler overlaps), and on B200 and B300 looks for new requests
after each 10 decode steps, from 16 in flight on 30 (--scheduler-recv-interval; policy lightllm). The others mix (vllm_0_33). A server
whose attention is data parallel is as many replicas as it has ranks, each with its share of the requests; its memory is not planned.
Disaggregated rows that state their workers: cluster.prefill_replicas, prompts and decodes each by the tables of their workers' degrees; no
roofline, which has one degree for both.
"""

import argparse
import collections
import concurrent.futures
import csv
import glob
import hashlib
import json
import os
import random
import re
import shutil
import statistics
import subprocess
import sys

import silicon

ROOT, TWINFER = silicon.ROOT, silicon.TWINFER
ADAPTER = os.path.join(ROOT, "adapters", "aiconfigurator_iterations.py")
# hardware of ours, and what differs from it, of systems/<gpu>.yaml
GPUS = {"h100_sxm": ("h100", []), "h200_sxm": ("h200", []), "b200_sxm": ("b200", []), "gb200": ("gb200", []),
        "b300_sxm": ("b200", ["hardware.memory_gb=268.5", "hardware.dram_gb_per_s=7750"]),
        "gb300": ("gb200", ["hardware.memory_gb=277.5"])}
# model_path: family, and by format of the products the configuration of the package that has it
DEEPSEEK = ("MLA, experts", {"": "deepseek-ai/DeepSeek-R1", "nvfp4": "nvidia/DeepSeek-V3.1-NVFP4"})
LLAMA_8B = ("dense", {"": "meta-llama/Meta-Llama-3.1-8B"})
QWEN3_32B = ("dense", {"": "Qwen/Qwen3-32B", "fp8": "Qwen/Qwen3-32B-FP8-Static-PerTensor", "fp8_block": "Qwen/Qwen3-32B-FP8"})
MODELS = {
    "deepseek-ai/DeepSeek-R1": DEEPSEEK, "deepseek-ai/DeepSeek-V3": DEEPSEEK, "nvidia/DeepSeek-R1-NVFP4": DEEPSEEK,
    "nvidia/DeepSeek-V3.1-NVFP4": DEEPSEEK,
    "moonshotai/Kimi-K2.5": ("MLA, experts", {"": "moonshotai/Kimi-K2.5", "nvfp4": "nvidia/Kimi-K2.5-NVFP4"}),
    "MiniMaxAI/MiniMax-M2.5": ("experts", {"": "MiniMaxAI/MiniMax-M2.5", "nvfp4": "nvidia/MiniMax-M2.5-NVFP4"}),
    "Qwen/Qwen3-235B-A22B-FP8": ("experts, taken before", {"": "Qwen/Qwen3-235B-A22B-FP8"}),
    "openai/gpt-oss-120b": ("window, experts", {"": "openai/gpt-oss-120b"}),
    "Qwen/Qwen3.5-397B-A17B": ("GDN, experts", {"": "Qwen/Qwen3.5-397B-A17B", "nvfp4": "nvidia/Qwen3.5-397B-A17B-NVFP4"}),
    "zhipuai/GLM-5": ("DSA, experts", {"": "zai-org/GLM-5-FP8", "nvfp4": "nvidia/GLM-5-NVFP4"}),
    "meta-llama/Llama-3.1-70B": ("dense", {"": "meta-llama/Meta-Llama-3.1-70B", "fp8": "nvidia/Llama-3.1-70B-Instruct-FP8"}),
    "meta-llama/Llama-3.1-8B-Instruct": LLAMA_8B, "nvidia/Llama-3.1-8B-Instruct-FP8": LLAMA_8B,
    "Qwen/Qwen3-32B": QWEN3_32B, "nvidia/Qwen3-32B-NVFP4": QWEN3_32B,
}
NEW = ("MLA, experts", "experts", "window, experts", "GDN, experts", "DSA, experts")
# How batches with prompts are launched, and what that takes of a layer, and besides of one with experts, in ms: docs/methodology.md's
# priors, measured on a server of another model on an H100 and in none of these rows.
LAUNCHES = {"none": (0, 0), "pieces": (0.29, 0), "kernels": (0.75, 0.94)}
DTYPES = {"fp8": "fp8", "fp8_block": "fp8", "nvfp4": "fp4", "int4_wo": "int4"}
RACK = "tensor parallel over more GPUs than a server has, or no power of two: a disaggregated deployment, written as one server"
NO_WORKERS = "disaggregated, and the file does not state how many workers there were"
BUNDLE = os.path.join("data", "profiling", "compute", "*", "*", "bundle_meta.json")
Parallel = collections.namedtuple("Parallel", "tp dp moe_tp moe_ep")


def whole(text, default=1):
    return int(text) if text not in ("", "0") else default


def read_parallel(r):
    """(degrees, None), or (None, why they stand for no server). Where they contradict the row's id, as the id has them."""
    p = Parallel(whole(r["tp_size"]), whole(r["attention_dp_size"]), whole(r["moe_tp_size"]), whole(r["moe_ep_size"]))
    if not int(r["moe_ep_size"] or 0) and not int(r["moe_tp_size"] or 0):
        p = p._replace(moe_tp=p.tp)
    e = p.moe_ep
    if e > 1 and p.moe_tp == e and p.tp * p.dp == e * e:  # "tp8_ep8" is written as 64, 8 and 8
        p = Parallel(e if p.tp > 1 else 1, e if p.dp > 1 else 1, 1, e)
    elif p.dp > 1 and p.tp == p.dp and e == p.tp * p.dp:  # vLLM: data parallel in place of tensor parallel
        p = Parallel(1, p.dp, 1, p.dp)
    elif r["attention_dp_size"] == "" and p.moe_tp * e > p.tp:
        p = p._replace(dp=p.moe_tp * e // p.tp)
    if p.tp > 8 or p.tp & (p.tp - 1):
        return None, RACK
    return p, None


Workers = collections.namedtuple("Workers", "prefill_n decode_n prefill")


def read_workers(r):
    """Of a disaggregated row: (numbers and degrees of the workers for prompts, degrees of those that decode, None), or why not."""
    if not r["prefill_num_workers"] or not r["decode_num_workers"]:
        return None, None, NO_WORKERS
    both = [Parallel(*[whole(r["%s_%s" % (side, x)]) for x in ("tp_size", "attention_dp_size", "moe_tp_size", "moe_ep_size")])
            for side in ("prefill", "decode")]
    return Workers(int(r["prefill_num_workers"]), int(r["decode_num_workers"]), both[0]), both[1], None


def is_inferencemax(r):
    return not r["silicon_data_source"].startswith("source_file=/")


def launch_of(r, engines):
    """As which of LAUNCHES. SGLang (without --enable-piecewise-cuda-graph) and TensorRT-LLM's PyTorch backend (without torch_compile_config)
    have graphs of decode steps alone; the published scripts of DeepSeek under 1.2 on B200 choose pieces for many in flight."""
    if r["backend"] not in engines:
        return "none"
    lengths, n = (int(r["isl"]), int(r["osl"])), concurrency(r)
    scripts = is_inferencemax(r) and r["backend"] == "trtllm" and "1.2.0rc6" in r["backend_version"] and "DeepSeek" in r["model_path"]
    least = {(1024, 1024): 64, (1024, 8192): 128, (8192, 1024): 64}.get(lengths)
    if scripts and r["gemm_quant_mode"] == "nvfp4":  # of fp4: "1k1k (TEP8 and CONC64)"
        least = 64 if lengths == (1024, 1024) and whole(r["moe_ep_size"]) == 8 else None
    return "pieces" if scripts and least and n >= least else "kernels"


def has_drafts(r):
    """1.2.0rc6.post3 is the image of DeepSeek's configurations with MTP alone, those without have post2 (InferenceX's perf-changelog.yaml,
    pull requests 594, 620, 632 and 642). Other images ran both, which the rows do not tell."""
    return r["backend"] == "trtllm" and r["backend_version"] == "1.2.0rc6.post3"


def server_of(r, engines=("sglang", "trtllm")):
    """What a bundle depends on."""
    family, configs = MODELS[r["model_path"]]
    gemm = r["gemm_quant_mode"]
    # fp8 of checkpoints with scales by blocks is what the expert column says
    if gemm == "fp8" and r["moe_quant_mode"] == "fp8_block":
        gemm = "fp8_block"
    if r["mode"] == "agg":
        workers, (parallel, why) = None, read_parallel(r)
    else:
        workers, parallel, why = read_workers(r)
    return (r["backend"], r["system"], configs.get(gemm, configs[""]), gemm, r["moe_quant_mode"], parallel, workers,
            launch_of(r, engines)), why


def concurrency(r):
    found = re.search(r"silicon_concurrency=(\d+)", r["silicon_data_source"])
    if found or not r["batch_size"]:
        return int(found.group(1)) if found else 1
    return int(r["batch_size"]) * whole(r["attention_dp_size"])


def load_of(r):
    serial = r["backend"] == "vllm" and not is_inferencemax(r) and silicon.before_async(r)
    return int(r["isl"]), int(r["osl"]), concurrency(r), is_inferencemax(r), budget(r), serial, polls(r)


def polls(r):
    """Decode steps between two looks at the queue; 0: it looks at each."""
    asked = r["mode"] == "agg" and is_inferencemax(r) and r["backend"] == "sglang" and r["system"] in ("b200_sxm", "b300_sxm")
    asked = asked and "GLM" not in r["model_path"]
    return (30 if concurrency(r) >= 16 else 10) if asked else 0


def budget(r):
    isl, n = int(r["isl"]), concurrency(r)
    if r["mode"] != "agg":
        return max(8192, isl)
    if not is_inferencemax(r):
        return silicon.token_budget(r["backend"], r) or 16384
    if r["backend"] == "sglang":
        return 16384 if "GLM" in r["model_path"] else 32768
    if r["backend"] == "vllm":
        return 8192
    if "gpt-oss" in r["model_path"]:
        return 20000
    if "Llama" in r["model_path"]:
        return 16384
    least = 8192 if "1.2.0rc6" in r["backend_version"] else 0  # in the scripts since they run evaluations too (pull request 258)
    return max(least, (n + isl + 64 + 63) // 64 * 64)


# ---- bundles ---------------------------------------------------------------------------------


def model_folder(out, config):
    """The package's config.json as a folder that model.ref takes."""
    import aiconfigurator_core
    name = config.replace("/", "--")
    folder = os.path.join(out, "models", name)
    os.makedirs(folder, exist_ok=True)
    for end in ("config.json", "hf_quant_config.json"):
        path = os.path.join(os.path.dirname(aiconfigurator_core.__file__), "model_configs", name + "_" + end)
        if os.path.exists(path) and not os.path.exists(os.path.join(folder, end)):
            shutil.copy(path, os.path.join(folder, end))
    return folder, name


def make_bundle(out, server):
    backend, gpu, config, gemm, moe, p, workers, launch = server
    parts = [backend, gpu, config.replace("/", "_"), gemm or "bf16", moe or "bf16", "tp%d-dp%d-%dx%d" % p]
    if workers:
        parts.append("prompts-tp%d-dp%d-%dx%d" % workers.prefill)
    parts += [launch] if launch != "none" else []
    root = os.path.join(out, "bundles", "-".join(parts))
    if glob.glob(os.path.join(root, BUNDLE)):
        return root, None
    shutil.rmtree(root, ignore_errors=True)  # of a run that was stopped
    words = [sys.executable, ADAPTER, "--model", config, "--gpu", gpu, "--backend", backend, "--tp", str(p.tp), "--dp", str(p.dp), "--moe-tp",
             str(p.moe_tp), "--moe-ep", str(p.moe_ep), "--name", config.replace("/", "--"), "--hardware", GPUS[gpu][0],
             "--host-ms", "0" if backend == "sglang" else "1.5", "--max-tokens", "32768", "--max-batch", "1024", "--out", root]
    words += ["--launch-layer-ms", str(LAUNCHES[launch][0]), "--launch-experts-ms", str(LAUNCHES[launch][1])]
    words += ["--prompts", "%d,%d,%d,%d" % workers.prefill] if workers else []
    for more in formats_of(out, server):
        done = subprocess.run(words + more, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return root, None
    return None, done.stderr.strip().splitlines()[-1]


def formats_of(out, server):
    """Those of the checkpoint, where it states any; else the row's. vLLM's table of products in fp8 by blocks is of launches, not of kernels:
    60 to 300 us at any size, where SGLang and TensorRT-LLM have 10 on the same GPU; its fp8 stands in. TensorRT-LLM's experts of gpt-oss
    multiply in mxfp8 on Blackwell (moe_config.backend TRTLLM of the published script)."""
    backend, gpu, config, gemm, moe = server[:5]
    if backend == "trtllm" and "gpt-oss" in config and gpu[0] in "bg":
        return [["--moe", "w4a8_mxfp4_mxfp8"]]
    folder, _ = model_folder(out, config)
    if not stored_format(folder):
        return [["--gemm", gemm or "bfloat16", "--moe", moe or "bfloat16"]]
    return [["--gemm", "fp8"], []] if backend == "vllm" and gemm == "fp8" else [[]]


# ---- runs ------------------------------------------------------------------------------------


def lengths_file(out, load):
    isl, osl, n, spread = load[:4]
    path = os.path.join(out, "lengths", "%d-%d-%d-%s.csv" % (isl, osl, n, "spread" if spread else "fixed"))
    if not os.path.exists(path):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        rng = random.Random("%d %d %d" % (isl, osl, n))
        with open(path + ".new", "w", encoding="utf-8") as f:
            f.write("num_prefill_tokens,num_decode_tokens\n")
            for _ in range(10 * n):
                f.write("%d,%d\n" % tuple(rng.randint(int(0.8 * x), x) if spread else x for x in (isl, osl)))
        os.rename(path + ".new", path)
    return path


def simulate(out, server, load, root):
    """({ttft, tpot} in ms, None), or (None, why). root None: by the roofline."""
    backend, gpu, config, gemm, _, p, workers, _ = server
    isl, osl, n, _, tokens, before_async, polls = load
    folder, name = model_folder(out, config)
    words = [TWINFER, "simulate", "--json", "log.level=error", "model.ref=" + folder, "model.name=" + name, "hardware=" + GPUS[gpu][0], *GPUS[gpu][1],
             "parallel.tp=%d" % p.tp, "scheduler.prefix_caching=false", "workload=synthetic",
             "workload.lengths.kind=trace", "workload.lengths.trace=" + lengths_file(out, load), "workload.concurrency=%d" % n,
             "workload.num_requests=%d" % (10 * n), "scheduler.max_model_len=%d" % (isl + osl), "scheduler.batch_cap=1024",
             "predictor.request_overheads=server", "output.tokens=none", "output.batches=none"]
    words += ["profile.root=" + root] if root else ["predictor=roofline"]
    if workers:
        words += ["scheduler=vllm_v1", "scheduler.token_budget=%d" % tokens]
    elif backend == "sglang" and polls:
        words += ["scheduler=lightllm", "scheduler.max_tokens_in_batch=%d" % tokens, "scheduler.max_waiting_iters=%d" % polls]
    elif backend == "sglang":
        words += ["scheduler=vllm", "scheduler.max_tokens_in_batch=%d" % tokens]
    else:
        words += ["scheduler=vllm_0_33", "scheduler.token_budget=%d" % tokens] + (["scheduler.async_scheduling=off"] if before_async else [])
    if gemm in DTYPES and not stored_format(folder):
        words.append("model.dtype=" + DTYPES[gemm])
    if workers:
        prefill, decode = workers.prefill_n * workers.prefill.dp, workers.decode_n * p.dp
        blocks = (-(-n // min(prefill, decode)) + 1) * (-(-(isl + osl) // 16) + 1) + 1024
        words += ["cluster.replicas=%d" % (prefill + decode), "cluster.prefill_replicas=%d" % prefill, "scheduler.num_blocks=%d" % blocks,
                  "cluster.kv_bandwidth_gb_s=%d" % (900 if gpu.startswith("gb") else 50)]
    elif p.dp > 1 and not root:
        words.append("parallel.ep=%d" % (p.tp * p.dp))
    elif p.dp > 1:
        words += ["cluster.replicas=%d" % p.dp, "scheduler.num_blocks=%d" % (-(-n // p.dp) * (-(-(isl + osl) // 16) + 1) + 1024)]
    elif p.moe_ep == p.tp > 1:
        words.append("parallel.ep=%d" % p.moe_ep)
    return answer_of(out, words, [TWINFER] + (glob.glob(os.path.join(root, BUNDLE)) if root else []))


def answer_of(out, words, files):
    """Of a run, or of an earlier one with the same words and by the same files: the program, the bundle."""
    of = [words] + [(os.stat(x).st_size, os.stat(x).st_mtime) for x in files]
    run = os.path.join(out, "runs", hashlib.sha1(repr(of).encode()).hexdigest())
    if not os.path.exists(run + ".json"):
        shutil.rmtree(run, ignore_errors=True)  # of one that was stopped
        done = subprocess.run(words + ["out=" + run], capture_output=True, text=True, check=False, cwd=ROOT)
        shutil.rmtree(run, ignore_errors=True)
        if done.returncode:
            because = re.findall(r"because: (.*)", done.stderr)
            said = [None, because[-1] if because else " ".join(done.stderr.split())]
        else:
            result = json.loads(done.stdout)
            refused = "%d requests were refused" % result["not_ok"] if result["not_ok"] else None
            said = [None if refused else {x: result[x + "_mean_ms"] for x in ("ttft", "tpot")}, refused]
        os.makedirs(os.path.dirname(run), exist_ok=True)
        with open(run + ".new", "w", encoding="utf-8") as f:
            json.dump(said, f)
        os.rename(run + ".new", run + ".json")
    with open(run + ".json", encoding="utf-8") as f:
        return tuple(json.load(f))


def stored_format(folder):
    with open(os.path.join(folder, "config.json"), encoding="utf-8") as f:
        c = json.load(f)
    return "quantization_config" in c or "quantization_config" in c.get("text_config", {}) or os.path.exists(
        os.path.join(folder, "hf_quant_config.json"))


# ---- the table -------------------------------------------------------------------------------


def off(said, seen):
    return 100 * (said / seen - 1)


HALVES = ("looked at", "opened at the end")


def half_of(l):
    """Rows of one load stand in one half. Errors of the first were gone through by cause, of the second read when all was settled."""
    words = [l["model"].split("/")[1][:8]] + [str(l[x]) for x in ("backend", "gpu", "parallel", "isl", "osl", "concurrency")]
    return HALVES[int(hashlib.sha1(("28 " + "|".join(words)).encode()).hexdigest(), 16) % 2 == 0]


def mark_contradicted(lines):
    """Rows of one server and load (whatever the version) whose TPOT differ by 15 %: what makes the difference, drafts or a version,
    they do not state."""
    of = collections.defaultdict(list)
    for l in lines:
        server = MODELS[l["model"]][1] if l["family"] in NEW else l["model"]
        of[str(server), l["backend"], l["gpu"], l["format"], l["parallel"], l["isl"], l["osl"], l["concurrency"]].append(l)
    for same in of.values():
        seen = [l["tpot_ms"] for l in same]
        for l in same:
            l["contradicted"] = "yes" if max(seen) > 1.15 * min(seen) else "no"


def figure(errors):
    return "%.1f (%+.1f)" % (statistics.median(map(abs, errors)), statistics.median(errors)) if errors else ""


def summary(lines):
    print("| family | rows | simulated | TPOT: tables | roofline | TTFT: tables | roofline |\n|---|---|---|---|---|---|---|", file=sys.stderr)
    one = [l for l in lines if l["mode"] == "agg"]
    new = [l for l in one if l["family"] in NEW]
    plain = [l for l in new if l["contradicted"] == "no" and l["drafts"] != "yes"]
    groups = [(f, [l for l in one if l["family"] == f]) for f in dict.fromkeys(l["family"] for l in one)]
    groups += [("**new families**", new), ("new, no drafts known of, not contradicted", plain)]
    groups += [("**new families, the half %s**" % x, [l for l in new if l["half"] == x]) for x in HALVES]
    groups += [("new, %s" % b, [l for l in new if l["backend"] == b]) for b in ("vllm", "sglang", "trtllm")]
    groups += [("new, no drafts known of, not contradicted, %s" % b, [l for l in plain if l["backend"] == b]) for b in ("vllm", "sglang", "trtllm")]
    groups += [("one server, all", one), ("disaggregated", [l for l in lines if l["mode"] != "agg"])]
    for name, of in groups:
        done = [l for l in of if not l["why_not"]]
        cells = [figure([l[x + "_error_percent"] for l in done if l.get(x + "_error_percent") not in (None, "")])
                 for x in ("tpot_tables", "tpot_roofline", "ttft_tables", "ttft_roofline")]
        print("| %s | %d | %d | %s |" % (name, len(of), len(done), " | ".join(cells)), file=sys.stderr)
    stated = [l for l in lines if l["why_not"] not in (RACK, NO_WORKERS)]
    for name, of in (("all rows", lines), ("rows of one server", one), ("rows that state their deployment", stated)):
        done = sum(not l["why_not"] for l in of)
        print("\n%s: %d of %d simulated, %.1f %%" % (name, done, len(of), 100 * done / max(1, len(of))), end="", file=sys.stderr)
    print("\n", file=sys.stderr)
    why = collections.Counter((l["family"], re.sub(r"\d+", "N", l["why_not"])) for l in lines if l["why_not"])
    for (family, reason), n in why.most_common():
        print("- %d of %s: %s" % (n, family, reason), file=sys.stderr)


FIELDS = ("id family model backend version gpu mode format parallel isl osl concurrency launches drafts half contradicted why_not ttft_ms ttft_tables_ms ttft_tables_error_percent "
          "ttft_roofline_ms ttft_roofline_error_percent tpot_ms tpot_tables_ms tpot_tables_error_percent tpot_roofline_ms "
          "tpot_roofline_error_percent").split()


def line_of(r, server, load, why, answers):
    backend, gpu, _, gemm, _, p, workers, launch = server
    drafts = "yes" if has_drafts(r) else "not known of"
    line = dict(id=r["id"], family=MODELS[r["model_path"]][0], model=r["model_path"], backend=backend, version=r["backend_version"], gpu=gpu,
                format=gemm or "bf16", mode=r["mode"],
                parallel=("%d x " % workers.decode_n if workers else "") + "tp%d dp%d experts %dx%d" % p +
                (" prompts %d x tp%d dp%d experts %dx%d" % (workers.prefill_n, *workers.prefill) if workers else "") if p else "",
                isl=load[0], osl=load[1], concurrency=load[2], launches=launch, drafts=drafts,
                why_not=why or "")
    line["half"] = half_of(line)
    for metric in ("ttft", "tpot"):
        seen = line[metric + "_ms"] = float(r["silicon_%s_ms" % metric])
        for how, answer in answers.items():
            if answer and not why:
                line["%s_%s_ms" % (metric, how)] = "%.3f" % answer[metric]
                line["%s_%s_error_percent" % (metric, how)] = round(off(answer[metric], seen), 2)
    return line


LEFT_OUT = "not asked for (--disaggregated, --half, --every)"


def sample_of(runs, every):
    """Every such load of each configuration."""
    by_config = collections.defaultdict(list)
    for x in runs:
        by_config[x[0][0], x[0][2]].append(x)
    return [x for of in by_config.values() for x in of[::every]]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("out")
    p.add_argument("--jobs", type=int, default=2)
    p.add_argument("--models", default="", help="only rows whose model_path matches this expression")
    p.add_argument("--roofline", type=int, default=1, metavar="N", help="by the roofline too: every Nth run; 0: none")
    p.add_argument("--every", type=int, default=1, metavar="N", help="simulate every Nth load of a family; others count as not covered")
    p.add_argument("--launching", default="sglang,trtllm", metavar="ENGINES", help="those whose host launches prompts kernel by kernel")
    p.add_argument("--half", choices=["looked at", "both"], default="both", help="simulate only the rows of that half")
    p.add_argument("--disaggregated", choices=["yes", "no"], default="yes", help="simulate these rows too: minutes more")
    a = p.parse_args()
    import aiconfigurator_core
    a.out = os.path.abspath(a.out)
    path = os.path.join(os.path.dirname(aiconfigurator_core.__file__), "systems", "silicon_sample.csv")
    with open(path, newline="", encoding="utf-8") as f:
        rows = [r for r in csv.DictReader(f) if re.search(a.models, r["model_path"])]
    asked = [(r, *server_of(r, a.launching.split(",")), load_of(r)) for r in rows]
    servers = sorted({s for _, s, why, _ in asked if not why}, key=str)
    runs = sorted({(s, load) for _, s, why, load in asked if not why}, key=str)
    if a.disaggregated == "no":
        runs = [x for x in runs if not x[0][6]]
    if a.half != "both":
        looked = {(s, load) for r, s, why, load in asked if not why and line_of(r, s, load, why, {})["half"] == a.half}
        runs = [x for x in runs if x in looked]
    runs = sample_of(runs, a.every)
    servers = [s for s in servers if s in {x[0] for x in runs}]
    for _, load in runs:
        lengths_file(a.out, load)
    for config in {s[2] for s in servers}:
        model_folder(a.out, config)
    with concurrent.futures.ThreadPoolExecutor(a.jobs) as pool:
        bundles = dict(zip(servers, pool.map(lambda s: make_bundle(a.out, s), servers)))

        def of_tables(x):
            root, why = bundles[x[0]]
            return simulate(a.out, *x, root) if root else (None, why)

        tables = dict(zip(runs, pool.map(of_tables, runs)))
        also = [x for x in runs if tables[x][0] and not x[0][6]][::a.roofline] if a.roofline else []
        roofline = dict(zip(also, pool.map(lambda x: simulate(a.out, *x, None)[0], also)))
    lines = []
    for r, server, why, load in asked:
        answers = {}
        if not why:
            answer, why = tables.get((server, load), (None, LEFT_OUT))
            answers = {"tables": answer, "roofline": roofline.get((server, load))}
        lines.append(line_of(r, server, load, why, answers))
    mark_contradicted(lines)
    out = csv.DictWriter(sys.stdout, FIELDS, lineterminator="\n", restval="")
    out.writeheader()
    out.writerows(lines)
    summary(lines)


if __name__ == "__main__":
    main()
