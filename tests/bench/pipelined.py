#!/usr/bin/env python3
"""Cleave on two cores against eager, TorchScript, torch.compile and torch.distributed.pipelining.

usage: pipelined.py [--bin build/bin] [--models gpt2,bert,vit,resnet-50] [--rounds 5] [--repeat 12] [--quick]
In each round every contestant runs once, in a fresh process, on batches of 8. Prints Markdown, and puts it into
docs/results.md when all models took part. --quick takes one round of a tiny GPT-2 without those who take long to start (torch.compile, the tracer),
writes nothing, and fails if a contestant does.
"""

import argparse
import collections
import contextlib
import json
import os
import pathlib
import signal
import sys
import tempfile

sys.dont_write_bytecode = True
import contestants
import report
from contestants import CONTESTANTS, Bench, Failure, Model

CORES = 2
SLOW_TO_START = ("compile", "tracer")
MODELS = {name: Model(name, f"hf:{name}", "", batch=8, seq=128) for name in ("gpt2", "bert", "vit", "resnet-50")}
TINY = {
    "gpt2": "n_layer=2,n_embd=32,n_head=4,vocab_size=128,n_positions=64",
    "bert": "num_hidden_layers=2,hidden_size=32,num_attention_heads=4,intermediate_size=64,vocab_size=128",
    "vit": "num_hidden_layers=2,hidden_size=32,num_attention_heads=4,intermediate_size=64,image_size=32",
    "resnet-50": "embedding_size=16,hidden_sizes=[16,32],depths=[1,2]",
}
RESULTS = pathlib.Path(__file__).resolve().parents[2] / "docs/results.md"


def main():
    options = parse()
    # Plans of several gigabytes must not stay behind.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    # Children inherit it.
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])
    before = os.getloadavg()[0]
    results = {model.name: compete(options, model) for model in models(options)}
    overhead = executor_overhead(options)
    how = ("Default configurations, seeded; batches of 8, texts of 128 tokens. Every contestant in a fresh process, one after "
           f"another; medians of {options.rounds} such rounds, ratios of each round's own times. Back to back means "
           f"{options.repeat} batches, among which the pipeline of two devices is filled and emptied once.")
    found = report.text(results, overhead, how, (before, os.getloadavg()[0]))
    print(found)
    page = report.put(RESULTS.read_text(), found)
    if options.models == [*MODELS] and not options.quick:
        RESULTS.write_text(page)
    if options.quick and any(isinstance(rounds, str) for names in results.values() for rounds in names.values()):
        raise SystemExit(1)


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", type=pathlib.Path, default="build/bin", help="the folder of our executables")
    parser.add_argument("--models", type=lambda text: text.split(","), help=f"of {','.join(MODELS)}; all")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--repeat", type=int, default=12, help="batches in a round")
    parser.add_argument("--quick", action="store_true", help="tiny models, one round, writes nothing")
    options = parser.parse_args()
    options.models = options.models or (["gpt2"] if options.quick else [*MODELS])
    if unknown := set(options.models) - set(MODELS):
        parser.error(f"no such model as {', '.join(sorted(unknown))}, expected {', '.join(MODELS)}")
    if options.quick:
        options.rounds, options.repeat = 1, 2
    return options


def models(options):
    for name in options.models:
        model = MODELS[name]
        yield Model(name, model.source, TINY[name], model.batch, seq=16) if options.quick else model


def compete(options, model):
    """By contestant, its measurements, or why there are none."""
    taking_part = {name: contestant for name, contestant in CONTESTANTS.items()
                   if not (options.quick and name in SLOW_TO_START)}
    with tempfile.TemporaryDirectory(prefix="cleave-bench-") as folder:
        bench = Bench(options.bin, pathlib.Path(folder), model, options.repeat)
        bench.trace()
        found = collections.defaultdict(list)
        for name, contestant in taking_part.items():
            with failing(found, name):
                contestant.prepare(bench)
        for number in range(options.rounds):
            for name, contestant in taking_part.items():
                if isinstance(found[name], list):
                    print(f"{model.name}, round {number + 1}: {contestant.label}", file=sys.stderr, flush=True)
                    with failing(found, name):
                        found[name].append(contestant.measure(bench))
    return found


@contextlib.contextmanager
def failing(found, name):
    try:
        yield
    except Failure as failure:
        found[name] = str(failure)


def executor_overhead(options):
    """Nanoseconds an operation, by chain of operations and way to run it."""
    seconds = 0.01 if options.quick else 0.5
    printed = contestants.output([options.bin / "executorOverhead", "--benchmark_format=json", "--benchmark_repetitions=5",
                                  "--benchmark_report_aggregates_only=true", f"--benchmark_min_time={seconds}"])
    found = {}
    for entry in json.loads(printed)["benchmarks"]:
        if entry["aggregate_name"] == "median":
            chain, way = entry["run_name"].split("/")
            found.setdefault(chain, {})[way] = round(entry["per_op"] * 1e9)
    return found


if __name__ == "__main__":
    main()
