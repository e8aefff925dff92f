#!/usr/bin/env python3
"""A bundle of whole iterations of a model whose layers differ, from the tables of NVIDIA's AIConfigurator.

    pip install aiconfigurator-core
    python3 adapters/aiconfigurator_iterations.py --model deepseek-ai/DeepSeek-R1 --gpu b200_sxm --backend sglang \
        --tp 8 --moe-tp 8 --gemm fp8_block --moe fp8_block --name deepseek_r1 --hardware b200 --out ROOT
    twinfer simulate profile.root=ROOT model.ref=deepseek_r1 hardware=b200 parallel.tp=8

Which tables make an iteration of a model, the package itself knows (its list of operators of MLA, DSA, GDN, KDA, Mamba, window
attention, experts, collectives), and looks them up; this program asks it for the operators of batches and adds them up:

    decode only      every operator of decoding, n sequences of k cached tokens
    with prompts     operators over tokens at all T + n tokens; attention and state kernels of the prompts at their chunks, and of the
                     decodes at theirs, one after the other; logits for the last token of each

Rows are a grid over what iteration.csv has: tokens of chunks, their mean context, decodes, their mean cache. docs/aiconfigurator.md
says what is taken over. --model is a name that the package has a configuration of, or a folder with config.json.

The tables are of kernels. What a host takes that launches a batch with prompts kernel by kernel is none of them, and a batch ends no
earlier than its last launch: --launch-layer-ms and --launch-experts-ms say it, of each layer and besides of each with experts. It is
launch_ns of these rows and part of host_ns, so simulations let the device work beside it.
"""

import argparse
import csv
import importlib.metadata
import json
import logging
import os
import sys

from aiconfigurator import ACTIVATION_EFFICIENCY, KERNEL_S, PEAKS

VERSION = 2
# Operators that see a sequence's own tokens: they are evaluated at chunks and at decodes apart. Modules hold their projections too.
OF_SEQUENCES = ("attention", "mla", "dsa", "msa", "gdn_conv1d", "gdn_scan", "gdn_recurrence", "mamba", "kda", "conv1d", "ssm", "csa",
                "hca")
PLAIN = ("GEMM", "ElementWise", "CustomAllReduce", "Embedding", "P2P", "MoE", "MoEDispatch", "NCCL")
DECODES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024)
CACHED = (16, 64, 128, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 32768, 65536)
TOKENS = (16, 64, 128, 256, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768)
CONTEXTS = (64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)
BESIDE = (1, 4, 16, 64, 256, 1024)  # decodes beside prompts
BESIDE_CACHED = (512, 1024, 2048, 4096, 8192)


def refuse(text):
    sys.exit("aiconfigurator_iterations: " + text)


def layers_of(config):
    """(layers, those of them with experts) of a config.json."""
    config = config.get("text_config", config)
    layers = config["num_hidden_layers"]
    experts = any(config.get(key) for key in ("num_experts", "n_routed_experts", "num_local_experts"))
    return layers, layers - (config.get("first_k_dense_replace") or 0) if experts else 0


def bandwidth_of(system):
    if system not in PEAKS:
        raise ValueError("no memory bandwidth is known of " + system)
    return PEAKS[system][0]


def lacking_of(config, tp, names):
    """Kernels over activations that an engine runs and the package's list (of these names) lacks: [(how many times, bytes read and written
    for a token)]. It has the norms before attention and MLP; what its modules measure as one is not counted again."""
    c = config.get("text_config", config)
    layers, expert_layers = layers_of(config)
    heads, kv_heads = c.get("num_attention_heads") or 0, c.get("num_key_value_heads") or c.get("num_attention_heads") or 0
    size = c.get("head_dim") or (c.get("hidden_size") or 0) // max(1, heads)
    q, kv = 2 * heads * size / tp, 2 * kv_heads * size / tp  # 16 bits
    every = c.get("full_attention_interval") if any("gdn" in x for x in names) else None
    full = layers // every if every else layers
    kernels = [(expert_layers, 2 * (c.get("num_experts") or c.get("n_routed_experts") or c.get("num_local_experts") or 0))]  # their choice
    if any(x.endswith("downscale_gemm") for x in names):  # MLA by its products: norms of both latents, rotation, keys and values stored
        latent = 2 * ((c.get("q_lora_rank") or 0) + (c.get("kv_lora_rank") or 0))
        kernels += [(layers, 2 * latent), (layers, 2 * q), (layers, 2 * latent)]
    elif any(x.endswith("qkv_gemm") for x in names):
        kernels += [(full, 2 * (q + kv)), (full, 4 * kv)]  # rotation, keys and values stored
        if c.get("use_qk_norm") or str(c.get("model_type")).startswith("qwen3"):
            kernels.append((full, 2 * (q + kv)))
        if c.get("attn_output_gate"):
            kernels.append((full, 3 * q))
    if every:  # the gated norm behind the recurrence
        width = 2 * (c.get("linear_num_value_heads") or 0) * (c.get("linear_value_head_dim") or 0) / tp
        kernels.append((layers - full, 3 * width))
    return [(n, b) for n, b in kernels if n]


class Engine:
    """Milliseconds of batches, as the package composes its tables."""

    def __init__(self, model, system, backend, tp=1, dp=1, moe_tp=1, moe_ep=1, gemm=None, moe=None, kv=None, version=None):
        logging.disable(logging.WARNING)
        from aiconfigurator_core.sdk.config_builders import build_model_config
        from aiconfigurator_core.sdk.engine import EngineHandle
        from aiconfigurator_core.sdk.models import get_model
        from aiconfigurator_core.sdk.utils import get_model_config_from_model_path
        self.sources, self.fmha = {}, None
        last = None
        for fmha in (None, "bfloat16"):  # a checkpoint's fp8 attention, where the tables have none: 16 bits
            words = dict(tp_size=tp, pp_size=1, attention_dp_size=dp, moe_tp_size=moe_tp, moe_ep_size=moe_ep, gemm_quant_mode=gemm,
                         moe_quant_mode=moe, kvcache_quant_mode=kv, fmha_quant_mode=fmha)
            try:
                self.handle = EngineHandle.compile(model, system, backend, backend_version=version, **words)
                lists = get_model(model, build_model_config(**words), backend)
                self.split(lists.context_ops, lists.generation_ops)
                config = get_model_config_from_model_path(model)["raw_config"]
                self.norm_reduces = self.reduces_of_norms(config, tp)
                self.layers, self.expert_layers = layers_of(config)
                names = [op._name for op in lists.context_ops + lists.generation_ops]
                self.lacking, self.bandwidth = lacking_of(config, tp, names), bandwidth_of(system)
                self.prompts(1, 256, 0, 4, 256)
                self.decodes(4, 256)
                self.fmha = fmha
                return
            except Exception as e:  # pylint: disable=broad-except # the package has some twenty kinds
                last = e
        raise last

    def reduces_of_norms(self, config, tp):
        """All-reduces that the package's list lacks: norms of q and k over all heads (MiniMax), whose squares the shards add up, two
        float32 a token (vLLM: MiniMaxText01RMSNormTP). (How many, the operator with their table, elements of its rows), or None."""
        if tp == 1 or not config.get("use_qk_norm") or config.get("qk_norm_type") != "per_layer" or not self.reduce:
            return None
        return config["num_hidden_layers"], self.reduce, config["hidden_size"]

    def norms(self, tokens):
        if not self.norm_reduces:
            return 0
        times, op, hidden = self.norm_reduces
        return times * self.add(self.handle.evaluate_generation_ops(op, batch_size=-(-4 * tokens // hidden), s=2))  # 16-bit elements

    def beside(self, tokens):
        """Milliseconds of what the list lacks."""
        s = sum(n * (KERNEL_S + tokens * b / (ACTIVATION_EFFICIENCY * self.bandwidth)) for n, b in self.lacking)
        self.sources["formula"] = self.sources.get("formula", 0.0) + 1e3 * s
        return 1e3 * s + self.norms(tokens)

    def split(self, context, generation):
        def kind(op):
            name = op._name
            if "logits" in name:
                return "logits"
            own = type(op).__name__ not in PLAIN and any(x in name for x in OF_SEQUENCES) and "moe" not in name
            return "sequences" if own else "tokens"
        self.context, self.generation = {}, {}
        for ops, into in ((context, self.context), (generation, self.generation)):
            for i, op in enumerate(ops):
                into.setdefault(kind(op), []).append(i)
        self.all_generation = list(range(len(generation)))
        self.reduce = [i for i, op in enumerate(generation) if op._name.endswith("embedding_ar")][:1]
        if not self.context.get("sequences") or not self.generation.get("sequences"):
            raise ValueError("no attention among its operators: " + ", ".join(op._name for op in context))

    def add(self, values):
        for _, ms, _, source in values:
            self.sources[source] = self.sources.get(source, 0.0) + ms
        return sum(v[1] for v in values)

    def decodes(self, n, cached):
        return self.add(self.handle.evaluate_generation_ops(self.all_generation, batch_size=n, s=cached + 1)) + self.beside(n)

    def prompts(self, prompts, chunk, before, n, cached):
        """prompts of `chunk` tokens each, `before` cached; beside n decodes."""
        of, x = self.handle.evaluate_context_ops, prompts * chunk + n
        ms = self.add(of(self.context["tokens"], batch_size=1, s=x, x=x)) + self.beside(x)
        ms += self.add(of(self.context["sequences"], batch_size=prompts, s=chunk, prefix=before))
        if n:
            ms += self.add(self.handle.evaluate_generation_ops(self.generation["sequences"], batch_size=n, s=cached + 1))
        logits = self.generation.get("logits")
        return ms + (self.add(self.handle.evaluate_generation_ops(logits, batch_size=prompts + n, s=2)) if logits else 0)


def chunks_of(tokens, context):
    """(prompts, chunk, cached before) of a batch of about that many tokens that see `context` keys in the mean."""
    if 2 * context < tokens:
        prompts = max(1, round(tokens / (2 * context)))
        return prompts, max(1, round(tokens / prompts)), 0
    return 1, tokens, context - (tokens + 1) // 2


def up_to(values, most):
    """Those of the grid up to the first that reaches it."""
    below = [v for v in values if v < most]
    return below + [v for v in values if v >= most][:1]


def rows_of(engine, prompts_engine, args):
    """(chunk tokens, chunk context, decodes, cached, ms). With an engine for prompts none of the batches has both."""
    context = up_to(CONTEXTS, args.max_context)
    for n in up_to(DECODES, args.max_batch):
        for cached in up_to(CACHED, args.max_context):
            yield 0, 0, n, n * cached, engine.decodes(n, cached)
    for tokens in up_to(TOKENS, args.max_tokens):
        own = (tokens + 1) // 2  # of one prompt
        for mean in sorted(set(c for c in context if c >= tokens / 256) | ({own} if own <= args.max_context else set())):
            b, chunk, before = chunks_of(tokens, mean)
            place = b * chunk, b * (chunk * before + chunk * (chunk + 1) // 2)
            yield *place, 0, 0, (prompts_engine or engine).prompts(b, chunk, before, 0, 0)
            for n in () if prompts_engine else up_to(BESIDE, args.max_batch):
                for cached in up_to(BESIDE_CACHED, args.max_context):
                    yield *place, n, n * cached, engine.prompts(b, chunk, before, n, cached)


def launch_ms(args, engine):
    """Of a batch with prompts."""
    return args.launch_layer_ms * engine.layers + args.launch_experts_ms * engine.expert_layers


def write(args, engine, prompts_engine):
    folder = os.path.join(args.out, "data", "profiling", "compute", args.hardware, args.name)
    if os.path.exists(folder):
        refuse("%s exists already" % folder)
    rows, launch = list(rows_of(engine, prompts_engine, args)), launch_ms(args, engine)
    os.makedirs(folder)
    with open(os.path.join(folder, "iteration.csv"), "w", newline="", encoding="utf-8") as f:
        w = csv.writer(f, lineterminator="\n")
        w.writerow("num_tensor_parallel_workers chunk_tokens chunk_context decode_sequences decode_kv_tokens host_ns launch_ns "
                   "device_ns n host_std_ns device_std_ns".split())
        for tokens, context, n, cached, ms in rows:
            host = 1e6 * args.host_ms + 1e3 * args.host_sequence_us * n if args.host_ms else 0
            launch_ns = 1e6 * launch if tokens else 0
            w.writerow([args.tp, tokens, context, n, cached, round(host + launch_ns), round(launch_ns), round(1e6 * ms), 1, 0, 0])
    total = sum(engine.sources.values())
    meta = {
        "schema_version": 1, "run_type": "vidur_profile", "model": args.name, "hardware_id": args.hardware,
        "method": "composed from tables of operators", "rows": len(rows),
        "notes": [
            "Device time is the sum of operators, as the package composes them; nothing of them was fitted.",
            "Parallel: attention over %d, data parallel %d, experts over %d x %d." % (args.tp, args.dp, args.moe_tp, args.moe_ep),
            *(["Prompts by other devices: attention over %d, data parallel %d, experts over %d x %d." % tuple(args.prompts)] if args.prompts
              else []),
            "Products %s, experts %s, attention %s." % (args.gemm or "as stored", args.moe or "as stored",
                                                        engine.fmha or "as stored"),
            "Host time is assumed: %g ms and %g us per sequence." % (args.host_ms, args.host_sequence_us) if args.host_ms else
            "No host time.",
            *(["Launching of batches with prompts: %g ms, %g of each of %d layers and %g of each of %d with experts." % (
                launch, args.launch_layer_ms, engine.layers, args.launch_experts_ms, engine.expert_layers)] if launch else []),
        ],
        "provenance": {
            "source": "NVIDIA AIConfigurator", "package": "aiconfigurator-core " + importlib.metadata.version("aiconfigurator-core"),
            "model": args.model, "gpu": args.gpu, "backend": args.backend, "importer": VERSION,
            "share_of_time": {k: round(v / total, 4) for k, v in sorted(engine.sources.items())},
        },
    }
    with open(os.path.join(folder, "bundle_meta.json"), "w", encoding="utf-8") as f:
        json.dump(meta, f, indent=2, sort_keys=True)
        f.write("\n")
    return folder


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    p.add_argument("--model", required=True, help="a name that the package knows, or a folder with config.json")
    p.add_argument("--gpu", required=True, help="h100_sxm, h200_sxm, b200_sxm, b300_sxm, gb200, gb300, ...")
    p.add_argument("--backend", required=True, choices=("vllm", "sglang", "trtllm"))
    p.add_argument("--version", help="of the backend; the package's current one when left out")
    p.add_argument("--tp", type=int, default=1, help="devices that share the heads")
    p.add_argument("--dp", type=int, default=1, help="groups of them that share the experts (attention data parallel)")
    p.add_argument("--moe-tp", type=int, default=1, help="devices that share each expert")
    p.add_argument("--moe-ep", type=int, default=1, help="devices that share the experts out whole")
    p.add_argument("--prompts", metavar="TP,DP,MOE_TP,MOE_EP", help="a disaggregated server: degrees of the workers that compute prompts; "
                   "those above are of the workers that decode")
    p.add_argument("--gemm", help="format of products: bfloat16, fp8, fp8_block, nvfp4, ...; the configuration's when left out")
    p.add_argument("--moe", help="and of the experts'")
    p.add_argument("--kv", help="format of the KV cache: bfloat16, fp8")
    p.add_argument("--name", required=True, help="model.name in twinfer")
    p.add_argument("--hardware", required=True, help="hardware.id of the bundle")
    p.add_argument("--max-tokens", type=int, default=16384, help="of the prompts in a batch")
    p.add_argument("--max-batch", type=int, default=512, help="decodes")
    p.add_argument("--max-context", type=int, default=16384, help="tokens of a sequence")
    p.add_argument("--host-ms", type=float, default=1.5, help="host time of an iteration, assumed; 0 = none")
    p.add_argument("--host-sequence-us", type=float, default=15, help="and per sequence")
    p.add_argument("--launch-layer-ms", type=float, default=0, help="launching of a layer of a batch with prompts: 0.75 was measured kernel by "
                   "kernel, 0.29 in pieces (docs/methodology.md)")
    p.add_argument("--launch-experts-ms", type=float, default=0, help="and besides of one with experts: 0.94 kernel by kernel")
    p.add_argument("--out", required=True, help="root to write into: profile.root")
    args = p.parse_args()
    args.prompts = args.prompts and [int(x) for x in args.prompts.split(",")]
    try:
        def engine(degrees):
            return Engine(args.model, args.gpu, args.backend, *degrees, args.gemm, args.moe, args.kv, args.version)
        decodes = engine((args.tp, args.dp, args.moe_tp, args.moe_ep))
        print("bundle          %s" % write(args, decodes, engine(args.prompts) if args.prompts else None))
    except ImportError:
        refuse("needs the package: pip install aiconfigurator-core")
    except Exception as e:  # pylint: disable=broad-except # of the package: no table, unknown model, ...
        refuse(" ".join(str(e).split()))
    print("profile.root    %s" % args.out)


if __name__ == "__main__":
    main()
