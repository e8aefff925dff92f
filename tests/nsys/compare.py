#!/usr/bin/env python3
"""compare.py TWINFER [TRACES]: are twinfer's reports those of `nsys stats`?

For each random trace three answers must agree: nsys' reports of the trace, twinfer's of it, and nsys' of what twinfer
exports again. nsys is found in the PATH or in $NSYS; without one this skips (exit 77). Ranges of the default domain may
have a colon before their name; rows of nvtx_* reports are compared without their order, because the colon changes it,
and rows with equal totals, whose order nsys leaves open, count as equal in any order."""
import csv
import os
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import random_trace

REPORTS = ("cuda_gpu_kern_sum nvtx_kern_sum nvtx_gpu_proj_sum nvtx_sum cuda_api_sum cuda_kern_exec_sum "
           "cuda_gpu_mem_time_sum cuda_gpu_mem_size_sum").split()


def stats(nsys, database, folder):
    arguments = [a for report in REPORTS for a in ("--report", report)]
    subprocess.run([nsys, "stats", *arguments, "--format", "csv", "--output", folder + "/trace", database],
                   check=True, capture_output=True)


def rows(folder, report):
    """None when the report has no rows; totals first, so that sorting keeps what matters of the order."""
    path = "%s/trace_%s.csv" % (folder, report)
    if not os.path.exists(path):
        return None
    with open(path, newline="") as f:
        table = list(csv.reader(f))
    if len(table) < 2:
        return None
    head, *body = table
    if report.startswith("nvtx"):
        body = [[cell.removeprefix(":") for cell in row] for row in body]
        return [head] + sorted(body)
    key = head.index("TAvg (ns)") if "TAvg (ns)" in head else 1 if head[0] == "Time (%)" else 0
    return [head] + sorted(body, key=lambda row: (-float(row[key]), row))


def compare(seed, what, got, want):
    for report in REPORTS:
        a, b = rows(got, report), rows(want, report)
        if a != b:
            print("trace %d, %s: %s differs" % (seed, what, report))
            for mark, only in (("<", [r for r in a or [] if r not in (b or [])]), (">", [r for r in b or [] if r not in (a or [])])):
                for row in only[:3]:
                    print("  ", mark, row)
            return 1
    return 0


def main():
    twinfer, traces = os.path.abspath(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 10
    nsys = os.environ.get("NSYS") or shutil.which("nsys")
    if not nsys:
        print("skipped: there is no nsys in the PATH, and $NSYS names none")
        return 77
    bad = 0
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(1, traces + 1):
            base = "%s/%d" % (folder, seed)
            for name in ("in", "out"):
                os.makedirs(base + "/" + name)
            random_trace.write(seed, base + "/in.sqlite")
            subprocess.run([twinfer, "kernels", "kernels.trace=" + base + "/in.sqlite", "out=" + base + "/ours",
                            "kernels.export=[sqlite]"], check=True, capture_output=True)
            stats(nsys, base + "/in.sqlite", base + "/in")
            stats(nsys, base + "/ours/trace.sqlite", base + "/out")
            bad += compare(seed, "twinfer", base + "/ours", base + "/in")
            bad += compare(seed, "nsys on the export", base + "/out", base + "/in")
    print("%d traces, %d differ" % (traces, bad))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
