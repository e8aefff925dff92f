"""Models of known shapes with random weights: timing does not depend on what weights say.

Needs PyTorch and transformers; downloads nothing."""

import contextlib

import torch
import transformers

SHAPES = {
    "bloom_560m": (
        transformers.BloomConfig,
        dict(vocab_size=250880, hidden_size=1024, n_layer=24, n_head=16),
    ),
    "qwen3_0_6b": (
        transformers.Qwen3Config,
        dict(
            vocab_size=151936, hidden_size=1024, intermediate_size=3072, num_hidden_layers=28,
            num_attention_heads=16, num_key_value_heads=8, head_dim=128,
            max_position_embeddings=40960, rope_theta=1e6, rms_norm_eps=1e-6,
            tie_word_embeddings=True,
        ),
    ),
    "vicuna_7b": (
        transformers.LlamaConfig,
        dict(
            vocab_size=32000, hidden_size=4096, intermediate_size=11008, num_hidden_layers=32,
            num_attention_heads=32, num_key_value_heads=32, max_position_embeddings=4096,
            rms_norm_eps=1e-5, tie_word_embeddings=False,
        ),
    ),
}
# For a look at the programs themselves, on a CPU.
TINY = {
    "bloom_560m": dict(vocab_size=512, hidden_size=64, n_layer=2, n_head=4),
    "qwen3_0_6b": dict(
        vocab_size=512, hidden_size=64, intermediate_size=128, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, head_dim=16,
    ),
    "vicuna_7b": dict(
        vocab_size=512, hidden_size=64, intermediate_size=128, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=4,
    ),
}


def make(name, device, tiny=False, seed=0):
    kind, shape = SHAPES[name]
    torch.manual_seed(seed)
    config = kind(**{**shape, **(TINY[name] if tiny else {})})
    config.eos_token_id = None  # generate as many tokens as asked for
    config.pad_token_id = 0
    dtype = torch.bfloat16 if device.startswith("cuda") else torch.float32
    with torch.device(device):
        model = transformers.AutoModelForCausalLM.from_config(config, dtype=dtype)
    model.generation_config.eos_token_id = None
    model.generation_config.pad_token_id = 0
    return model.eval()


def prompt(model, tokens, batch=1, seed=1):
    g = torch.Generator().manual_seed(seed)
    ids = torch.randint(3, model.config.vocab_size, (batch, tokens), generator=g)
    return ids.to(next(model.parameters()).device)


_muted = False


@contextlib.contextmanager
def region(text):
    """An NVTX range; none inside warm_up(). PyTorch for CUDA has them without a GPU too, that for
    CPUs raises."""
    on = torch.version.cuda is not None and not _muted
    if on:
        torch.cuda.nvtx.range_push(text)
    try:
        yield
    finally:
        if on:
            torch.cuda.nvtx.range_pop()


@contextlib.contextmanager
def warm_up(device):
    """A range "warmup" without ranges inside: what is loaded and chosen late is no stage's time."""
    global _muted
    with region("warmup"):
        _muted = True
        try:
            yield
            synchronize(device)
        finally:
            _muted = False


def synchronize(device):
    if device.startswith("cuda"):
        torch.cuda.synchronize()
