#!/usr/bin/env python3
"""Parameters of model families, counted by transformers.

    make_families.py OUT

Writes OUT/families.jsonl: a line {"family", "parameters", "config"} for the default configuration
of each family that transformers builds as a causal language model, and for one more with layers
dealt anew (experts, windows, states), by a seed. Models are built on the meta device, so nothing
is downloaded or allocated. Keys that are null, and those that every configuration has, are left
out of the files. What cannot be built from its defaults is left out, saying so.
"""
import copy
import json
import random
import re
import sys
import warnings

warnings.filterwarnings("ignore")
import torch
import transformers
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

transformers.logging.set_verbosity_error()

ENCODERS = re.compile(
    r"^(bart|bert|big|blender|camem|ctrl|data2|electra|ernie$|git|got|marian|mbart|megatron|mvp|"
    r"pegasus|plbart|prophet|rembert|roberta|roc_|roformer|trocr|whisper|xlm|xlnet|xmod|moshi|"
    r"musicgen|fuyu|mllama|emu3|reformer|cpmant|modernbert|openai|xglm|biogpt)"
)
EVERYWHERE = re.compile(
    r"^(_name_or_path|transformers_version|architectures|return_dict|output_.*|id2label|label2id|"
    r"problem_type|use_cache|initializer_range|chunk_size_feed_forward|is_encoder_decoder|.*dropout|"
    r".*_pdrop|.*_token_id|dtype|torchscript|router_.*_coef)$"
)
DEALT = re.compile(
    r"replace|num_dense_layers|interval|period|offset|sparse_step|every|shared_layers|"
    r"moe_layer_(start|end)|interleave|sliding_window_pattern"
)
DERIVED = ("mlp_layer_types", "layers_block_type", "per_layer_config", "no_rope_layers", "moe_layers")


def count(family, config):
    config = {k: v for k, v in config.items() if k not in ("model_type", "architectures")}
    built = AutoConfig.for_model(family, **copy.deepcopy(config))
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(built)
    parameters = {id(p): p.numel() for p in model.parameters()}
    full = json.loads(built.to_json_string(use_diff=False))
    return sum(parameters.values()), full


def deal(config, rng):
    """The same with other layers."""
    config = copy.deepcopy(config)
    for key in DERIVED:
        config.pop(key, None)
    for key, value in list(config.items()):
        if isinstance(value, list) and value and isinstance(value[0], str) and "architect" not in key:
            config[key] = [rng.choice(sorted(set(value))) for _ in value]
        elif isinstance(value, int) and not isinstance(value, bool) and DEALT.search(key):
            config[key] = rng.choice([1, 2, 3, 4])
    return config


def line(family, parameters, config):
    kept = {k: v for k, v in config.items() if v is not None and not EVERYWHERE.match(k)}
    kept["model_type"] = family
    text = json.dumps({"family": family, "parameters": parameters, "config": kept}, sort_keys=True)
    return text.replace('{"__float__": "Infinity"}', "1e308")


def main():
    rng = random.Random(1)
    with open(sys.argv[1] + "/families.jsonl", "w") as out:
        for family in sorted(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES):
            if ENCODERS.match(family):
                continue
            try:
                parameters, config = count(family, {})
            except Exception as e:
                print(family, "left out:", type(e).__name__, file=sys.stderr)
                continue
            if "text_config" in config:
                continue
            print(line(family, parameters, config), file=out)
            try:
                print(line(family, *count(family, deal(config, rng))), file=out)
            except Exception as e:
                print(family, "not dealt:", type(e).__name__, file=sys.stderr)


main()
