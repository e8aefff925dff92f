"""load.py SECONDS FILE: bfloat16 products of 8192 x 8192 for that long; FILE says when they ran (full_model_timing.json)."""

import datetime
import json
import sys
import time

import torch

SIZE, BEFORE_S = (8192, 1.5) if torch.cuda.is_available() else (64, 0.1)
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def finish():
    if DEVICE == "cuda":
        torch.cuda.synchronize()


def stamp():
    return datetime.datetime.now().strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]


seconds, out = float(sys.argv[1]), sys.argv[2]
a = torch.randn(SIZE, SIZE, device=DEVICE, dtype=torch.bfloat16)
b = torch.randn_like(a)
for _ in range(20):
    c = a @ b
finish()
time.sleep(BEFORE_S)
start, begin, n = stamp(), time.time(), 0
while time.time() - begin < seconds:
    for _ in range(50):
        c = a @ b
    finish()
    n += 50
end, one = stamp(), (time.time() - begin) / n * 1e6
with open(out, "w", encoding="utf-8") as f:
    json.dump({"start_timestamp": start, "end_timestamp": end, "num_runs": n, "full_model_inference_us": one, "min_time_us": one,
               "max_time_us": one}, f)
time.sleep(BEFORE_S)
