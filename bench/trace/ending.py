"""Programs that end, or are recorded, in a special way: ending.py kill | profiler | graph."""

import os
import signal
import sys
import time

import torch

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../../adapters/workloads"))
import models  # noqa: E402


def work(n):
    x = torch.randn(512, 512, device="cuda")
    for _ in range(n):
        with models.region("step"):
            x = torch.relu(x @ x) / 512
    torch.cuda.synchronize()


def kill():
    """2000 steps, a second to flush them, then the end without any handler."""
    torch.cuda.nvtx.range_push("outer")
    work(2000)
    time.sleep(1.2)
    os.kill(os.getpid(), signal.SIGKILL)


def profiler():
    """Only the middle 100 steps are to be in the trace: 300 kernels or so."""
    work(100)
    torch.cuda.profiler.start()
    work(100)
    torch.cuda.profiler.stop()
    work(100)
    print("profiler: 100 of 300 steps were marked")


def graph():
    """100 replays of one CUDA graph."""
    x = torch.randn(512, 512, device="cuda")
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        torch.relu(x @ x)
    torch.cuda.synchronize()
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        y = torch.relu(x @ x)
        for _ in range(20):
            y = torch.relu(y) + 1
    for _ in range(100):
        with models.region("replay"):
            g.replay()
    torch.cuda.synchronize()
    print("graph: 100 replays of 42 nodes")


if __name__ == "__main__":
    {"kill": kill, "profiler": profiler, "graph": graph}[sys.argv[1]]()
