#!/usr/bin/env python3
"""What `cleave compile` costs on GPT-2 small: seconds, seconds beyond writing the bytes, and peak memory.

usage: compile_cost.py [--bin build/bin] [--model FILE.pt] [--devices 4] [--repeat 3]
Prints one JSON line. Without --model, traces GPT-2 small first.
"""

import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

CHUNK = 1 << 20
# A child's peak counts the process that it was forked from, so a small one lies between.
MEASURE = """
import json, resource, subprocess, sys, time
start = time.perf_counter()
subprocess.run(sys.argv[1:], check=True, stdout=2)
seconds = time.perf_counter() - start
print(json.dumps({"seconds": seconds, "peak_kib": resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss}))
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", type=pathlib.Path, default="build/bin")
    parser.add_argument("--model", type=pathlib.Path)
    parser.add_argument("--devices", type=int, default=4)
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="cleave-bench-") as folder:
        print(json.dumps(measure(options, pathlib.Path(folder))))


def measure(options, folder):
    model = options.model or trace(options.bin, folder)
    plan = folder / "model.plan"
    runs = [compile_once(options, model, plan) for _ in range(options.repeat)]
    files = [path for path in plan.iterdir()]
    written = sum(path.stat().st_size for path in files)
    writing = statistics.median(write_again(files, folder / "again") for _ in range(options.repeat))
    seconds = statistics.median(run["seconds"] for run in runs)
    return {"model": model.name, "devices": options.devices, "bytes_written": written, "seconds": round(seconds, 2),
            "seconds_beyond_writing": round(seconds - writing, 2),
            "peak_mib": round(max(run["peak_kib"] for run in runs) / 1024)}


def trace(folder_of_tools, folder):
    model = folder / "gpt2.pt"
    subprocess.run([folder_of_tools / "cleave-trace", "hf:gpt2", "-o", model], check=True, stdout=sys.stderr)
    return model


def compile_once(options, model, plan):
    shutil.rmtree(plan, ignore_errors=True)
    command = [options.bin / "cleave", "compile", model, "--inputs", model.with_suffix(".inputs.safetensors"),
               "--devices", options.devices, "-o", plan]
    done = subprocess.run([sys.executable, "-S", "-c", MEASURE, *map(str, command)], check=True, stdout=subprocess.PIPE)
    return json.loads(done.stdout)


def write_again(files, target):
    """Seconds to write as many bytes to the same disk and sync them."""
    start = time.perf_counter()
    with open(target, "wb") as out:
        for path in files:
            with open(path, "rb") as source:
                shutil.copyfileobj(source, out, CHUNK)
        out.flush()
        os.fsync(out.fileno())
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
