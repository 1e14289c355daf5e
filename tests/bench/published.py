#!/usr/bin/env python3
"""`cleave simulate --train` against published runs of Megatron-LM on A100s (Korthikanti et al. 2022, arXiv 2205.05198).

usage: published.py megatron-a100.json [--bin build/bin] [--calibrate]
The models are written as IR without weights (gpt_ir.py), cut where Megatron cuts them. The machine is the preset's: data sheets,
times two efficiencies, of products and of memory, that were fitted to CALIBRATED, four of the eight times: one of each model, with
full and with selective recomputation by turns. --calibrate fits them anew. Prints Markdown, a row a run, with the mean error of
the other four, and fails where that or the mean error of memory is above what is wanted.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
import gpt_ir
import report

VOCABULARY = 51200
MOST = 6  # percent
# Rows of the file's iteration_time, and what was found for them.
CALIBRATED = (0, 3, 4, 7)
EFFICIENCIES = (0.72, 0.785)
RECOMPUTE = {"full": "full", "seqsel": "selective", "none": "none"}
GIB = 2**30


def machine(gpus, products, memory):
    """DGX A100 of 80 GB: data sheets, as `a100-80g` has them (partitioner/machine/Presets.cpp)."""
    device = {"flops_per_second": 19.5e12, "memory_bytes_per_second": 2039e9 * memory, "operator_seconds": 5e-6}
    return {"devices": [{"name": f"cuda:{index}", **device} for index in range(gpus)],
            "link": {"latency_seconds": 5e-6, "bytes_per_second": 300e9},
            "products": {"matrix": {"float16": {"count": [1], "rows": [1], "columns": [1], "depth": [1],
                                                "flops_per_second": [312e12 * products]}}},
            "nodes": {"devices": 8, "latency_seconds": 1e-5, "bytes_per_second": 25e9}}


class Bench:
    def __init__(self, tools, folder):
        self.tools, self.folder = tools, folder

    def model(self, run):
        """The path of its IR, written once."""
        path = self.folder / f"{run['model']}.mlir"
        if not path.exists():
            path.write_text(gpt_ir.gpt(run["layers"], run["hidden"], run["heads"], run["sequence"], VOCABULARY, run["batch"]))
        return path

    def forecast(self, run, efficiencies=EFFICIENCIES):
        print(f"{run['model']}, {run['recompute']}, {efficiencies}", file=sys.stderr, flush=True)
        target = self.folder / "machine.json"
        target.write_text(json.dumps(machine(run["gpus"], *efficiencies)))
        stages = run["pp"] * run["interleave"]
        command = [self.tools / "cleave", "simulate", self.model(run), "--train", "--json", "--no-idioms",
                   "--mesh", f"pp={run['pp']},tp={run['tp']}", "--machine", target,
                   "--microbatches", run["batch"] // run["microbatch"], "--recompute", RECOMPUTE[run["recompute"]]]
        command += ["--schedule", "interleaved", "--interleave", run["interleave"]] if run["interleave"] > 1 else ["--schedule", "1f1b"]
        command += ["--sequence-parallel"] * run["sequence_parallel"]
        for stage in range(1, stages):
            command += ["--stage-before", f"transformer.h.{stage * run['layers'] // stages}"]
        done = subprocess.run([*map(str, command)], capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{run['model']}: {done.stderr}")
        return json.loads(done.stdout)


def fitted(bench, runs):
    """The efficiencies whose times have the least sum of squared relative errors, to half a percent.

    A time is taken for a/products + b/memory + c, by three forecasts of each run."""
    points = [(0.75, 0.75), (0.65, 0.75), (0.75, 0.65)]
    laws = []
    for run in runs:
        base, slower, narrower = (bench.forecast(run, point)["seconds"] for point in points)
        step = 1 / 0.65 - 1 / 0.75
        products, memory = (slower - base) / step, (narrower - base) / step
        laws.append((products, memory, base - (products + memory) / 0.75, run["seconds"]))
    grid = [(products / 200, memory / 200) for products in range(100, 201) for memory in range(100, 201)]
    return min(grid, key=lambda e: sum(((a / e[0] + b / e[1] + c) / found - 1) ** 2 for a, b, c, found in laws))


def off(predicted, found):
    return 100 * (predicted / found - 1)


def name_of(run):
    return f"{run['model']}, pp={run['pp']}, {RECOMPUTE[run['recompute']]}" + (" + sequence" if run["sequence_parallel"] else "")


def times(bench, runs, efficiencies):
    """The table, and the errors of runs that nothing was fitted to."""
    rows, errors = [["a step", "published", "forecast", "error", "fitted to"]], []
    for index, run in enumerate(runs):
        seconds = bench.forecast(run, efficiencies)["seconds"]
        error, is_fitted = off(seconds, run["seconds"]), index in CALIBRATED
        errors += [] if is_fitted else [abs(error)]
        rows.append([name_of(run), f"{run['seconds']} s", f"{seconds:.4g} s", f"{error:+.1f} %", "yes" if is_fitted else ""])
    return report.table(rows), errors


def memories(bench, runs, figures):
    """Of the device that holds most. Published are the layers' bytes alone: tables of tokens and positions come on top."""
    rows, errors = [["a GPU's bytes", "published", "forecast", "error"]], []
    for figure in figures:
        run = {**next(run for run in runs if run["model"] == figure["model"]), **figure}
        found = figure["parameters_and_optimizer_gib"] + figure["activations_gib"]
        peak = max(device["peak_bytes"] for device in bench.forecast(run)["devices"]) / GIB
        errors.append(abs(off(peak, found)))
        rows.append([name_of(run), f"{found:.1f} GiB", f"{peak:.1f} GiB", f"{off(peak, found):+.1f} %"])
    return report.table(rows), errors


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("published", type=pathlib.Path)
    parser.add_argument("--bin", type=pathlib.Path, default="build/bin")
    parser.add_argument("--calibrate", action="store_true", help="fit the two efficiencies anew")
    options = parser.parse_args()
    published = json.loads(options.published.read_text())
    runs = published["iteration_time"]
    with tempfile.TemporaryDirectory(prefix="cleave-published-") as folder:
        bench = Bench(options.bin, pathlib.Path(folder))
        efficiencies = fitted(bench, [runs[index] for index in CALIBRATED]) if options.calibrate else EFFICIENCIES
        print(f"Products reach {efficiencies[0]:g} of the data sheet's peak, memory {efficiencies[1]:g}.\n")
        results = {"times that nothing was fitted to": times(bench, runs, efficiencies),
                   "bytes": memories(bench, runs, published["memory_per_gpu"])}
    is_short = False
    for what, (table, errors) in results.items():
        mean = statistics.mean(errors)
        is_short |= mean > MOST
        print(f"{table}\n\nError of {what}: {mean:.1f} % on average, {max(errors):.1f} % at worst; wanted: {MOST} %"
              + (", short" if mean > MOST else "") + "\n")
    sys.exit(is_short)


if __name__ == "__main__":
    main()
