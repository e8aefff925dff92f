"""A vision-language model of random weights answers about one image: a SAM encoder and a CLIP encoder
look at it, a projector brings both to the width of a small Llama, which generates. Ranges "prefill"
(with "sam", "clip", "projector" and "language" inside) and "decode", one a token.

    twinfer deep deep=vlm out=deep/vlm -- python3 adapters/workloads/vlm_generate.py

Needs PyTorch and transformers; downloads nothing."""

import argparse

import torch
import transformers
from transformers.models.sam.modeling_sam import SamVisionEncoder

import models

SIDE = 16  # image tokens are SIDE x SIDE


def sizes(tiny):
    """Of SAM's ViT-B, CLIP's ViT-L/14, and a Llama of 0.3 B parameters."""
    if tiny:
        return (
            dict(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, image_size=256,
                 global_attn_indexes=[1], output_channels=32, mlp_dim=128),
            dict(hidden_size=64, intermediate_size=128, num_hidden_layers=2,
                 num_attention_heads=4, image_size=224, patch_size=14),
            dict(vocab_size=512, hidden_size=64, intermediate_size=128, num_hidden_layers=2,
                 num_attention_heads=4, num_key_value_heads=4),
        )
    return (
        dict(),
        dict(hidden_size=1024, intermediate_size=4096, num_hidden_layers=24,
             num_attention_heads=16, image_size=224, patch_size=14),
        dict(vocab_size=32000, hidden_size=1024, intermediate_size=2816, num_hidden_layers=24,
             num_attention_heads=16, num_key_value_heads=16),
    )


class Model(torch.nn.Module):
    def __init__(self, tiny):
        super().__init__()
        sam, clip, language = sizes(tiny)
        sam, clip = transformers.SamVisionConfig(**sam), transformers.CLIPVisionConfig(**clip)
        language = transformers.LlamaConfig(**language)
        self.sam_size, self.clip_size = sam.image_size, clip.image_size
        self.sam = SamVisionEncoder(sam)
        self.clip = transformers.CLIPVisionModel(clip)
        self.projector = torch.nn.Linear(sam.output_channels + clip.hidden_size,
                                         language.hidden_size)
        self.language = transformers.LlamaForCausalLM(language)

    def prefill(self, image, ids):
        with models.region("prefill"):
            with models.region("sam"):
                seen = self.sam(image).last_hidden_state
                seen = torch.nn.functional.adaptive_avg_pool2d(seen, SIDE).flatten(2).mT
            with models.region("clip"):
                small = torch.nn.functional.interpolate(image, size=self.clip_size)
                patches = self.clip(small).last_hidden_state[:, 1:]
            with models.region("projector"):
                tokens = self.projector(torch.cat([seen, patches], -1))
            with models.region("language"):
                text = self.language.get_input_embeddings()(ids)
                out = self.language(inputs_embeds=torch.cat([tokens, text], 1), use_cache=True,
                                    logits_to_keep=1)
                token = out.logits[:, -1].argmax(-1, keepdim=True)
        return out.past_key_values, token

    def decode(self, past, token):
        with models.region("decode"):
            out = self.language(input_ids=token, past_key_values=past, use_cache=True,
                                logits_to_keep=1)
            token = out.logits[:, -1].argmax(-1, keepdim=True)
            token.cpu()  # the host sees each token, as a server does
        return out.past_key_values, token


def answer(model, image, ids, tokens):
    past, token = model.prefill(image, ids)
    for _ in range(tokens - 1):
        past, token = model.decode(past, token)


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--device", default="cuda")
    p.add_argument("--prompt", type=int, default=64, help="tokens of text")
    p.add_argument("--tokens", type=int, default=32, help="to generate")
    p.add_argument("--runs", type=int, default=2, help="after one that warms up")
    p.add_argument("--tiny", action="store_true")
    a = p.parse_args()
    torch.manual_seed(0)
    dtype = torch.bfloat16 if a.device.startswith("cuda") else torch.float32
    torch.set_default_dtype(dtype)
    with torch.device(a.device):
        model = Model(a.tiny).eval()
        image = torch.rand(1, 3, model.sam_size, model.sam_size)
        ids = torch.randint(3, model.language.config.vocab_size, (1, a.prompt))
    with torch.no_grad():
        with models.warm_up(a.device):
            answer(model, image, ids, a.tokens)
        for _ in range(a.runs):
            with models.region("run"):
                answer(model, image, ids, a.tokens)
                models.synchronize(a.device)
    print(f"vlm_generate: {a.runs} runs of {SIDE * SIDE} + {a.prompt} + {a.tokens} tokens")


if __name__ == "__main__":
    main()
