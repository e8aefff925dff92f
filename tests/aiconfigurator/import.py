"""import.py TWINFER SOURCE: adapters/aiconfigurator.py on tables whose every time is known, and a simulation of the result."""

import csv
import json
import os
import subprocess
import sys
import tempfile

TW, SRC = sys.argv[1], sys.argv[2]
BANDWIDTH, FLOPS = 3350e9, 989e12  # of h100_sxm in the importer
CONFIG = {"model_type": "llama", "vocab_size": 32000, "hidden_size": 1024, "num_hidden_layers": 4, "num_attention_heads": 8,
          "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 3000, "max_position_embeddings": 4096}


def roofline(m, n, k, weight_bytes, speed):
    a, b = n * k * weight_bytes / BANDWIDTH / 0.85, 2.0 * m * n * k / FLOPS / speed / 0.77
    return (a ** 4 + b ** 4) ** 0.25


def prefill_ms(isl):
    return 0.01 + isl * isl * 1e-8


def decode_ms(batch, kv):
    return 0.012 + batch * kv * 1e-6


def tables():
    gemm = [{"gemm_dtype": dtype, "m": m, "n": n, "k": k, "latency": 1.25e3 * roofline(m, n, k, *w)}
            for dtype, w in (("bfloat16", (2, 1)), ("fp8", (1, 2))) for m in (1, 2, 8, 64, 512, 4096)
            for n in (256, 1024, 4096, 65536) for k in (256, 1024, 4096)]
    # Heads of a quarter: four times the sequences stand for the rest.
    head = {"num_heads": 2, "num_key_value_heads": 2, "head_dim": 128, "kv_cache_dtype": "bfloat16", "window_size": 0}
    context = [dict(head, batch_size=b, isl=i, step=0, latency=prefill_ms(i) * b) for b in (1, 4) for i in (1, 16, 256, 4096)]
    generation = [dict(head, batch_size=b, isl=1, step=s, latency=decode_ms(b, s)) for b in (1, 4, 16, 64) for s in (1, 255, 4095)]
    reduce = [{"kernel_source": "vLLM_custom_" + kind, "num_gpus": 2, "message_size": s, "latency": ms + s * 1e-7}
              for kind, ms in (("graph", 0.005), ("eager", 0.02)) for s in (1024, 1 << 20)]
    return {("gemm", "vllm", "gemm_perf"): gemm, ("attention", "vllm", "context_attention_perf"): context,
            ("attention", "vllm", "generation_attention_perf"): generation, ("comm", "vllm", "custom_allreduce_perf"): reduce}


def write_csv(path, rows):
    with open(path + ".csv", "w", newline="", encoding="utf-8") as f:
        w = csv.DictWriter(f, list(rows[0]))
        w.writeheader()
        w.writerows(rows)


def write_parquet(path, rows):
    import pyarrow
    import pyarrow.parquet
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path + ".parquet")


def put(root, write):
    for (family, backend, name), rows in tables().items():
        folder = os.path.join(root, "h100_sxm", family, backend, "0.24.0")
        os.makedirs(folder, exist_ok=True)
        write(os.path.join(folder, name), rows)


def run(*words):
    return subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True, cwd=os.getcwd())


def importer(root, out, *more):
    return run(sys.executable, os.path.join(SRC, "adapters", "aiconfigurator.py"), "--tables", root, "--gpu", "h100_sxm",
               "--backend", "vllm", "--model", "model", "--hardware", "h100", "--out", out, *more)


def simulate(*words):
    return run(TW, "simulate", "model.ref=model", "hardware=h100", "workload=synthetic",
               "workload.arrival.kind=static", "workload.num_requests=1", "workload.lengths.kind=fixed",
               "workload.lengths.prefill_tokens=16", "workload.lengths.decode_tokens=11", *words)


def near(got, want, what, tolerance=1e-6):
    assert abs(got - want) <= tolerance * abs(want), "%s: %r is not %r" % (what, got, want)


def rows_of(out, name):
    with open(os.path.join(out, "data/profiling/compute/h100/model", name), newline="", encoding="utf-8") as f:
        return list(csv.DictReader(f))


def check_tables(out):
    for r in rows_of(out, "mlp.csv"):
        m, tp = int(r["num_tokens"]), int(r["num_tensor_parallel_workers"])
        # 1.25 times the roofline everywhere, so between and beyond the shapes of the table too
        for op, n, k in (("attn_pre_proj", 3072 // tp, 1024), ("attn_post_proj", 1024, 1024 // tp),
                         ("mlp_up_proj", 6000 // tp, 1024), ("mlp_down_proj", 1024, 3000 // tp), ("lm_head", 32000 // tp, 1024)):
            near(float(r["time_stats.%s.median" % op]), 1.25e3 * roofline(m, n, k, 2, 1), "%s of %d" % (op, m))
        near(float(r["time_stats.mlp_act.median"]), 1e3 * (2.5e-6 + 3 * m * (3000 // tp) * 2 / BANDWIDTH / 0.7), "mlp_act")
        assert float(r["time_stats.add.median"]) == 0
    for r in rows_of(out, "attention.csv"):
        chunk, kv, batch = int(r["prefill_chunk_size"]), int(r["kv_cache_size"]), int(r["batch_size"])
        parts = 4 // int(r["num_tensor_parallel_workers"])
        if chunk == 0:
            near(float(r["time_stats.attn_decode.median"]), decode_ms(batch * parts, kv), "decode")
        elif kv == 0:
            near(float(r["time_stats.attn_prefill.median"]), prefill_ms(chunk) * (4 if parts == 4 else 1), "prefill")


def check_simulation(out):
    r = simulate("profile.root=" + out, "out=run-" + os.path.basename(out))
    assert r.returncode == 0, r.stderr
    assert "no times of" not in r.stderr, r.stderr
    shown = dict(line.split(None, 1) for line in r.stdout.splitlines())
    kernels = (2 + 4 + 2 + 4 + 3 * 3000 / 1024 + 4) * 1024 * 2 / BANDWIDTH / 0.7 * 1e3 + 5 * 2.5e-3
    gemms = sum(1.25e3 * roofline(1, n, k, 2, 1) for n, k in ((3072, 1024), (1024, 1024), (6000, 1024), (1024, 3000)))
    rest = 1.25e3 * roofline(1, 32000, 1024, 2, 1) + 3 * 2.5e-3 + (2 * 1024 + 2 * 1024 + 2 * 32000) * 2 / BANDWIDTH / 0.7 * 1e3
    want = 4 * (gemms + kernels + decode_ms(4, 21)) + rest + 1.5 + 0.015
    near(float(shown["tpot_p50_ms"]), want, "TPOT", 0.05)


def check_refusals(root):
    r = importer(root, "out", "--tp", "1,2")
    assert r.returncode != 0 and "exists already" in r.stderr, r.stderr
    r = importer(root, "none", "--tp", "3")
    assert r.stderr == "aiconfigurator: 3 shards do not divide 8 heads\n", r.stderr
    r = importer(root, "none", "--kv", "fp8")
    assert "has no rows of kv_cache_dtype fp8" in r.stderr, r.stderr
    r = importer(root, "none", "--tp", "8")
    assert r.stderr == ("aiconfigurator: context_attention_perf has no rows for 1 heads over 1 KV heads of 128 "
                        "(parallel.tp=8)\n"), r.stderr
    assert not os.path.exists("none")
    r = importer(root, "fp8", "--dtype", "fp8")
    assert r.returncode == 0, r.stderr
    r = simulate("profile.root=fp8", "out=x")
    assert r.returncode == 3 and "holds for weights in fp8, not bf16" in r.stderr, r.stderr
    r = simulate("profile.root=fp8", "model.dtype=fp8", "out=x")
    assert r.returncode == 0, r.stderr
    r = simulate("profile.root=out", "model.dtype=fp8", "out=y")
    assert r.returncode == 3 and "holds for weights in bf16, not fp8" in r.stderr, r.stderr


def check_ratio(root, out):
    """A bundle of the tables against the tables: 1. With one product twice as slow in decode batches: 2 there."""
    def ratios():
        r = run(sys.executable, os.path.join(SRC, "adapters", "aiconfigurator_ratio.py"), "--tables", root, "--gpu", "h100_sxm",
                "--bundle", out, "--hardware", "h100", "--name", "model", "--model", "model")
        assert r.returncode == 0, r.stderr
        cells = [line.strip("| ").split(" | ") for line in r.stdout.splitlines() if line.startswith("| ")]
        return {row[0]: [c.split(" ")[0] for c in row[1:] if c] for row in cells}
    found = ratios()
    for op in ("attn_pre_proj", "lm_head", "attn_prefill", "attn_decode"):
        assert found[op] and all(c == "1.00" for c in found[op]), (op, found)
    path = os.path.join(out, "data/profiling/compute/h100/model/mlp.csv")
    rows = rows_of(out, "mlp.csv")
    for r in rows:
        r["decode_stats.attn_pre_proj.median"] = 2 * float(r["time_stats.attn_pre_proj.median"]) if int(r["num_tokens"]) <= 8 else ""
    write_csv(path[:-len(".csv")], rows)
    found = ratios()
    assert found["attn_pre_proj"][:2] == ["2.00", "2.00"] and found["attn_pre_proj"][-1] == "1.00", found
    assert found["mlp_up_proj"][0] == "1.00", found
    r = run(sys.executable, os.path.join(SRC, "adapters", "aiconfigurator_ratio.py"), "--tables", root, "--bundle", "none",
            "--hardware", "h100", "--model", "model")
    assert r.returncode != 0 and r.stderr.startswith("aiconfigurator_ratio: no bundle none/"), r.stderr


def check():
    os.symlink(os.path.join(SRC, "data"), "data")
    os.mkdir("model")
    with open("model/config.json", "w", encoding="utf-8") as f:
        json.dump(CONFIG, f)
    put("tables", write_csv)
    r = importer("tables", "out", "--tp", "1,2")
    assert r.returncode == 0, r.stderr
    check_tables("out")
    check_simulation("out")
    check_refusals("tables")
    meta = json.load(open("out/data/profiling/compute/h100/model/bundle_meta.json", encoding="utf-8"))
    assert meta["operators"]["mlp_act"]["method"] == "formula" and meta["operators"]["mlp_up_proj"]["method"] == "table"
    assert any("8 heads over 8 KV heads as 2 over 2" in n for n in meta["notes"]), meta["notes"]
    importer("tables", "ours")
    check_ratio("tables", "ours")
    try:
        put("parquet", write_parquet)
    except ImportError:
        print("no pyarrow: CSV alone")
        return
    r = importer("parquet", "same", "--tp", "1,2")
    assert r.returncode == 0, r.stderr
    for name in ("mlp.csv", "attention.csv"):
        assert rows_of("same", name) == rows_of("out", name), name


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    check()
    os.chdir("/")
