"""Rolls every sharding group of every architecture that `make zoo` has traced: the oracle of tests/rolling/Rolling.h.

`rollModel` lets the parts of a group change places in all tensors, and holds each operator to giving what it
gave, in the new order. What came of it is kept as one JSON line a model, and printed.
"""

import argparse
import collections
import json
import os
import pathlib
import re
import subprocess

import zoo

SECONDS = 900


def rolled(program, path):
    """What came of one model: rollModel's report, or why there is none."""
    name = path.name.removesuffix(".pt")
    inputs = path.with_suffix(".inputs.safetensors")
    try:
        done = subprocess.run([program, path, inputs, *zoo.libraries(name)], capture_output=True, text=True, timeout=SECONDS,
                              env={**os.environ, "OMP_NUM_THREADS": "1"})
    except subprocess.TimeoutExpired:
        return {"name": name, "reason": f"more than {SECONDS} s"}
    if done.stdout:
        return {"name": name, "reason": "", **json.loads(done.stdout)}
    lines = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
    return {"name": name, "reason": zoo.short(next((line for line in lines if line.startswith("error: ")), lines[-1]), path)}


def summary(entries):
    """Lines for people: sums, what was kept and why, operators, and every failure."""
    tried = [entry for entry in entries if not entry["reason"]]
    total = {key: sum(entry[key] for entry in tried) for key in ("groups", "rolled", "calls")}
    kept, operators = collections.Counter(), collections.Counter()
    for entry in tried:
        kept.update(entry["kept"])
        operators.update(entry["operators"])
    wrong = [entry for entry in tried if entry["failures"]]
    lines = [f"{len(tried)} of {len(entries)} models, {len(wrong)} with failures: {total['rolled']} of {total['groups']} groups "
             f"rolled, {total['calls']} calls of {len(operators)} operators",
             *(f"kept, {count}: {why}" for why, count in kept.most_common()),
             *(f"not tried: {entry['name']}: {entry['reason']}" for entry in entries if entry["reason"])]
    for entry in wrong:
        lines += [f"{entry['name']}: {len(entry['failures'])} failures", *(f"    {what}" for what in entry["failures"][:4])]
    return lines


def parse():
    parser = argparse.ArgumentParser(description="Rolls every sharding group of every traced architecture.")
    parser.add_argument("--bin", type=pathlib.Path, default=zoo.SOURCE / "build/bin", help="where the executables are")
    parser.add_argument("--work", type=pathlib.Path, default=zoo.SOURCE / "build/zoo", help="where `make zoo` keeps traces")
    parser.add_argument("--results", type=pathlib.Path, help="a file for a line a model (WORK/rolling.jsonl)")
    parser.add_argument("--only", type=re.compile, default=re.compile(""), metavar="REGEX", help="files by name")
    return parser.parse_args()


def main():
    options = parse()
    paths = sorted(path for path in (options.work / "traced").glob("*.pt") if options.only.search(path.name))
    entries = []
    with open(options.results or options.work / "rolling.jsonl", "w") as file:
        for count, path in enumerate(paths, 1):
            entry = rolled(options.bin / "rollModel", path)
            entries.append(entry)
            print(json.dumps(entry), file=file, flush=True)
            print(f"{count}/{len(paths)} {entry['name']}: {entry['reason'] or len(entry['failures']) or 'ok'}", flush=True)
    print("\n".join(summary(entries)))
    return int(not entries or any(entry["reason"] or entry["failures"] for entry in entries))


if __name__ == "__main__":
    raise SystemExit(main())
