#!/usr/bin/env python3
"""Writes expected.json: what Hydra itself (pip install hydra-core==1.3.8) makes of cases.txt.

Run in this folder. A case that Hydra refuses is null."""
import hashlib
import json
import os

from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf


def stable_id(prefix, *parts):
    text = "\x1f".join([prefix, *map(str, parts)])
    return f"{prefix}_{hashlib.sha256(text.encode()).hexdigest()[:10]}"


OmegaConf.register_new_resolver("stable_id", stable_id)
expected = {}
with initialize_config_dir(os.path.abspath("conf"), version_base="1.3"):
    for line in open("cases.txt"):
        if line.startswith("#"):
            continue
        name, primary, *overrides = [word.strip() for word in line.rstrip("\n").split("|")]
        try:
            config = compose(primary, overrides)
            expected[name] = OmegaConf.to_container(config, resolve=True)
        except Exception as error:
            expected[name] = None
            if not name.startswith("error_"):
                print(f"{name}: {type(error).__name__}: {error}")
        if expected[name] is not None and name.startswith("error_"):
            print(f"{name}: no error")
json.dump(expected, open("expected.json", "w"), indent=1, sort_keys=True)
open("expected.json", "a").write("\n")
