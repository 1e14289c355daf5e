#!/usr/bin/env python3
"""What the protection from untrusted plans costs: requests and starts of `cleave run` of this build against another one.

usage: protection.py [--bin build/bin] --against OTHER/build/bin [--rounds 50] [--steps 24]
OTHER is a checkout of a commit without the protection, built in the same way. In each round both run once, in turn who is first.
Prints one Markdown row for each figure: the median over the rounds, with the interval that holds it with 95 % confidence.
"""

import argparse
import json
import math
import pathlib
import statistics
import sys
import tempfile
import time

sys.dont_write_bytecode = True
import report
from contestants import Bench, Model, output

GPT2 = Model("gpt2", "hf:gpt2", "", batch=1, seq=64)


def interval(values):
    """Bounds of the median that hold with 95 % confidence: two order statistics, of the binomial distribution of how many values are
    below the median (Conover, Practical Nonparametric Statistics, 3.2)."""
    ordered, count = sorted(values), len(values)
    below, rank = 0.0, 0
    while rank < count // 2 and (below := below + math.comb(count, rank) / 2**count) <= 0.025:
        rank += 1
    rank = max(rank - 1, 0)
    return ordered[rank], ordered[count - 1 - rank]


def compiled(tools, model, folder):
    """A bench of `model` in `folder`, and its plan by `tools`."""
    folder.mkdir()
    bench = Bench(tools, folder, model, 1)
    bench.trace()
    plan = folder / "model.plan"
    output([tools / "cleave", "compile", bench.traced, "--inputs", bench.inputs, "--devices", 1, "-o", plan])
    return [tools / "cleave", "run", plan, "--inputs", bench.inputs, "--json", "--repeat"]


def seconds_of_process(command):
    begin = time.perf_counter()
    output(command)
    return time.perf_counter() - begin


def row(name, wanted, values, unit):
    low, high = interval(values)
    return [name, wanted, f"{statistics.median(values):+.2f} {unit} ({low:+.2f} to {high:+.2f})"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", type=pathlib.Path, default=pathlib.Path("build/bin"))
    parser.add_argument("--against", type=pathlib.Path, required=True, help="executables of the other build")
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--steps", type=int, default=24, help="requests in a round (default: %(default)s)")
    options = parser.parse_args()
    before = report.load()
    slower, later = [], []
    with tempfile.TemporaryDirectory(prefix="cleave-bench-") as folder:
        builds = [options.bin.resolve(), options.against.resolve()]
        folders = [pathlib.Path(folder) / name for name in ("this", "other")]
        requests = [compiled(tools, GPT2, place) for tools, place in zip(builds, folders)]
        starts = [compiled(tools, GPT2.tiny(), place / "tiny") for tools, place in zip(builds, folders)]
        for number in range(options.rounds):
            request, start = {}, {}
            for build in ((0, 1), (1, 0))[number % 2]:
                request[build] = json.loads(output([*requests[build], options.steps]))["seconds"]
                start[build] = seconds_of_process([*starts[build], 1])
            slower.append(100 * (request[0] / request[1] - 1))
            later.append(1000 * (start[0] - start[1]))
            print(f"round {number + 1}: {slower[-1]:+.2f} %, {later[-1]:+.2f} ms", file=sys.stderr, flush=True)
    print(f"{report.machine(before)}. {options.rounds} rounds, {options.steps} requests in each.\n")
    print(report.table([["of `cleave run`", "wanted", "median (95 % interval)"],
                        row("a request of GPT-2 small, 64 tokens", "≤ 1 %", slower, "%"),
                        row("a whole run of a tiny GPT-2, one request", "≤ 5 ms", later, "ms")]))


if __name__ == "__main__":
    main()
