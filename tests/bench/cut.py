#!/usr/bin/env python3
"""`cleave cut` on graphs of the device-placement benchmark: optimum, seconds and memory.

usage: cut.py FOLDER [--bin build/bin] [--repeat 3]
FOLDER holds graphs as .json, in it or further down, and perhaps a README.md with a table: file, nodes, k, downsets, optimum.
Prints a Markdown table, a row a graph, and fails where an optimum differs in the digits that are known, a run takes over
5 s (gnmt: 1 s) of CPU time, or 2 GiB.
"""

import argparse
import json
import pathlib
import re
import sys

sys.dont_write_bytecode = True
from measured import run

MOST_BYTES = 2 << 30


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--bin", type=pathlib.Path, default="build/bin")
    parser.add_argument("--repeat", type=int, default=3, help="the fastest run counts")
    options = parser.parse_args()
    graphs = sorted(options.folder.rglob("*.json"))
    if not graphs:
        parser.error(f"{options.folder}: found no .json, expected graphs of the device-placement benchmark")
    known = known_optima(options.folder / "README.md")
    print("| graph | nodes | accelerators | downsets | max load | known optimum | CPU s | wall s | peak MiB |")
    print("|---|---|---|---|---|---|---|---|---|")
    good = [row(options, graph, known) for graph in graphs]
    sys.exit(not all(good))


def known_optima(readme):
    """By the graph's path without .json, as text, whose digits say how exactly it is known."""
    text = readme.read_text() if readme.exists() else ""
    return dict(re.findall(r"^\| (\S+) \| \d+ \| \d+ \| \d+ \| ([\d.]+) \|", text, re.MULTILINE))


def row(options, graph, known):
    """Prints the graph's row; whether everything is as wanted."""
    name = graph.relative_to(options.folder).with_suffix("").as_posix()
    problem = json.loads(graph.read_text())
    runs = [run([options.bin / "cleave", "cut", graph, "--json"]) for _ in range(options.repeat)]
    solution = json.loads(runs[0]["out"])
    cpu, wall, peak = (min(one[key] for one in runs) for key in ("cpu", "wall", "peak"))
    optimum = known.get(name)
    load = solution["maxLoad"] if optimum is None else f"{solution['maxLoad']:.{len(optimum.partition('.')[2])}f}"
    wrong = {"max load": optimum is not None and load != optimum, "not exact": not solution["exact"],
             "slow": cpu > (1 if "gnmt" in name else 5), "memory": peak > MOST_BYTES,
             "not the same each time": len({one["out"] for one in runs}) > 1}
    cells = [name, len(problem["nodes"]), problem["maxFPGAs"], solution["downsets"], load, optimum or "–",
             f"{cpu:.2f}", f"{wall:.2f}", f"{peak / 2**20:.0f}"]
    short = [what for what, is_wrong in wrong.items() if is_wrong]
    print("| " + " | ".join(map(str, cells)) + (f", short: {', '.join(short)} |" if short else " |"), flush=True)
    return not short


main()
