#!/usr/bin/env python3
"""How long an all-reduce of bf16 takes on N GPUs of this machine, inside a CUDA graph, as a server's decode steps launch it.

    python3 bench/accuracy/all_reduce.py N [--nccl] >times.csv

By vLLM's communicator where vLLM is installed, which takes its own kernel up to some megabytes and NCCL beyond; --nccl, or without
vLLM: NCCL alone. Columns: bytes, us (median of 20 replays of a graph of 50 all-reduces, of the slowest GPU), by. Needs torch. The
lines that begin with # say what measured.
"""
import os
import socket
import statistics
import sys
import time

SIZES = [1 << k for k in range(10, 27)]  # 1 KiB to 64 MiB
IN_GRAPH, REPLAYS = 50, 20


def by_vllm(rank, world):
    """vLLM's own all-reduce and the context in which it may be captured; None = it is not installed."""
    try:
        from vllm.config import VllmConfig, set_current_vllm_config
        from vllm.distributed import parallel_state
    except ImportError:
        return None
    with set_current_vllm_config(VllmConfig()):
        parallel_state.init_distributed_environment(world, rank, "env://", rank, backend="nccl")
        parallel_state.initialize_model_parallel(world)
    return parallel_state.get_tp_group()


def time_size(torch, dist, reduce, capturing, nbytes):
    x = torch.zeros(nbytes // 2, dtype=torch.bfloat16, device="cuda")
    graph = torch.cuda.CUDAGraph()
    for _ in range(3):
        reduce(x)
    torch.cuda.synchronize()
    dist.barrier()
    with capturing() as stream, torch.cuda.graph(graph, stream=stream):
        for _ in range(IN_GRAPH):
            reduce(x)
    times = []
    for _ in range(REPLAYS + 2):
        dist.barrier()
        torch.cuda.synchronize()
        begin = time.perf_counter()
        graph.replay()
        torch.cuda.synchronize()
        times.append((time.perf_counter() - begin) / IN_GRAPH * 1e6)
    worst = torch.tensor([statistics.median(times[2:])], device="cuda")
    dist.all_reduce(worst, op=dist.ReduceOp.MAX)
    return float(worst)


def work(rank, world, port, nccl):
    import contextlib

    import torch
    import torch.distributed as dist

    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(rank), WORLD_SIZE=str(world), LOCAL_RANK=str(rank))
    torch.cuda.set_device(rank)
    group = None if nccl else by_vllm(rank, world)
    if group is None:
        dist.init_process_group("nccl", rank=rank, world_size=world)

        @contextlib.contextmanager
        def capturing():
            yield torch.cuda.Stream()

        reduce, by = dist.all_reduce, "NCCL"
    else:

        @contextlib.contextmanager
        def capturing():
            with group.graph_capture() if hasattr(group, "graph_capture") else contextlib.nullcontext() as context:
                yield context.stream if context is not None else torch.cuda.Stream()

        reduce, by = group.all_reduce, "vLLM"
    if rank == 0:
        print("# %d x %s, %s, torch %s" % (world, torch.cuda.get_device_name(0), by, torch.__version__), flush=True)
        print("bytes,us,by", flush=True)
    for nbytes in SIZES:
        us = time_size(torch, dist, reduce, capturing, nbytes)
        if rank == 0:
            print("%d,%.3f,%s" % (nbytes, us, by), flush=True)
    dist.destroy_process_group()


def main():
    world = int(sys.argv[1]) if len(sys.argv) > 1 and sys.argv[1].isdigit() else 0
    if world < 2 or sys.argv[2:] not in ([], ["--nccl"]):
        sys.exit(__doc__)
    try:
        import torch
        import torch.multiprocessing as mp
    except ImportError:
        sys.exit("all_reduce.py: no torch in %s: PYTHON names one that has it" % sys.executable)
    if torch.cuda.device_count() < world:
        sys.exit("all_reduce.py: %d GPUs are asked for, torch sees %d" % (world, torch.cuda.device_count()))
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    mp.spawn(work, (world, port, sys.argv[2:] == ["--nccl"]), nprocs=world)


if __name__ == "__main__":
    main()
