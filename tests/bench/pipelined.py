#!/usr/bin/env python3
"""Cleave on two cores against eager, TorchScript, torch.compile and torch.distributed.pipelining.

usage: pipelined.py [--bin build/bin] [--models gpt2,bert,vit,resnet-50] [--rounds 5] [--repeat 12] [--quick]
In each round every contestant runs once, in a fresh process, on batches of 8. Prints Markdown, and puts it into
docs/results.md when all models took part. --quick takes one round of a tiny GPT-2 without those who take long to start (torch.compile, the tracer),
writes nothing, and fails if a contestant does.
"""

import json
import sys

sys.dont_write_bytecode = True
import contestants
import report
import rounds
from contestants import Model, Peer, Plan

CONTESTANTS = {
    "eager": Peer("eager, 2 threads", "eager.py", threads=2),
    "torchscript": Peer("TorchScript, frozen, 2 threads", "torchscript.py", threads=2),
    "compile": Peer("torch.compile, 2 threads", "compiled.py", threads=2),
    "hand": Peer("torch.distributed.pipelining by hand, one batch in 8 micro-batches", "pipelining_by_hand.py",
                 threads=1, microbatches=8),
    "tracer": Peer("torch.distributed.pipelining by its tracer, one batch in 8 micro-batches",
                   "pipelining_by_tracer.py", threads=1, microbatches=8),
    "one": Plan("Cleave, one device, 2 threads", "pp=1"),
    "two": Plan("Cleave, two devices, batches back to back, each in 2 micro-batches", "pp=2", microbatches=2),
    "in4": Plan("Cleave, two devices, one batch in 4 micro-batches", "pp=2", microbatches=4, alone=True),
    "in8": Plan("Cleave, two devices, one batch in 8 micro-batches", "pp=2", microbatches=8, alone=True),
}
SLOW_TO_START = ("compile", "tracer")
MODELS = {name: Model(name, f"hf:{name}", "", batch=8, seq=128) for name in ("gpt2", "bert", "vit", "resnet-50")}
# (what, of whom, compared with whom, times as fast)
WANTED = [
    ("one device, as fast as eager", "one", "eager", 1.15),
    ("one device, as fast as frozen TorchScript", "one", "torchscript", 1.1),
    ("two devices, batches back to back, throughput of eager", "two", "eager", 1.25),
    ("two devices, one batch in 8 micro-batches, as fast as eager", "in8", "eager", 1.1),
    ("the same, as fast as torch.distributed.pipelining by hand", "in8", "hand", 1.3),
]
BUBBLE_POINTS = 3
OVERHEAD_NS = 1500


def main():
    options = parse()
    rounds.take_cores()
    before = report.load()
    taking_part = {name: contestant for name, contestant in CONTESTANTS.items()
                   if not (options.quick and name in SLOW_TO_START)}
    results = {model.name: rounds.compete(options, model, taking_part, options.repeat) for model in models(options)}
    overhead = executor_overhead(options)
    how = ("Default configurations, seeded; batches of 8, texts of 128 tokens. Every contestant in a fresh process, one after "
           f"another; medians of {options.rounds} such rounds, ratios of each round's own times. Back to back means "
           f"{options.repeat} batches, among which the pipeline of two devices is filled and emptied once.")
    found = "\n\n".join([
        f"{report.machine(before)}. {how}",
        report.speeds(results, CONTESTANTS),
        report.table([["wanted", *results], *wanted_rows(results)]),
        report.table([["executor, ns an operation", "plan", "C++ calls", "TorchScript", f"above (≤ {OVERHEAD_NS:,})"],
                      *overhead_rows(overhead)]),
        *report.failures(results, CONTESTANTS)])
    rounds.conclude(options, MODELS, "pipelined", results, found)


def parse():
    parser = rounds.arguments(__doc__.splitlines()[0], MODELS)
    parser.add_argument("--repeat", type=int, default=12, help="batches in a round")
    options = rounds.parse(parser, MODELS)
    if options.quick:
        options.repeat = 2
    return options


def models(options):
    return [MODELS[name].tiny() if options.quick else MODELS[name] for name in options.models]


def wanted_rows(results):
    for what, name, other, least in WANTED:
        yield [f"{what}: ≥ {least}", *(report.against(found, name, [other], least) for found in results.values())]
    for name in ("in4", "in8"):
        yield [f"bubble of {CONTESTANTS[name].microbatches} micro-batches, by formula: within {BUBBLE_POINTS} points",
               *(report.bubble(found, name, BUBBLE_POINTS) for found in results.values())]


def overhead_rows(overhead):
    for chain, ways in overhead.items():
        yield [chain, *map(str, (ways["plan"], ways["direct"], ways["torchscript"], ways["plan"] - ways["direct"]))]


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
