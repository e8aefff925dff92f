#!/usr/bin/env python3
"""KV groups of real models: vLLM's, and ours.

    groups.py --record VLLM CONFIGS > groups.txt    by vLLM's own specs and planner (specs.py)
    groups.py REPLAY CONFIGS GROUPS [MODEL ...]     compares vllm_replay's to those of the file

CONFIGS is configs.json.gz of the test data beside the repository: {model: {files: {name: text}}}. The
file has a paragraph for each model and degree of tensor parallelism, with prefix caching as vLLM has it
by default and at most 65,536 tokens a sequence. Exit code: 0 all equal, 1 not, 77 no configurations."""

import gzip
import json
import os
import subprocess
import sys
import tempfile
import types

TP = (1, 8)


def load(path):
    with gzip.open(path, "rt") as f:
        return json.load(f)


def record(vllm, path):
    import record
    import specs

    record.load(vllm)
    for name, entry in sorted(load(path).items()):
        config = json.loads(entry["files"]["config.json"])
        for tp in TP:
            s = specs.Settings(prefix=True, tp=tp)
            cache = types.SimpleNamespace(cache_dtype="auto", enable_prefix_caching=True)
            vllm_config = types.SimpleNamespace(
                cache_config=cache, scheduler_config=types.SimpleNamespace()
            )
            try:
                lines = specs.describe(*specs.groups_of(config, s, vllm_config))
            except (KeyError, TypeError, ValueError, NotImplementedError) as e:
                print("%s tp %d: %r" % (name, tp, e), file=sys.stderr)
                break
            print("%s tp %d\n%s" % (name, tp, lines))


def paragraphs(path):
    with open(path) as f:
        for part in f.read().strip().split("\n\n"):
            head, _, body = part.partition("\n")
            name, _, tp = head.partition(" tp ")
            yield name, tp, body


def compare(replay, path, groups, names):
    if not os.path.exists(path):
        print("skipped: no %s" % path)
        return 77
    entries, bad, n = load(path), 0, 0
    with tempfile.TemporaryDirectory() as tmp:
        for name, tp, theirs in paragraphs(groups):
            if names and name not in names:
                continue
            config = os.path.join(tmp, "config.json")
            with open(config, "w") as f:
                f.write(entries[name]["files"]["config.json"])
            done = subprocess.run(
                [replay, config, "--groups", "prefix=1", "tp=" + tp], capture_output=True, text=True
            )
            ours, n = (done.stdout + done.stderr).strip(), n + 1
            if ours != theirs:
                bad += 1
                print("%s tp %s\n  vllm\n%s\n  twinfer\n%s" % (name, tp, theirs, ours))
    print("%d of %d equal" % (n - bad, n))
    return 1 if bad else 0


def main():
    if sys.argv[1] == "--record":
        return record(sys.argv[2], sys.argv[3])
    path = sys.argv[2]
    if path == "shared":
        source = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
        data = os.environ.get("TWINFER_TEST_DATA") or os.path.join(source, "..", "shared", "data")
        path = os.path.join(data, "models", "configs.json.gz")
    return compare(sys.argv[1], path, sys.argv[3], sys.argv[4:])


if __name__ == "__main__":
    sys.exit(main())
