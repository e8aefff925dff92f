"""The CUDA-graph decode loop of overhead.py, as it is: graph_level.py appends the milliseconds of a
step (median of so many groups of steps) to a file. Run in turns under `twinfer trace
trace.graphs=graph` and without, as the level at which graphs are recorded is a process's for good."""

import argparse
import os
import statistics
import sys
import time

import torch

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../../adapters/workloads"))
import models  # noqa: E402


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--out", required=True)
    p.add_argument("--groups", type=int, default=15)
    p.add_argument("--steps", type=int, default=100)
    a = p.parse_args()
    model = models.make("qwen3_0_6b", "cuda")
    ids = models.prompt(model, 1, batch=8)

    def forward():
        with torch.no_grad():
            model(input_ids=ids, use_cache=False)

    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(3):
            forward()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        forward()
    times = []
    for _ in range(a.groups + 2):
        torch.cuda.synchronize()
        t = time.perf_counter()
        for _ in range(a.steps):
            with models.region("decode"):
                graph.replay()
        torch.cuda.synchronize()
        times.append(1e3 * (time.perf_counter() - t) / a.steps)
    with open(a.out, "a") as f:
        print(statistics.median(times[2:]), file=f)


if __name__ == "__main__":
    main()
