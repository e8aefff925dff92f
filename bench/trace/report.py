"""Tables from what run_h200.sh left: report.py FOLDER > report.md. Needs NumPy only."""

import glob
import json
import os
import sys

import numpy as np

from spool import Spool

OUT = sys.argv[1]
FOLDERS = sys.argv[2:]  # of traces to describe; none: all that run_h200.sh makes


def load(name):
    try:
        with open(os.path.join(OUT, name)) as f:
            return json.load(f)
    except (OSError, ValueError) as error:
        print(f"\n(no {name}: {error})")
        return None


def spools(folder):
    found = []
    for path in sorted(glob.glob(os.path.join(OUT, "traces", folder, "*.spool"))):
        try:
            found.append((os.path.basename(path), Spool(path)))
        except Exception as error:
            print(f"\n{path}: {error}")
    return found


def overhead(results, part, title):
    r = (results or {}).get(part)
    print(f"\n## {title}\n")
    if not r:
        print("not measured")
        return {}
    print(f"{r['rounds']} rounds of {r['steps']} steps, modes in an order drawn anew each round.\n")
    print("| mode | rounds | ms a step | overhead % | 95 % interval | CPU time % | 95 % interval |\n"
          "|---|---|---|---|---|---|---|")
    for m, v in r["modes"].items():
        print(f"| {m} | {len(v['all_ms'])} | {v['ms']:.3f} | {v['overhead_percent']:+.2f} | "
              f"{v['low_percent']:+.2f} to {v['high_percent']:+.2f} | {v['cpu_percent']:+.2f} | "
              f"{v['cpu_low_percent']:+.2f} to {v['cpu_high_percent']:+.2f} |")
    for m, why in r["failed"].items():
        print(f"\n**{m} failed:** {why}")
    return {m: v["overhead_percent"] for m, v in r["modes"].items()}


def verdict(text, ok):
    print(f"- {'met' if ok else 'MISSED' if ok is not None else 'unknown'}: {text}")


def difference(part, mode, other):
    """Points between two modes' overheads, round by round: the median, its bootstrap interval (95 %),
    and the quartiles of the rounds; wall time, and CPU time in words."""
    words = []
    for what in ("all_ms", "all_cpu_ms"):
        m = {k: v[what] for k, v in part["modes"].items()}
        rounds = [r for r in m[mode] if r in m[other] and r in m["none"]]
        d = np.array([100 * (m[mode][r] - m[other][r]) / m["none"][r] for r in rounds])
        draws = np.random.default_rng(1).choice(d, (2000, len(d)))
        low, high = np.percentile(np.median(draws, axis=1), [2.5, 97.5])
        q = np.percentile(d, [25, 75])
        words.append((float(np.median(d)), f"{np.median(d):+.2f} points ({low:+.2f} .. {high:+.2f}; "
                      f"quartiles of {len(d)} rounds {q[0]:+.2f} .. {q[1]:+.2f})"))
    return words[0][0], f"{words[0][1]}; CPU time {words[1][1]}"


def targets(results):
    e = overhead(results, "eager", "Launch-bound eager forward (Qwen3-0.6B, 8 tokens)")
    with_launches = "ours kernels+nvtx+launches"
    for mode, words in (("ours kernels+nvtx", "kernels + NVTX"),
                        (with_launches, "kernels + NVTX + launch times")):
        if {"bare", mode} <= e.keys():
            d, text = difference(results["eager"], mode, "bare")
            verdict(f"{words} at most 2 points above bare CUPTI: {text}", d <= 2)
    if {with_launches, "torch profiler cpu+cuda"} <= e.keys():
        d, text = difference(results["eager"], with_launches, "torch profiler cpu+cuda")
        verdict(f"below the PyTorch profiler (CPU+CUDA): {text}", d < 0)
    g = overhead(results, "graph", "CUDA-graph decode loop (Qwen3-0.6B, 8 sequences)")
    try: # processes by turns: graph_level.py
        off, on = ([float(x) for x in open(os.path.join(sys.argv[1], f"graph_{k}.txt"))]
                   for k in ("untraced", "traced"))
        d = 100 * (np.median(on) / np.median(off) - 1)
        verdict(f"at most 2 % at graph level: {d:+.2f} % of {np.median(off):.3f} ms ({len(on)} traced "
                f"processes {min(on):.3f} .. {max(on):.3f} ms, {len(off)} others {min(off):.3f} .. "
                f"{max(off):.3f} ms)", d <= 2)
    except (OSError, ValueError) as error:
        print(f"- graph level: not measured ({error})")
    if "ours node level" in g:
        print(f"- node level: {g['ours node level']:+.2f} %")


def agreement(results):
    print("\n## GPU times against the PyTorch profiler's\n")
    a = (results or {}).get("agreement")
    found = spools("overhead")
    if not a or not found:
        print("not measured")
        return
    s = max(found, key=lambda x: len(x[1].kernels))[1]
    ours, torch = {}, {}
    for t0, t1 in a["ours"]:
        for name, d in s.kernels_by_name(t0, t1).items():
            ours.setdefault(name, []).append((len(d), float(d.sum())))
    for r in a["torch"]:
        for name, (n, t) in r.items():
            torch.setdefault(name, []).append((n, t))
    windows = [(s.kernels["start"] >= w["start"]) & (s.kernels["start"] <= w["end"])
               for w in s.windows[1:]]
    counts = [int(w.sum()) for w in windows]
    graphs = [int(((s.graphs["start"] >= w["start"]) & (s.graphs["start"] <= w["end"])).sum())
              for w in s.windows[1:]]
    empty = sum(1 for k, g in zip(counts, graphs) if k + g == 0)
    print(f"{len(counts)} recorded windows, {empty} of them empty; kernels in each: "
          f"{min(counts, default=0)} to {max(counts, default=0)}; "
          f"bare CUPTI saw {results.get('bare_records')}\n")
    demangle = shape_names(ours)
    total = sum(np.mean([t for _, t in v]) for v in ours.values())
    print("| kernel | share % | launches ours / torch | ns ours | ns torch | difference % |")
    print("|---|---|---|---|---|---|")
    worst, missing = 0.0, 0
    for name, v in sorted(ours.items(), key=lambda x: -np.mean([t for _, t in x[1]])):
        share = 100 * np.mean([t for _, t in v]) / total
        if share < 1:
            break
        mine = np.median([t / n for n, t in v])
        other = torch.get(demangle.get(name, name)) or torch.get(name)
        if not other:
            missing += 1
            print(f"| `{demangle.get(name, name)[:70]}` | {share:.1f} | {v[0][0]} / - | "
                  f"{mine:.0f} | not found | |")
            continue
        theirs = np.median([t / n for n, t in other])
        worst = max(worst, abs(100 * (mine / theirs - 1)))
        print(f"| `{demangle.get(name, name)[:70]}` | {share:.1f} | {v[0][0]} / {other[0][0]} | "
              f"{mine:.0f} | {theirs:.0f} | {100 * (mine / theirs - 1):+.3f} |")
    verdict(f"within 0.5 % for names of 1 % or more: worst {worst:.3f} %, {missing} not found",
            worst <= 0.5 and not missing)
    if missing:
        print("\nnames that torch has:", [x[:80] for x in list(torch)[:40]])


def shape_names(names):
    """Demangled as c++filt does, where it is there (PyTorch's names are demangled)."""
    import subprocess

    names = list(names)
    try:
        out = subprocess.run(["c++filt"], input="\n".join(names), capture_output=True, text=True,
                             check=True).stdout.split("\n")
        return dict(zip(names, out))
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"(names are not demangled: {error})\n")
        return {}


def facts(folder):
    print(f"\n## Trace {folder}\n")
    found = spools(folder)
    if not found:
        print("no spool")
        return
    print("| spool | kernels | launches | graphs | ranges | copies | sets | syncs | dropped | bytes | "
          "bytes a kernel | ended |\n|---|---|---|---|---|---|---|---|---|---|---|---|")
    for name, s in found:
        c = s.counts.get
        k = c("kernels", 0)
        print(f"| {name} | {k} | {c('launches', 0)} | {c('graphs', 0)} | {c('ranges', 0)} | "
              f"{c('copies', 0)} | {c('sets', 0)} | {c('syncs', 0)} | "
              f"{int(s.drops['count'].sum())} | {s.bytes} | "
              f"{s.bytes / k if k else float('nan'):.1f} | {s.ended} |")
    for name, s in found:
        for n in s.notes:
            print(f"\n- {name}: {s.strings.get(int(n['text']), '?')}")
        if len(s.kernels):
            details(name, s)


def details(name, s):
    launch = {int(c): i for i, c in enumerate(s.launches["correlation"])}
    at = np.array([launch.get(int(c), -1) for c in s.kernels["correlation"]])
    known = at >= 0
    print(f"\n{name}: {100 * known.mean():.2f} % of kernels have their launch; "
          f"{int((s.kernels['graph_node'] > 0).sum())} kernels are graph nodes; "
          f"{int((s.kernels['end'] < s.kernels['start']).sum())} end before they start")
    if known.any():
        delay = s.kernels["start"][known] - s.launches["start"][at[known]]
        q = np.percentile(delay, [0, 1, 50, 99, 100]) / 1e3
        print(f"kernel start - launch start, us: min {q[0]:.1f}, p1 {q[1]:.1f}, p50 {q[2]:.1f}, "
              f"p99 {q[3]:.1f}, max {q[4]:.1f} (negative: clocks disagree: "
              f"{int((delay < 0).sum())})")
    if len(s.clocks) and s.clocks["cupti"].any():
        c = s.clocks[s.clocks["cupti"] != 0]
        off = c["cupti"] - c["at"]
        print(f"CUPTI clock - CLOCK_MONOTONIC, ns: {off.min()} to {off.max()} over {len(c)} pairs")
    if len(s.costs):
        c = s.costs[-1]
        print(f"own cost: callbacks {c['callback_ns'] / 1e6:.2f} ms in {c['callbacks']} calls, "
              f"writer {c['writer_cpu_ns'] / 1e6:.1f} ms CPU for {c['records']} records, "
              f"{c['memory'] / 2**20:.0f} MiB, at most {c['buffers_peak']} buffers in use")
    per = {}
    for r in s.ranges:
        if r["end"] > 0:
            per.setdefault(s.strings.get(int(r["text"]), "?"), []).append(int(r["end"] - r["start"]))
    for text, d in sorted(per.items(), key=lambda x: -sum(x[1]))[:8]:
        print(f"range {text}: {len(d)} times, median {np.median(d) / 1e6:.3f} ms")


def main():
    print("# Trace on a GPU\n")
    results = load("results.json")
    if results:
        print(f"{results.get('gpu')}, PyTorch {results.get('torch')}")
        if results.get("error"):
            print(f"\n**The benchmark stopped:**\n\n```\n{results['error']}\n```")
    targets(results)
    agreement(results)
    for folder in FOLDERS or ("bloom", "qwen3", "decode", "profiler", "api", "killed", "graph", "nccl"):
        facts(folder)


if __name__ == "__main__":
    main()
