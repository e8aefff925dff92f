"""figures.py OUT MODE [SECONDS]: what the energy runs OUT/MODE-run-* say, against what is asked for; then what a miss would come from.

Every value of a figure stands in the table, with the number of runs, their mean and their spread (largest less smallest, of the
mean). Exit code 1 where a limit is missed or a figure is not there."""

import glob
import json
import os
import sys


def load(folder, name):
    with open(os.path.join(folder, name), encoding="utf-8") as f:
        return json.load(f)


def find(tree, *path):
    for key in path:
        tree = (tree or {}).get(key)
    return tree


def off(x, of):
    return 100 * (x / of - 1) if x is not None and of else None


def text(v, digits=2):
    return "-" if v is None else f"{v:+.{digits}f}"


class Figures:
    def __init__(self, out, mode):
        self.runs = sorted(glob.glob(os.path.join(glob.escape(out), mode + "-run-[0-9]*")))
        self.runs = [r for r in self.runs if os.path.isfile(os.path.join(r, "gpu_energy_report.json"))]
        self.reports = [load(r, "gpu_energy_report.json") for r in self.runs]
        self.metas = [load(r, "run_meta.json") for r in self.runs]
        self.first = load(self.runs[0], "isolated_kernels_timing.json")["kernels"] if self.runs else []
        self.missed = 0

    def row(self, what, values, limit, unit="%"):
        """One figure: each |value| must be at most limit; None: it is only told."""
        known = [v for v in values if v is not None]
        mean = sum(known) / len(known) if known else None
        spread = max(known) - min(known) if known else None
        good = len(known) == len(values) > 0 and all(abs(v) <= limit for v in known) if limit is not None else True
        self.missed += not good
        verdict = "" if limit is None else "ok" if good else "MISS" if known else "NOT THERE"
        asked = "" if limit is None else f"+-{limit:g} {unit}"
        print(f"{what:46} {len(known):2d}  {text(mean):>9} {unit:3} {text(spread).lstrip('+'):>8}  {asked:>9}  {verdict:9} "
              + " ".join(text(v) for v in values))

    def spread_row(self, what, values, limit):
        known = [v for v in values if v is not None]
        spread = 100 * (max(known) - min(known)) * len(known) / sum(known) if known and sum(known) else None
        self.row(what, [spread if len(known) > 1 else None], limit)

    def of(self, *path):
        return [find(r, *path) for r in self.reports]

    def meta(self, *path):
        return [find(m, *path) for m in self.metas]


def table(f, mode, seconds):
    app = ("in_context", "application")
    print(f"{'figure':46} {'n':>2}  {'mean':>9}     {'spread':>8}  {'asked':>9}  {'':9} each")
    eager = any(find(m, "region", "as_launched_sum_us") for m in f.metas) # a program without graphs
    f.row("times: replayed / application, summed",
          [off(find(m, "region", "in_context_sum_us"), find(m, "region", "application_sum_us")) for m in f.metas], 5 if eager else 3)
    if eager:
        f.row("  launched one by one, as by the application",
              [off(find(m, "region", "as_launched_sum_us"), find(m, "region", "application_sum_us")) for m in f.metas], 3)
    f.row("  graph's wall time / its operations summed",
          [off(find(m, "region", "region_us"), find(m, "region", "in_context_sum_us")) for m in f.metas], None)
    f.row("energy: predicted / application", f.of(*app, "error_percent"), 3)
    f.row("energy above idle: predicted / application", f.of(*app, "above_idle_error_percent"), 5 if mode == "llama_compile" else 10)
    f.spread_row("repeats: measured energy of a step", f.of(*app, "measured_energy_j"), 2)
    f.spread_row("repeats: predicted energy of a step", f.of(*app, "predicted_energy_j"), 2)
    if seconds is not None:
        f.row("seconds of all", [seconds], 480, "s")


def short(v, unit=""):
    return "-" if v is None else f"{v:.1f}".removesuffix(".0") + unit


def windows(f):
    """Powers, clocks and temperatures of every window: a few lines a run."""
    for i, (r, m) in enumerate(zip(f.reports, f.metas)):
        kernels = [k for k in r["per_kernel_energies"] if k.get("sm_mhz")]
        clocks = sorted(k["sm_mhz"] for k in kernels) or [None]
        hot = max([k["celsius_high"] for k in kernels if k.get("celsius_high")], default=None)
        app, whole = r.get("application") or {}, r["full_model"]
        print(f"  run {i + 1}: idle " + ", ".join(
            f"{short(find(m, key, 'idle_power_w'))} W {short(find(m, key, 'under', 'celsius_high'))} C {when}"
            for key, when in (("idle_before", "before"), ("idle_after", "after")))
              + f", {short(app.get('idle_power_w'))} W beside the application")
        print(f"    application {short(app.get('mean_power_w'))} W; region {short(whole.get('mean_power_w'))} W, SM"
              f" {short(whole.get('sm_mhz'))} MHz, {short(whole.get('celsius_high'))} C; kernels alone {short(clocks[0])} to"
              f" {short(clocks[-1])} MHz, {short(hot)} C; held by: {whole.get('clock_limits') or 'nothing'}")


def repeats(f, k):
    """How a kernel was repeated, where that is not just the kernel, as often as it likes."""
    timing = next((t for t in f.first if t["name"] == k["name"] and t["invocation_count"] == k["invocation_count"]
                   and t.get("start_timestamp") == k.get("start_timestamp")), {})
    words = ["pool"] if k.get("pooled") else []
    if timing.get("with_sets"):
        share = short(100 * timing["sets_share"], " %") if timing.get("sets_share") else "-"
        words.append(f"with its sets ({timing['with_sets']} in the region), {share} of the loop")
    if timing.get("faster_when_repeated"):
        words.append("FASTER WHEN REPEATED")
    return "  " + ", ".join(words) if words else ""


def kernels(f):
    """The classes that take most time, of the first run: where the prediction of the region is made."""
    print("  kernel (first run)                    count  in context us  alone us  running   power W      +-   MHz")
    for k in sorted(f.reports[0]["per_kernel_energies"],
                    key=lambda k: -(k.get("in_context_us") or 0) * k["invocation_count"])[:10]:
        low = (k.get("steady_power_interval_w") or [None])[0]
        half = k["steady_power_w"] - low if low is not None else None
        print(f"  {k['name'][:36]:36} {k['invocation_count']:6d}  {short(k.get('in_context_us')):>13}  {short(k.get('single_time_us')):>8}"
              f"  {short(100 * k['busy_share'] if k.get('busy_share') else None, ' %'):>7}  {short(k.get('steady_power_w')):>8}"
              f"  {short(half):>6}  {short(k.get('sm_mhz')):>4}{repeats(f, k)}")


def apart(ops, key):
    """Sum over operations, in us, of how much longer they are than in the application; None: one is not known."""
    known = [k["invocation_count"] * (k[key] - k["application_us"]) for k in ops if k.get(key) is not None]
    return sum(known) if known and len(known) == len(ops) else None


def differences(f):
    """Where the replay's times differ from the application's: by as much each, or in proportion to them."""
    ops = [k for k in f.first if k.get("application_us") is not None]
    if not ops:
        print("  no times of kernels in the application")
        return

    def line(name, some):
        n = sum(k["invocation_count"] for k in some)
        app = sum(k["invocation_count"] * k["application_us"] for k in some)
        sums = [apart(some, key) for key in ("in_context_us", "as_launched_us")]
        print(f"  {name[:38]:38} {n:6d}  {app / n:11.3f}" + "".join(
            f"  {text(v, 1):>9}  {text(v / n if v is not None else None, 3):>8}" for v in sums))

    print("  replay less application, us (first run) count  application   in graph      each   launched      each")
    for name, low, high in (("operations under 1.5 us", 0, 1.5), ("1.5 to 3 us", 1.5, 3), ("3 to 10 us", 3, 10),
                            ("over 10 us", 10, float("inf"))):
        some = [k for k in ops if low <= k["application_us"] < high]
        if some:
            line(name, some)
    for k in sorted(ops, key=lambda k: -abs(apart([k], "in_context_us") or 0))[:8]:
        line(k["name"], [k])


def causes(f):
    """Which piece of the prediction is off: each is checked against something that the others are not in."""
    print("where a miss comes from (means)")

    def mean(values):
        known = [v for v in values if v is not None]
        return sum(known) / len(known) if known else None

    app, whole = ("in_context", "application"), ("in_context", "full_model")
    rows = [
        ("powers of kernels: region alone, predicted / measured", mean(f.of(*whole, "error_percent")), "%"),
        ("  above idle", mean(f.of(*whole, "above_idle_error_percent")), "%"),
        ("  with the loops' gaps as if they were kernels", mean(f.of(*whole, "at_loop_power_error_percent")), "%"),
        ("  and of the application", mean(f.of(*app, "at_loop_power_error_percent")), "%"),
        ("  above idle", mean(f.of(*app, "at_loop_power_above_idle_error_percent")), "%"),
        ("  part of their loops in which kernels ran", 100 * (mean(f.of("isolated_kernels", "busy_share")) or 0), "%"),
        ("the system before: windows summed / region", mean(f.of("comparison", "error_percent")), "%"),
        ("times: region's graph", mean(f.meta("region", "region_us")), "us"),
        ("  its operations inside it, summed", mean(f.meta("region", "in_context_sum_us")), "us"),
        ("  the same, launched as by the application", mean(f.meta("region", "as_launched_sum_us")), "us"),
        ("  alone, warm, with gaps, summed", mean(f.meta("region", "alone_sum_us")), "us"),
        ("  in the application, summed", mean(f.meta("region", "application_sum_us")), "us"),
        ("a step of the application", mean(f.of("application", "inference_us")), "us"),
        ("  of that no kernel, by the replay's times", mean(f.of(*app, "gap_us")), "us"),
        ("idle power taken for it", mean(f.of(*app, "idle_power_w")), "W"),
        ("application by samples / by the counter",
         mean([off(find(r, "application", "energy_per_inference_j"), find(r, "application", "counter_energy_per_inference_j"))
               for r in f.reports]), "%"),
    ]
    for what, v, unit in rows:
        print(f"  {what:56} {'-' if v is None else f'{v:.2f}':>10} {unit}")
    windows(f)
    kernels(f)
    differences(f)
    for note in sorted({n for r in f.reports for n in r.get("notes", [])}):
        print("  note: " + note)


def main():
    out, mode = sys.argv[1], sys.argv[2]
    f = Figures(out, mode)
    print(f"{mode}: {len(f.runs)} runs")
    table(f, mode, float(sys.argv[3]) if len(sys.argv) > 3 else None)
    if not f.runs: # each figure is told as not there
        return 1
    causes(f)
    return 1 if f.missed else 0


sys.exit(main())
