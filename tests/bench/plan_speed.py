#!/usr/bin/env python3
"""Seconds and memory of the search for a mesh (`cleave simulate --mesh auto`) of large models on many devices.

usage: plan_speed.py [--bin build/bin] [--rounds 3] [--quick]
The models are IR without weights: a Llama of 70 B parameters on 128 H100s, and GPT-3 on 1,024 A100s. The fastest of the rounds
counts, on two cores. Prints Markdown, a row a model, then a row for each limit of the devices' memory that one run plans for
after the whole plan, and fails where one takes longer, or more memory, than is wanted, or does not find the same mesh each time.
--quick plans tiny models once.
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
# Of a plan for another limit.
MOST_SECONDS_AGAIN = 1
# By name: text of the model and of a tiny one, machine, wanted seconds, limits, whether each further one is to be quick.
CASES = {
    "Llama 70 B": (lambda: llama_ir.llama(80, 8192, 28672, 64, 8, 4096, 128256, 8),
                   lambda: llama_ir.llama(2, 64, 128, 4, 2, 16, 128, 8), "h100:128", 10,
                   ["80GB", "60GB", "40GB", "20GB", "10GB"], True),
    "GPT-3 175 B": (lambda: gpt_ir.gpt(96, 12288, 96, 2048, 51200, 64, is_trained=False),
                    lambda: gpt_ir.gpt(2, 64, 4, 16, 128, 8, is_trained=False), "a100-80g:1024", 30,
                    ["80GB", "60GB", "40GB"], False),
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
    again = [["model", "memory of a device", "mesh", "seconds", "wanted"]]
    with tempfile.TemporaryDirectory(prefix="cleave-planner-") as folder:
        for name in CASES:
            cells, is_good = plan(options, pathlib.Path(folder) / "model.mlir", name)
            rows.append(cells)
            good.append(is_good)
            cells, is_good = replan(options, pathlib.Path(folder) / "model.mlir", name)
            again += cells
            good.append(is_good)
    print(f"{report.machine(before)}\n\n{report.table(rows)}\n\n{report.table(again)}")
    sys.exit(not all(good))


def plan(options, path, name):
    """The row of a model, and whether everything is as wanted."""
    text, tiny, machine, most_seconds, *_ = CASES[name]
    path.write_text(tiny() if options.quick else text())
    runs = []
    for number in range(1 if options.quick else options.rounds):
        print(f"{name}, round {number + 1}", file=sys.stderr, flush=True)
        runs.append(run([options.bin / "cleave", "simulate", path, "--mesh", "auto", "--machine", machine, "--json"]))
    chosen = json.loads(runs[0]["out"])["candidates"][0]
    seconds, cpu, peak = (min(one[key] for one in runs) for key in ("wall", "cpu", "peak"))
    short = [what for what, is_wrong in {"slow": seconds > most_seconds, "memory": peak > MOST_BYTES,
                                         "not the same each time": len({one["out"] for one in runs}) > 1}.items() if is_wrong]
    mesh = mesh_of(chosen)
    wanted = f"≤ {most_seconds} s, {MOST_BYTES >> 20} MiB" + (f", short: {', '.join(short)}" if short else "")
    return [name, machine, mesh, f"{seconds:.1f}", f"{cpu:.1f}", f"{peak / 2**20:.0f}", wanted], not short


def mesh_of(chosen):
    return f"{chosen['mesh']}, {chosen['schedule']}, {chosen['microbatches']} micro-batches"


def replan(options, path, name):
    """A row for each limit after the first, for which the model is read, and whether everything is as wanted."""
    *_, machine, _, limits, is_wanted = CASES[name]
    print(f"{name}, again", file=sys.stderr, flush=True)
    command = [options.bin / "cleave", "simulate", path, "--mesh", "auto", "--machine", machine, "--json", "--device-memory", ",".join(limits)]
    runs = [run(command) for _ in range(1 if options.quick else options.rounds)]
    peak = max(one["peak"] for one in runs)
    rows, is_good = [], peak <= MOST_BYTES
    for limit, *entries in list(zip(limits, *(json.loads(one["out"])["limits"] for one in runs)))[1:]:
        seconds = min(entry["planning_seconds"] for entry in entries)
        chosen = entries[0].get("candidates")
        is_slow = is_wanted and seconds > MOST_SECONDS_AGAIN
        wanted = f"≤ {MOST_SECONDS_AGAIN} s" + (", short: slow" if is_slow else "") if is_wanted else "-"
        rows.append([name, limit, mesh_of(chosen[0]) if chosen else "none fits", f"{seconds:.3f}", wanted])
        is_good &= not is_slow
    rows.append([name, "all of these", "", "", f"{peak / 2**20:.0f} MiB at most, wanted {MOST_BYTES >> 20}"])
    return rows, is_good


if __name__ == "__main__":
    main()
