#!/usr/bin/env python3
"""compare.py TWINFER SOURCE [CASES [FIRST]]: does the simulator follow Vidur's rules where no published run leads?

Random workloads on random settings (policy, pipeline stages, replicas, router, little memory, so that requests are
preempted): the program with predictor=vidur_tables and made-up tables, and rules.py, must agree on every metric of
every request within 2 ns, and on its restarts."""
import csv
import os
import random
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import rules

MOST_TOKENS, MOST_KV, MOST_BATCH, MOST_CHUNK = 9000, 1600, 32, 1600


def write_tables(folder):
    def table(name, header, rows):
        with open("%s/%s.csv" % (folder, name), "w") as f:
            f.write(header + ",prediction\n")
            f.writelines("%s,%r\n" % row for row in rows)

    os.mkdir(folder)
    for i, name in enumerate(rules.OPERATORS):
        table(name, "num_tokens", (("%d" % n, rules.token_ms(i, n)) for n in range(0, MOST_TOKENS + 1, 8)))
    table("send_recv", "num_tokens", (("%d" % n, rules.send_ms(n)) for n in range(0, MOST_TOKENS + 1, 8)))
    table("attn_kv_cache_save", "num_tokens", (("%d" % n, rules.save_ms(n)) for n in range(MOST_TOKENS + 1)))
    table("attn_decode", "batch_size,kv_cache_size",
          (("%d,%d" % (b, kv), rules.decode_ms(b, kv)) for b in range(1, MOST_BATCH + 1)
           for kv in range(0, MOST_KV + 1, 64)))
    table("attn_prefill", "kv_cache_size,prefill_chunk_size_squared",
          (("%d,%d" % (kv, c * c), rules.prefill_ms(kv, c)) for kv in range(0, MOST_KV + 1, 64)
           for c in range(1, MOST_CHUNK + 1)))


def random_case(seed):
    r = random.Random(seed)
    policy = sorted(rules.POLICIES)[seed % len(rules.POLICIES)]
    light = policy == "lightllm"
    case = {"policy": policy, "layers": 48, "pp": 1 if light else r.choice([1, 2, 3, 4]), "cap": r.choice([4, 6, 16, 32]),
            "block_size": 1 if light else 16, "replicas": r.choice([1, 1, 2, 3]), "router": r.choice(["round_robin", "lor"]),
            "watermark": r.choice([0, 0.01, 0.1]), "max_tokens": r.choice([200, 600, 4000]),
            "chunk": r.choice([32, 64, 128, 512]), "max_waiting": r.choice([2, 10]), "longest": 352,
            "blocks": r.choice([40, 60, 100, 400]) * (16 if light else 1)}
    rate, at, trace = r.choice([2, 10, 50, 1000]), 0.0, []
    for _ in range(r.choice([10, 40])):
        at += r.expovariate(rate)
        trace.append((at, r.randint(1, 280), r.randint(1, 70)))
    return case, trace


def simulate(twinfer, source, folder, case, trace):
    with open(folder + "/trace.csv", "w") as f:
        f.write("arrived_at,num_prefill_tokens,num_decode_tokens\n")
        f.writelines("%r,%d,%d\n" % row for row in trace)
    words = {"model": "codellama_34b", "predictor": "vidur_tables", "predictor.tables": folder + "/tables",
             "workload.trace": folder + "/trace.csv", "scheduler": case["policy"],
             "scheduler.batch_cap": case["cap"], "scheduler.block_size": case["block_size"],
             "scheduler.num_blocks": case["blocks"], "parallel.pp": case["pp"], "cluster.replicas": case["replicas"],
             "cluster.router": case["router"], "output.vidur_metrics": "true", "output.tokens": "none",
             "out": folder + "/run"}
    knobs = {"watermark": ("vllm", "sarathi"), "max_tokens_in_batch": ("vllm", "lightllm"), "chunk_size": ("sarathi",),
             "max_waiting_iters": ("lightllm",), "max_model_len": ("orca", "faster_transformer")}
    values = (case["watermark"], case["max_tokens"], case["chunk"], case["max_waiting"], case["longest"])
    for (knob, policies), value in zip(knobs.items(), values):
        if case["policy"] in policies:
            words["scheduler." + knob] = value
    subprocess.run(["rm", "-rf", folder + "/run"], check=True)
    ran = subprocess.run([twinfer, "simulate", *("%s=%s" % word for word in words.items())], cwd=source,
                         capture_output=True, text=True)
    if ran.returncode:
        raise SystemExit("%s\nexit %d: %s" % (case, ran.returncode, ran.stderr))
    with open(folder + "/run/request_metrics_vidur.csv", newline="") as f:
        return {int(row["Request Id"]): row for row in csv.DictReader(f)}


def difference(requests, rows):
    for q in requests:
        for name, value in rules.metrics(q).items():
            got = float(rows[q.ident][name])
            if abs(got - value) > 2e-9:
                return "request %d: %s is %.9f, not %.9f" % (q.ident, name, got, value)
    return None


def main():
    twinfer, source = os.path.abspath(sys.argv[1]), sys.argv[2]
    cases, first = (int(w) for w in (sys.argv[3:] + ["100", "0"][len(sys.argv) - 3:])[:2])
    wrong = restarts = 0
    with tempfile.TemporaryDirectory() as folder:
        write_tables(folder + "/tables")
        for seed in range(first, first + cases):
            case, trace = random_case(seed)
            requests = rules.Cluster(case, trace).run()
            restarts += sum(q.restarts for q in requests)
            bad = difference(requests, simulate(twinfer, source, folder, case, trace))
            if bad:
                wrong += 1
                print("case %d %s\n    %s" % (seed, case, bad))
    print("%d cases, %d restarts, %d wrong" % (cases, restarts, wrong))
    return 1 if wrong or cases and restarts == 0 else 0


sys.exit(main())
