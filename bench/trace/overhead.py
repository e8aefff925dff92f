"""What recording costs, modes interleaved inside one process, and whether the GPU times agree with
the PyTorch profiler's.

    twinfer trace out=DIR -- python3 bench/trace/overhead.py --results results.json

Each round measures the modes once, in an order drawn anew (those that are slow to start in every
tenth round); the recorder is paused and resumed (tw_trace_pause, tw_trace_resume) in between. A
mode's overhead is the median over rounds of time / time without recording in that round, minus 1,
with a bootstrap interval (95 %): of the wall time of a step, and of the CPU time that the whole
process spends on it."""

import argparse
import ctypes
import gc
import json
import os
import random
import statistics
import sys
import time
import traceback

import torch

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../../adapters/workloads"))
import models  # noqa: E402


class Guest:
    def __init__(self):
        path = os.environ.get("CUDA_INJECTION64_PATH", "")
        if not path:
            raise SystemExit("overhead.py: run it under twinfer trace")
        self.lib = ctypes.CDLL(path)

    def pause(self):
        return self.lib.tw_trace_pause()

    def resume(self):
        return self.lib.tw_trace_resume()

    def flush(self):
        return self.lib.tw_trace_flush()

    def configure(self, **settings):
        pairs = [x for k, v in settings.items() for x in (k.encode(), str(v).encode())]
        if not self.lib.tw_trace_configure((ctypes.c_char_p * (len(pairs) + 1))(*pairs, None)):
            raise RuntimeError(f"the recorder refused {settings}")


class Bare:
    """CUPTI kernel records and nothing else."""

    def __init__(self, path):
        self.lib = ctypes.CDLL(path)
        self.lib.bare_stop.restype = ctypes.c_uint64
        self.cupti = next((line.split()[-1] for line in open("/proc/self/maps")
                           if "libcupti.so" in line), None)
        self.records = []

    def start(self):
        error = self.lib.bare_start(self.cupti.encode())
        if error:
            raise RuntimeError(f"bare CUPTI: error {error}")

    def start_with_callbacks(self):
        """And empty callbacks of the launching calls: what CUPTI takes for calling anybody."""
        self.start()
        error = self.lib.bare_subscribe()
        if error:
            raise RuntimeError(f"bare CUPTI: error {error} from cuptiSubscribe")

    def stop(self):
        self.records.append(self.lib.bare_stop())


FULL = dict(kernels=1, copies=1, sync=1, nvtx=1, launches=1, api="none")


def ours(guest, step, **changes):
    """PyTorch's profiler lets go of CUPTI some CUDA calls after its stop: ask again then."""
    def start():
        guest.configure(**{**FULL, **changes})
        for _ in range(20):
            got = guest.resume()
            if got == 1:
                return
            guest.pause()
            step()
            torch.cuda.synchronize()
        raise RuntimeError(f"the recorder did not resume with all it needs: {got}")

    return start, guest.pause


def profiler(activities):
    holder = []

    def start():
        holder.append(torch.profiler.profile(activities=activities))
        holder[-1].start()

    def stop():
        holder.pop().stop()

    return start, stop


def measure(step, start, stop, steps, single, warm):
    """Seconds of a step and CPU seconds of the process for it: of `steps` in a row, or (single) the
    median of steps one by one, as a stall of the machine hits some of them."""
    start()
    try:
        for _ in range(warm):
            step()
        torch.cuda.synchronize()
        times = []
        cpu = time.process_time()
        for _ in range(steps if single else 1):
            t = time.perf_counter()
            for _ in range(1 if single else steps):
                step()
            torch.cuda.synchronize()
            times.append(time.perf_counter() - t)
        cpu = time.process_time() - cpu
        return statistics.median(times) / (1 if single else steps), cpu / steps
    finally:
        stop()


def interval(values):
    """95 % bootstrap interval of the median."""
    draw = random.Random(1)
    medians = sorted(statistics.median(draw.choices(values, k=len(values))) for _ in range(1000))
    return medians[25], medians[974]


def overheads(values, base):
    ratio = [100 * (values[r] / base[r] - 1) for r in values if r in base]
    return (statistics.median(ratio), *interval(ratio))


def compare(name, step, modes, rounds, steps, log, single=False, rare=(), warm=3):
    for _ in range(5):
        step()
    torch.cuda.synchronize()
    wall = {m: {} for m in modes}  # mode -> round -> seconds
    cpu = {m: {} for m in modes}
    failed = {}
    for r in range(rounds):
        order = [m for m in modes if m not in rare or r % 10 == 0]
        random.Random(r).shuffle(order)
        for m in order:
            if m in failed:
                continue
            try:
                wall[m][r], cpu[m][r] = measure(step, *modes[m], steps, single, warm)
            except Exception as error:  # a mode that fails must not lose the others
                failed[m] = f"{type(error).__name__}: {error}"
                log(f"{name}: mode {m} failed in round {r}: {traceback.format_exc()}")
    out = {"rounds": rounds, "steps": steps, "failed": failed, "modes": {}}
    for m, t in wall.items():
        if m in failed or not t:
            continue
        middle, low, high = overheads(t, wall["none"])
        cpu_middle, cpu_low, cpu_high = overheads(cpu[m], cpu["none"])
        out["modes"][m] = dict(
            ms=1e3 * statistics.median(t.values()), overhead_percent=middle,
            low_percent=low, high_percent=high, cpu_percent=cpu_middle,
            cpu_low_percent=cpu_low, cpu_high_percent=cpu_high,
            all_ms={r: 1e3 * x for r, x in t.items()},
            all_cpu_ms={r: 1e3 * x for r, x in cpu[m].items()})
        log(f"{name}: {m:28s} {1e3 * statistics.median(t.values()):9.3f} ms  "
            f"{middle:+7.2f} %  [{low:+.2f}, {high:+.2f}]  "
            f"CPU {cpu_middle:+7.2f} %  [{cpu_low:+.2f}, {cpu_high:+.2f}]")
    return out


def nothing():
    return (lambda: None), (lambda: None)


def eager(guest, bare, rounds, steps, log, batch_tokens=8):
    model = models.make("qwen3_0_6b", "cuda")
    ids = models.prompt(model, batch_tokens)

    def step():
        with torch.no_grad(), models.region("forward"):
            model(input_ids=ids, use_cache=False)

    both = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    modes = {
        "none": nothing(),
        "bare": (bare.start, bare.stop) if bare else None,
        "bare+empty callbacks": (bare.start_with_callbacks, bare.stop) if bare else None,
        "ours kernels only": ours(guest, step, copies=0, sync=0, nvtx=0, launches=0),
        "ours kernels+nvtx": ours(guest, step, copies=0, sync=0, launches=0),
        "ours kernels+nvtx+launches": ours(guest, step, copies=0, sync=0),
        "ours all": ours(guest, step),
        "ours all+runtime api": ours(guest, step, api="runtime"),
        "torch profiler cuda": profiler(both[1:]),
        "torch profiler cpu+cuda": profiler(both),
    }
    modes = {k: v for k, v in modes.items() if v}
    rare = [m for m in modes if m.startswith("torch")]
    return compare("eager", step, modes, rounds, steps, log, single=True, rare=rare, warm=1), step


def graph_loop(guest, bare, rounds, steps, log):
    """Every mode replays a graph that was captured and instantiated under that mode: CUPTI sees
    nodes only of graphs that were made while it looked. Graph level is a process's for good:
    graph_level.py measures it."""
    model = models.make("qwen3_0_6b", "cuda")
    ids = models.prompt(model, 1, batch=8)
    current = {}

    def forward():
        with torch.no_grad():
            model(input_ids=ids, use_cache=False)

    def step():
        with models.region("decode"):
            current["graph"].replay()

    def capture():
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            forward()
        graph.replay()
        torch.cuda.synchronize()
        return graph

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            forward()
    torch.cuda.current_stream().wait_stream(side)
    modes = {
        "none": nothing(),
        "ours node level": ours(guest, forward),
        "bare": (bare.start, bare.stop) if bare else None,
    }
    with_graph = {}
    for name, pair in modes.items():
        if not pair:
            continue
        start, stop = pair
        start()
        graph = capture()
        stop()

        def start_with(start=start, graph=graph):
            current["graph"] = graph
            start()

        with_graph[name] = (start_with, stop)
        current.setdefault("graph", graph)
    return compare("graph", step, with_graph, rounds, steps * 5, log)


def agreement(guest, step, rounds, steps, log):
    """Our times and the profiler's, alternating: rows for agreement.json. Our kernels are found in
    the spool by the time window of each round."""
    out = {"ours": [], "torch": [], "rounds": rounds, "steps": steps}
    start, stop = ours(guest, step)
    for r in range(rounds):
        start()
        step()
        torch.cuda.synchronize()
        t0 = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        for _ in range(steps):
            step()
        torch.cuda.synchronize()
        t1 = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        stop()
        out["ours"].append([t0, t1])
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as p:
            for _ in range(steps):
                step()
            torch.cuda.synchronize()
        sums = {}
        for e in p.profiler.kineto_results.events():
            if e.device_type() == torch.autograd.DeviceType.CUDA:
                n, t = sums.get(e.name(), (0, 0.0))
                sums[e.name()] = (n + 1, t + e.duration_ns())
        out["torch"].append({k: list(v) for k, v in sums.items()})
        log(f"agreement: round {r}: torch saw {sum(n for n, _ in sums.values())} GPU events")
    return out


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--results", required=True)
    p.add_argument("--bare", help="path of libbare_cupti.so")
    p.add_argument("--rounds", type=int, default=9)
    p.add_argument("--steps", type=int, default=20)
    p.add_argument("--eager", type=int, metavar="ROUNDS", help="only the eager forward, so often")
    a = p.parse_args()
    lines = []

    def log(text):
        lines.append(text)
        print(text, flush=True)

    guest = Guest()
    gc.disable()
    torch.zeros(1, device="cuda")
    log(f"torch {torch.__version__}, {torch.cuda.get_device_name(0)}, "
        f"CUPTI {[x.split()[-1] for x in open('/proc/self/maps') if 'libcupti' in x][:1]}")
    log(f"paused: {guest.pause()}")
    bare = None
    try:
        bare = Bare(a.bare) if a.bare else None
    except OSError as error:
        log(f"no bare CUPTI mode: {error}")
    results = {"torch": torch.__version__, "gpu": torch.cuda.get_device_name(0)}
    try:
        results["eager"], step = eager(guest, bare, a.eager or 10 * a.rounds, 4, log)
        results["bare_records"] = bare.records if bare else None
        if not a.eager:
            results["agreement"] = agreement(guest, step, a.rounds, a.steps, log)
            results["graph"] = graph_loop(guest, bare, a.rounds, a.steps, log)
    except Exception:
        log(traceback.format_exc())
        results["error"] = traceback.format_exc()
    results["log"] = lines
    with open(a.results, "w") as f:
        json.dump(results, f, indent=1)


if __name__ == "__main__":
    main()
