"""CUDA graphs that exist before recording starts: late_switches.py torch | compile | jax | cupy.

Makes graphs, then switches everything there is to switch over them: an NVTX range "late", the
profiler's start and stop, a pause of the recorder and, while it lasts, PyTorch's own profiler. Says
"lived" at the end. Run by late_switches.sh, which reads what was recorded."""

import ctypes
import os
import sys
import time


class Recorder:
    def __init__(self):
        path = os.environ.get("CUDA_INJECTION64_PATH", "")
        self.lib = ctypes.CDLL(path) if path else None

    def call(self, name):
        return getattr(self.lib, name)() if self.lib else None


def torch_graph():
    import torch

    def make():
        x = torch.randn(256, 256, device="cuda")
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            torch.relu(x @ x)
        torch.cuda.synchronize()
        g = torch.cuda.CUDAGraph()
        with torch.cuda.graph(g):
            y = torch.relu(x @ x)
            for _ in range(5):
                y = torch.relu(y) + 1
        return g.replay

    return make, torch.cuda.synchronize, torch.cuda.nvtx, torch.cuda.profiler


def torch_compile():
    import torch

    def make():
        layers = [torch.nn.Linear(256, 256, device="cuda") for _ in range(4)]
        model = torch.nn.Sequential(*layers)
        compiled = torch.compile(model, mode="reduce-overhead")
        x = torch.randn(64, 256, device="cuda")

        def run():
            with torch.no_grad():
                torch.compiler.cudagraph_mark_step_begin()
                compiled(x)

        for _ in range(4):  # it records its graph in the second or third call
            run()
        return run

    return make, torch.cuda.synchronize, torch.cuda.nvtx, torch.cuda.profiler


def jax_graph():
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    os.environ["XLA_FLAGS"] = ("--xla_gpu_graph_min_graph_size=1 "
                               "--xla_gpu_enable_command_buffer=FUSION,CUBLAS,CUBLASLT,CUSTOM_CALL")
    import jax
    import jax.numpy as jnp
    import torch

    last = [None]

    def make():
        x = jnp.ones((256, 256))
        n = time.time_ns() % 1000

        @jax.jit
        def f(x):
            for _ in range(5):
                x = jnp.tanh(x @ x) + n
            return x

        def run():
            last[0] = f(x)

        for _ in range(3):
            run()
        return run

    return make, lambda: last[0].block_until_ready(), torch.cuda.nvtx, torch.cuda.profiler


def cupy_graph():
    import cupy

    class Ranges:
        range_push = staticmethod(cupy.cuda.nvtx.RangePush)
        range_pop = staticmethod(cupy.cuda.nvtx.RangePop)

    class Profiler:
        start = staticmethod(cupy.cuda.runtime.profilerStart)
        stop = staticmethod(cupy.cuda.runtime.profilerStop)

    stream = cupy.cuda.Stream(non_blocking=True)

    def make():
        x = cupy.ones((256, 256), dtype=cupy.float32)
        y = cupy.empty_like(x)
        with stream:
            cupy.add(x, 1, out=y)
            stream.synchronize()
            stream.begin_capture()
            for _ in range(5):
                cupy.add(x, 1, out=y)
                cupy.multiply(y, 2, out=x)
            g = stream.end_capture()
        return lambda: g.launch(stream)

    return make, stream.synchronize, Ranges, Profiler


def main():
    make, synchronize, ranges, profiler = {
        "torch": torch_graph, "compile": torch_compile, "jax": jax_graph, "cupy": cupy_graph,
    }[sys.argv[1]]()
    recorder = Recorder()
    graphs = [make(), make()]

    def launch(n):
        for _ in range(n):
            for g in graphs:
                g()
        synchronize()

    launch(10)
    time.sleep(0.5)  # a closed gate has rested by now
    ranges.range_push("late")
    launch(10)
    graphs.append(make())
    launch(10)
    ranges.range_pop()
    launch(5)
    time.sleep(0.5)
    for _ in range(3):
        profiler.start()
        launch(10)
        graphs.append(make())
        launch(10)
        synchronize()
        profiler.stop()
        launch(5)
        time.sleep(0.3)
    seen = None
    for _ in range(3):
        recorder.call("tw_trace_pause")
        graphs.append(make())
        launch(5)
        if sys.argv[1] in ("torch", "compile"):
            import torch
            with torch.profiler.profile() as p:
                launch(5)
            seen = sum(e.device_type() == torch.autograd.DeviceType.CUDA
                       for e in p.profiler.kineto_results.events())
            launch(1)
        recorder.call("tw_trace_resume")
        launch(5)
        graphs.append(make())
        ranges.range_push("late")
        launch(5)
        ranges.range_pop()
    print(f"lived; the profiler saw {seen} GPU events in a pause")


if __name__ == "__main__":
    main()
