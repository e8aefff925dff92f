"""iterations.py TWINFER SOURCE: adapters/aiconfigurator_iterations.py on a stand-in of the package whose every time is known, a simulation of
the result, and how bench/accuracy/silicon_all.py reads rows."""

import csv
import json
import os
import shutil
import subprocess
import sys
import tempfile

TW, SRC = sys.argv[1], sys.argv[2]
sys.dont_write_bytecode = True
CONFIG = {"model_type": "qwen3_moe", "vocab_size": 32000, "hidden_size": 256, "num_hidden_layers": 2, "num_attention_heads": 4,
          "num_key_value_heads": 4, "head_dim": 64, "intermediate_size": 512, "moe_intermediate_size": 128, "num_experts": 8,
          "num_experts_per_tok": 2, "max_position_embeddings": 8192, "torch_dtype": "bfloat16"}
# A package of that name: operators whose milliseconds are c + a x + b pairs.
PACKAGE = '''
class GEMM:
    def __init__(self, name, ms): self._name, self.ms = name, ms
class ContextAttention(GEMM): pass
class GenerationAttention(GEMM): pass
'''
MODELS = '''
from aiconfigurator_core.ops import ContextAttention, GEMM, GenerationAttention
class Model:
    context_ops = [GEMM("context_qkv_gemm", lambda b, s, p, x: 0.5 + 0.001 * x),
                   ContextAttention("context_attention", lambda b, s, p, x: 0.1 + 1e-6 * b * s * (p + (s + 1) / 2)),
                   GEMM("context_logits_gemm", lambda b, s, p, x: 1e9)]
    generation_ops = [GEMM("generation_qkv_gemm", lambda b, s, p, x: 0.5 + 0.001 * b),
                      GenerationAttention("generation_attention", lambda b, s, p, x: 0.05 + 1e-6 * b * s),
                      GEMM("generation_logits_gemm", lambda b, s, p, x: 0.2 + 0.002 * b),
                      GEMM("generation_embedding_ar", lambda b, s, p, x: 0.007)]
def get_model(path, config, backend): return Model()
'''
ENGINE = '''
from aiconfigurator_core.sdk.models import Model
class EngineHandle:
    @classmethod
    def compile(cls, model, system, backend, **k):
        if k["gemm_quant_mode"] == "nvfp4": raise ValueError("GEMM perf data missing\\nfor nvfp4")
        return cls()
    def take(self, ops, indices, b, s, p, x):
        return [(ops[i]._name, ops[i].ms(b, s, p, x), 0.0, "silicon") for i in indices]
    def evaluate_context_ops(self, indices, batch_size, s, prefix=0, x=None):
        return self.take(Model.context_ops, indices, batch_size, s, prefix, x or batch_size * s)
    def evaluate_generation_ops(self, indices, batch_size, s):
        return self.take(Model.generation_ops, indices, batch_size, s, 0, batch_size)
'''


def put(path, text):
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)


def stand_in(root):
    put(root + "/aiconfigurator_core/__init__.py", "")
    put(root + "/aiconfigurator_core/ops.py", PACKAGE)
    put(root + "/aiconfigurator_core/sdk/__init__.py", "")
    put(root + "/aiconfigurator_core/sdk/engine.py", ENGINE)
    put(root + "/aiconfigurator_core/sdk/models.py", MODELS)
    put(root + "/aiconfigurator_core/sdk/utils.py", "def get_model_config_from_model_path(path):\n    return {'raw_config': {'use_qk_norm': True, "
        "'qk_norm_type': 'per_layer' if path == 'shards' else 'per_head', 'num_hidden_layers': 10, 'hidden_size': 256, "
        "'num_experts': 8, 'first_k_dense_replace': 1}}\n")
    put(root + "/aiconfigurator_core/sdk/config_builders.py", "def build_model_config(**k): return k\n")
    put(root + "/aiconfigurator_core-0.dist-info/METADATA", "Metadata-Version: 2.1\nName: aiconfigurator-core\nVersion: 0\n")


def adapter(out, *words):
    return subprocess.run([sys.executable, os.path.join(SRC, "adapters", "aiconfigurator_iterations.py"), "--model", "m", "--gpu", "h100_sxm",
                           "--backend", "vllm", "--name", "model", "--hardware", "h100", "--out", out, *words],
                          capture_output=True, text=True, check=False, env=dict(os.environ, PYTHONPATH=os.path.abspath("site")))


def check_rows(root, norms=0.0):
    seen = 0
    with open(root + "/data/profiling/compute/h100/model/iteration.csv", newline="", encoding="utf-8") as f:
        for r in csv.DictReader(f):
            t, p, n, k, ns = (int(r[c]) for c in ("chunk_tokens", "chunk_context", "decode_sequences", "decode_kv_tokens", "device_ns"))
            # what the list lacks: in 9 layers the experts' choice (8 scores read and written), in 10 rotation, keys and values, norms
            want = 0.5 + 0.001 * (t + n) + norms + 39 * 0.0025 + 9 * (t + n) * 16 / (0.7 * 3350e9) * 1e3
            if n:
                want += 0.05 + 1e-6 * (k + n)
            if not t:
                want += 0.007  # the embedding's all-reduce
                want += 0.2 + 0.002 * n
                assert abs(ns - 1e6 * want) <= 1, (r, want)
                continue
            # how many prompts those tokens are shows in the logits alone: 0.002 each
            logits = ns / 1e6 - want - 0.1 - 1e-6 * p - 0.2
            prompts = logits / 0.002 - n
            assert abs(prompts - round(prompts)) < 0.01 and round(prompts) >= 1 and t % round(prompts) == 0, (r, prompts)
            seen += n > 0
    assert seen > 100, seen


def simulate(root, *words, host=False):
    shutil.rmtree("run", ignore_errors=True)
    r = subprocess.run([TW, "simulate", "--json", "log.level=error", "profile.root=" + root, "model.ref=model", "hardware=h100",
                        "scheduler=vllm_0_33", "scheduler.prefix_caching=false", "scheduler.max_model_len=2048", "sim.host_overhead=%s" % str(host).lower(),
                        "workload=synthetic", "workload.lengths.kind=fixed", "workload.lengths.prefill_tokens=500",
                        "workload.lengths.decode_tokens=101", "workload.concurrency=1", "workload.num_requests=4", "out=run", *words],
                       capture_output=True, text=True, check=False)
    return r


def check_simulation(root):
    r = simulate(root)
    assert r.returncode == 0, r.stderr
    d = json.loads(r.stdout)
    ttft = 39 * 0.0025 + 0.5 + 0.5 + 0.1 + 1e-6 * 500 * 250.5 + 0.202
    tpot = 39 * 0.0025 + 0.501 + 0.05 + 1e-6 * 551 + 0.202 + 0.007
    assert abs(d["ttft_mean_ms"] / ttft - 1) < 0.05 and abs(d["tpot_mean_ms"] / tpot - 1) < 0.01, (d["ttft_mean_ms"], ttft, d["tpot_mean_ms"], tpot)


def check_launching():
    """10 layers of 2 ms, 9 of them with experts of 1 ms more: the host launches prompts in 29 ms, beside which the device works."""
    r = adapter("launch", "--host-ms", "0", "--launch-layer-ms", "2", "--launch-experts-ms", "1")
    assert r.returncode == 0, r.stderr
    with open("launch/data/profiling/compute/h100/model/iteration.csv", newline="", encoding="utf-8") as f:
        for r in csv.DictReader(f):
            assert int(r["host_ns"]) == int(r["launch_ns"]) == (29000000 if int(r["chunk_tokens"]) else 0), r
    with open("launch/data/profiling/compute/h100/model/bundle_meta.json", encoding="utf-8") as f:
        meta = json.load(f)
    assert "29 ms" in meta["notes"][-1], meta
    for asynchronous in ("off", "overlap"):
        r = simulate("launch", "scheduler.async_scheduling=" + asynchronous, host=True)
        assert r.returncode == 0, r.stderr
        d = json.loads(r.stdout)
        # no sum with the 1.9 ms of the device, and none of it in decode steps
        assert abs(d["ttft_mean_ms"] - 29) < 0.5 and abs(d["tpot_mean_ms"] - 0.9) < 0.1, (asynchronous, d["ttft_mean_ms"], d["tpot_mean_ms"])
    r = adapter("besides", "--host-ms", "1", "--host-sequence-us", "0", "--launch-layer-ms", "0.1")
    assert r.returncode == 0, r.stderr
    with open("besides/data/profiling/compute/h100/model/iteration.csv", newline="", encoding="utf-8") as f:
        assert all((r["host_ns"], r["launch_ns"]) == (("2000000", "1000000") if int(r["chunk_tokens"]) else ("1000000", "0"))
                   for r in csv.DictReader(f))


def check_rows_of_the_bench(silicon_all):
    def row(**other):
        return dict({"silicon_data_source": "db-dump/2026-04-27; silicon_concurrency=64", "backend": "trtllm", "backend_version": "1.2.0rc6.post2",
                     "model_path": "deepseek-ai/DeepSeek-R1", "gemm_quant_mode": "fp8", "moe_ep_size": "1", "isl": "1024", "osl": "1024",
                     "batch_size": "64"}, **other)

    engines = ("sglang", "trtllm")
    few = {"silicon_data_source": "db-dump/2026-04-27; silicon_concurrency=32"}
    assert silicon_all.launch_of(row(), engines) == "pieces"
    assert silicon_all.launch_of(row(**few), engines) == "kernels"
    assert silicon_all.launch_of(row(osl="8192"), engines) == "kernels"
    assert silicon_all.launch_of(row(gemm_quant_mode="nvfp4"), engines) == "kernels"
    assert silicon_all.launch_of(row(gemm_quant_mode="nvfp4", moe_ep_size="8"), engines) == "pieces"
    assert silicon_all.launch_of(row(backend="sglang"), engines) == "kernels"
    assert silicon_all.launch_of(row(backend="vllm"), engines) == "none"
    assert silicon_all.launch_of(row(backend="vllm"), ("vllm",)) == "kernels"
    assert silicon_all.has_drafts(row(backend_version="1.2.0rc6.post3")) and not silicon_all.has_drafts(row())
    line = dict(model="deepseek-ai/DeepSeek-R1", backend="vllm", gpu="b200_sxm", parallel="tp8 dp1 experts 8x1", osl=1024)
    halves = [silicon_all.half_of(dict(line, isl=1024, concurrency=n)) for n in range(200)]
    assert set(halves) == set(silicon_all.HALVES) and 70 < halves.count("looked at") < 130
    server = ("vllm", "h100_sxm", "m")
    assert silicon_all.sample_of([(server, n) for n in range(7)] + [(server[:2] + ("o",), 0)], 3) == [
        (server, 0), (server, 3), (server, 6), (server[:2] + ("o",), 0)]


def check_reading():
    sys.path.insert(0, os.path.join(SRC, "bench", "accuracy"))
    sys.path.insert(0, os.path.join(SRC, "adapters"))
    import aiconfigurator_iterations as adapter_module
    import silicon_all
    assert adapter_module.chunks_of(8192, 512) == (8, 1024, 0)
    assert adapter_module.chunks_of(1024, 4096) == (1, 1024, 4096 - 512)
    assert adapter_module.up_to((1, 2, 4, 8), 3) == [1, 2, 4]
    assert adapter_module.layers_of({"text_config": {"num_hidden_layers": 5}}) == (5, 0)
    latent = {"num_hidden_layers": 5, "first_k_dense_replace": 2, "n_routed_experts": 16, "num_attention_heads": 8, "head_dim": 4,
              "q_lora_rank": 24, "kv_lora_rank": 8}
    assert adapter_module.layers_of(latent) == (5, 3)
    assert adapter_module.lacking_of(latent, 2, ["context_mla_block"]) == [(3, 32)]  # measured as one, but the experts' choice
    assert adapter_module.lacking_of(latent, 2, ["context_downscale_gemm"]) == [(3, 32), (5, 128), (5, 64.0), (5, 128)]
    hybrid = {"model_type": "qwen3_next", "num_hidden_layers": 8, "full_attention_interval": 4, "num_attention_heads": 8, "head_dim": 4,
              "num_key_value_heads": 2, "attn_output_gate": True, "linear_num_value_heads": 6, "linear_value_head_dim": 4}
    assert adapter_module.lacking_of(hybrid, 2, ["context_gdn_norm", "context_qkv_gemm"]) == [
        (2, 80.0), (2, 32.0), (2, 80.0), (2, 96.0), (6, 72.0)]
    try:
        adapter_module.bandwidth_of("mi300x")
    except ValueError as e:
        assert "mi300x" in str(e)
    else:
        raise AssertionError("the bandwidth of a GPU that no table names")

    def read(*numbers):
        names = ("tp_size", "attention_dp_size", "moe_tp_size", "moe_ep_size")
        return silicon_all.read_parallel(dict(zip(names, numbers)))

    assert read("8", "1", "8", "1") == ((8, 1, 8, 1), None)
    assert read("64", "1", "8", "8") == ((8, 1, 1, 8), None)  # "tp8_ep8"
    assert read("1", "64", "8", "8") == ((1, 8, 1, 8), None)
    assert read("4", "4", "1", "16") == ((1, 4, 1, 4), None)
    assert read("1", "", "2", "1") == ((1, 2, 2, 1), None)
    assert read("2", "0", "0", "0") == ((2, 1, 2, 1), None)
    assert read("36", "1", "36", "1")[0] is None
    check_rows_of_the_bench(silicon_all)


def check():
    stand_in("site")
    put("model/config.json", json.dumps(CONFIG))
    r = adapter("out")
    assert r.returncode == 0, r.stderr
    check_rows("out")
    check_simulation("out")
    r = adapter("out")
    assert r.returncode == 1 and "exists already" in r.stderr, r.stderr
    r = adapter("none", "--gemm", "nvfp4")
    assert r.returncode == 1 and r.stderr == "aiconfigurator_iterations: GEMM perf data missing for nvfp4\n", r.stderr
    assert not os.path.exists("none")
    r = adapter("two", "--tp", "2", "--moe-ep", "2")
    assert r.returncode == 0, r.stderr
    r = adapter("norms", "--tp", "2", "--model", "shards")  # norms over the heads of all shards: an all-reduce a layer
    assert r.returncode == 0, r.stderr
    check_rows("norms", 10 * 0.007)
    r = adapter("apart", "--tp", "2", "--prompts", "1,1,1,1")
    assert r.returncode == 0, r.stderr
    with open("apart/data/profiling/compute/h100/model/iteration.csv", newline="", encoding="utf-8") as f:
        assert not any(int(r["chunk_tokens"]) and int(r["decode_sequences"]) for r in csv.DictReader(f))
    r = simulate("two", "parallel.tp=2", "parallel.ep=2")  # the experts shared out whole by the shards
    assert r.returncode == 0, r.stderr
    r = simulate("two", "parallel.tp=2", "parallel.ep=4")
    assert r.returncode != 0 and "one group of shards" in r.stderr, r.stderr
    check_launching()
    check_reading()


with tempfile.TemporaryDirectory() as folder:
    os.symlink(os.path.join(SRC, "data"), os.path.join(folder, "data"))
    os.chdir(folder)
    check()
    os.chdir("/")
