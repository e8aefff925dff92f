"""others.py PROGRAM: what programs that no one here wrote give to a GPU; random numbers, nothing is downloaded. The region is the
NVTX range `step`, entered three times, each time with other input; what it computed is printed.

    sort      CuPy: FFT, product, sort, cumsum. Kernels of cub's radix sort cannot be repeated alone.
    moe       PyTorch: grouped products of a mixture of experts; the names of their kernels have kilobytes
    jax       two layers under jit; JAX reserves three quarters of the GPU when it starts
    constants the same with its weights as constants of the program, which lie in a module
    gpt2      GPT-2 XL, 1 token behind none, eager, half: hundreds of kernels of a few microseconds
    resnet    ResNet-50, one image, eager, half"""
import sys
import time

PROGRAM = sys.argv[1]


def region(step, given, synchronize, total):
    import torch

    for i in range(3):
        x = given(i)
        synchronize()
        start = time.time()
        torch.cuda.nvtx.range_push("step")
        out = step(x)
        synchronize(out)
        torch.cuda.nvtx.range_pop()
        print(PROGRAM, "step", i + 1, round((time.time() - start) * 1e3, 2), "ms", flush=True)
    print(PROGRAM, "sum", total(out), flush=True)


def torch_region(step, given):
    import torch

    with torch.no_grad():
        region(step, given, lambda out=None: torch.cuda.synchronize(), lambda out: out.float().sum().item())


def sort():
    import cupy as cp

    n = 1 << 20
    a = cp.random.rand(512, 512, dtype=cp.float32)

    def step(x):
        spectrum = cp.abs(cp.fft.fft(x))
        product = (a @ a.T).sum()
        return cp.cumsum(cp.sort(x)) * spectrum + product

    region(step, lambda i: cp.random.rand(n, dtype=cp.float32), lambda out=None: cp.cuda.Device().synchronize(),
           lambda out: float(out.sum()))


def moe():
    import torch

    experts, tokens, hidden, inner = 8, 512, 1024, 2048
    up = torch.randn(experts, hidden, inner, device="cuda", dtype=torch.bfloat16) / 32
    down = torch.randn(experts, inner, hidden, device="cuda", dtype=torch.bfloat16) / 45
    ends = torch.arange(1, experts + 1, device="cuda", dtype=torch.int32) * (tokens // experts)

    def step(x):
        return torch._grouped_mm(torch.nn.functional.silu(torch._grouped_mm(x, up, offs=ends)), down, offs=ends)

    torch_region(step, lambda i: torch.randn(tokens, hidden, device="cuda", dtype=torch.bfloat16))


def jax(constants=False):
    import jax as j
    import jax.numpy as jnp

    keys = j.random.split(j.random.PRNGKey(0), 5)
    weights = [j.random.normal(k, (2048, 2048), dtype=jnp.bfloat16) / 45 for k in keys[:2]]
    model = j.jit(lambda x, a, b: jnp.tanh(jnp.tanh(x @ a) @ b))
    f = j.jit(lambda x: model(x, *weights)) if constants else lambda x: model(x, *weights)
    given = [j.random.normal(k, (1024, 2048), dtype=jnp.bfloat16) for k in keys[2:]]
    j.block_until_ready(f(given[0]))
    region(f, lambda i: given[i], lambda out=None: j.block_until_ready(out if out is not None else given), lambda out: float(out.sum()))
    print(PROGRAM, "memory", j.devices()[0].memory_stats(), flush=True)


def constants():
    jax(True)


def gpt2():
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    with torch.device("cuda"):
        m = GPT2LMHeadModel(GPT2Config(n_embd=1600, n_layer=48, n_head=25)).to(torch.float16).eval()
    torch_region(lambda x: m(x, use_cache=False).logits, lambda i: torch.randint(0, 1000, (1, 1), device="cuda"))


def resnet():
    import torch
    import torchvision

    m = torchvision.models.resnet50().cuda().half().eval()
    torch_region(m, lambda i: torch.randn(1, 3, 224, 224, device="cuda", dtype=torch.float16))


{"sort": sort, "moe": moe, "jax": jax, "constants": constants, "gpt2": gpt2, "resnet": resnet}[PROGRAM]()
