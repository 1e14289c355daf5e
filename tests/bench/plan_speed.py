#!/usr/bin/env python3
"""Seconds and memory of the search for a mesh (`cleave simulate --mesh auto`) of large models on many devices.

usage: plan_speed.py [--bin build/bin] [--rounds 3] [--quick]
The models are IR without weights: a Llama of 70 B parameters on 128 H100s, and GPT-3 on 1,024 A100s. The fastest of the rounds
counts, on two cores. Prints Markdown, a row a model, and fails where one takes longer, or more memory, than is wanted, or does
not find the same mesh each time. --quick plans tiny models once.
"""

import argparse
import json
import pathlib
import sys
import tempfile

sys.dont_write_bytecode = True
import gpt_ir
import llama_ir
import report
import rounds
from measured import run

MOST_BYTES = 2 << 30
# By name: text of the model and of a tiny one, machine, wanted seconds.
CASES = {
    "Llama 70 B": (lambda: llama_ir.llama(80, 8192, 28672, 64, 8, 4096, 128256, 8),
                   lambda: llama_ir.llama(2, 64, 128, 4, 2, 16, 128, 8), "h100:128", 10),
    "GPT-3 175 B": (lambda: gpt_ir.gpt(96, 12288, 96, 2048, 51200, 64, is_trained=False),
                    lambda: gpt_ir.gpt(2, 64, 4, 16, 128, 8, is_trained=False), "a100-80g:1024", 30),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", type=pathlib.Path, default="build/bin")
    parser.add_argument("--rounds", type=int, default=3, help="the fastest counts")
    parser.add_argument("--quick", action="store_true", help="tiny models, one round")
    options = parser.parse_args()
    rounds.take_cores()
    before = report.load()
    rows, good = [["model", "machine", "mesh", "seconds", "CPU s", "peak MiB", "wanted"]], []
    with tempfile.TemporaryDirectory(prefix="cleave-planner-") as folder:
        for name in CASES:
            cells, is_good = plan(options, pathlib.Path(folder) / "model.mlir", name)
            rows.append(cells)
            good.append(is_good)
    print(f"{report.machine(before)}\n\n{report.table(rows)}")
    sys.exit(not all(good))


def plan(options, path, name):
    """The row of a model, and whether everything is as wanted."""
    text, tiny, machine, most_seconds = CASES[name]
    path.write_text(tiny() if options.quick else text())
    runs = []
    for number in range(1 if options.quick else options.rounds):
        print(f"{name}, round {number + 1}", file=sys.stderr, flush=True)
        runs.append(run([options.bin / "cleave", "simulate", path, "--mesh", "auto", "--machine", machine, "--json"]))
    chosen = json.loads(runs[0]["out"])["alternatives"][0]
    seconds, cpu, peak = (min(one[key] for one in runs) for key in ("wall", "cpu", "peak"))
    short = [what for what, is_wrong in {"slow": seconds > most_seconds, "memory": peak > MOST_BYTES,
                                         "not the same each time": len({one["out"] for one in runs}) > 1}.items() if is_wrong]
    mesh = f"{chosen['mesh']}, {chosen['schedule']}, {chosen['microbatches']} micro-batches"
    wanted = f"≤ {most_seconds} s, {MOST_BYTES >> 20} MiB" + (f", short: {', '.join(short)}" if short else "")
    return [name, machine, mesh, f"{seconds:.1f}", f"{cpu:.1f}", f"{peak / 2**20:.0f}", wanted], not short


if __name__ == "__main__":
    main()
