"""Programs that end, or are recorded, in a special way: ending.py kill | server | profiler | graph."""

import os
import signal
import subprocess
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


def server():
    """A server that kills its worker 30 ms after the answer to the last of 20 batches, 100 steps each, 0.2 s apart."""
    worker = subprocess.Popen([sys.executable, __file__, "worker"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    for _ in range(20):
        worker.stdin.write("batch\n")
        worker.stdin.flush()
        print("server:", worker.stdout.readline().strip())
        time.sleep(0.2)
    worker.stdin.write("batch\n")
    worker.stdin.flush()
    worker.stdout.readline()
    time.sleep(0.03)
    worker.kill()
    worker.wait()
    print("server: 21 batches of 300 kernels and some at the start")


def worker():
    for line in sys.stdin:
        work(100)
        print("done", flush=True)


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
    {"kill": kill, "server": server, "worker": worker, "profiler": profiler, "graph": graph}[sys.argv[1]]()
