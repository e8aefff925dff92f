"""Programs to capture, with random weights: python3 app.py bloom|qwen3|compile|triton|cupy|cupy_async. The region is the
NVTX range "step", entered three times; what it computed is printed, so that a captured run can be compared with one that
was not."""
import sys
import time

MODE = sys.argv[1]
if not MODE.startswith("cupy"):
    import torch

DEVICE = "cuda"


def region(step, times=3):
    with torch.no_grad():
        for i in range(times):
            torch.cuda.synchronize()
            start = time.time()
            torch.cuda.nvtx.range_push("step")
            out = step()
            torch.cuda.nvtx.range_pop()
            torch.cuda.synchronize()
            print(MODE, "step", i + 1, round((time.time() - start) * 1e3, 2), "ms", flush=True)
        print(MODE, "sum", out.float().sum().item(), flush=True)


def bloom():
    """BLOOM-560M, 5 tokens, eager."""
    from transformers import BloomConfig, BloomForCausalLM
    with torch.device(DEVICE):
        m = BloomForCausalLM(BloomConfig(vocab_size=250880, hidden_size=1024, n_layer=24, n_head=16)).to(torch.bfloat16)
    ids = torch.randint(0, 1000, (1, 5), device=DEVICE)
    region(lambda: m(ids, use_cache=False).logits)


def qwen3_of(layers):
    from transformers import Qwen3Config, Qwen3ForCausalLM
    with torch.device(DEVICE):
        return Qwen3ForCausalLM(Qwen3Config(
            vocab_size=151936, hidden_size=1024, intermediate_size=3072, num_hidden_layers=layers, num_attention_heads=16,
            num_key_value_heads=8, head_dim=128, tie_word_embeddings=True)).to(torch.bfloat16)


def qwen3():
    """Qwen3-0.6B, 512 tokens, eager."""
    m = qwen3_of(28)
    ids = torch.randint(0, 1000, (1, 512), device=DEVICE)
    region(lambda: m(ids, use_cache=False).logits)


def compiled():
    """Four layers of Qwen3-0.6B, 16 tokens, torch.compile with CUDA graphs."""
    m = qwen3_of(4)
    f = torch.compile(lambda i: m(i, use_cache=False).logits, mode="reduce-overhead")
    ids = torch.randint(0, 1000, (1, 16), device=DEVICE)
    with torch.no_grad():
        for _ in range(3):
            f(ids)
            torch.cuda.synchronize()
    region(lambda: f(ids).clone())


def triton():
    """A kernel of Triton's, cuBLAS, a tensor from the host."""
    import triton as t
    import triton.language as tl

    @t.jit
    def add(x, y, out, n, block: tl.constexpr):
        i = tl.program_id(0) * block + tl.arange(0, block)
        tl.store(out + i, tl.load(x + i, i < n) + tl.load(y + i, i < n), i < n)

    n = 1 << 20
    x, y = torch.randn(n, device=DEVICE), torch.randn(n, device=DEVICE)
    out = torch.empty_like(x)

    def step():
        add[(n // 1024,)](x, y, out, n, block=1024)
        return out @ y + torch.tensor([1.0, 2.0, 3.0]).cuda().sum()

    region(step)


def cupy(pool=None):
    """A kernel compiled at run time, CuPy's own kernels, cuBLAS; memory by cudaMallocAsync with a pool."""
    import cupy as cp

    if pool:
        cp.cuda.set_allocator(cp.cuda.MemoryAsyncPool().malloc)
    add = cp.RawKernel(r"""extern "C" __global__ void add(const float *x, const float *y, float *out, int n)
    {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n)
            out[i] = x[i] + y[i];
    }""", "add")
    n = 512
    x, y = (cp.arange(n * n, dtype=cp.float32).reshape(n, n) % m / m for m in (7, 11))
    for i in range(3):
        cp.cuda.Device().synchronize()
        start = time.time()
        cp.cuda.nvtx.RangePush("step")
        out = cp.empty_like(x)
        add((n * n // 256,), (256,), (x, y, out, cp.int32(n * n)))
        total = (out @ y).sum() + cp.asarray([1.0, 2.0], dtype=cp.float32).sum()
        cp.cuda.nvtx.RangePop()
        cp.cuda.Device().synchronize()
        print(MODE, "step", i + 1, round((time.time() - start) * 1e3, 2), "ms", flush=True)
    print(MODE, "sum", float(total), flush=True)


if MODE.startswith("cupy"):
    cupy(MODE == "cupy_async")
    sys.exit()
torch.manual_seed(0)
{"bloom": bloom, "qwen3": qwen3, "compile": compiled, "triton": triton}[MODE]()
