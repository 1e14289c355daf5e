#!/usr/bin/env python3
"""Cleave as two processes of one thread each, over Gloo, against torch.distributed.pipelining's two and eager with two threads.

usage: processes.py [--bin build/bin] [--models gpt2,bert] [--rounds 5] [--repeat 6] [--quick]
`cleave profile` measures the machine first, and plans are for that. In each round every contestant runs once, on batches of 8.
Prints Markdown, and puts it into docs/results.md when all models took part.
--quick takes one round of a tiny GPT-2, writes nothing, and fails if a contestant does.
"""

import pathlib
import sys
import tempfile

sys.dont_write_bytecode = True
import report
import rounds
from contestants import Model, Peer, Plan, Processes
from prediction import measure_machine

MODELS = {name: Model(name, f"hf:{name}", "", batch=8, seq=128) for name in ("gpt2", "bert")}
# (what, of whom, compared with whom, times as fast)
WANTED = [
    ("as fast as torch.distributed.pipelining by hand", "processes8", "hand", 1.35),
    ("as fast as eager", "processes8", "eager", 1.0),
    ("as fast as devices of one process", "processes8", "threads8", 0.95),
    ("as fast as devices of one process, back to back", "processes", "threads", 0.95),
]
BUBBLE_POINTS = 3


def contestants_on(machine):
    whole, halves = "one batch in 8 micro-batches", "batches back to back, each in 2 micro-batches"
    return {
        "eager": Peer("eager, 2 threads", "eager.py", threads=2),
        "hand": Peer(f"torch.distributed.pipelining, two processes, stages by hand, {whole}", "pipelining_by_hand.py",
                     threads=1, microbatches=8),
        "threads8": Plan(f"Cleave, two devices of one process, {whole}", "pp=2", 8, alone=True, machine=machine),
        "processes8": Processes(f"Cleave, two processes, {whole}", "pp=2", 8, alone=True, machine=machine),
        "threads": Plan(f"Cleave, two devices of one process, {halves}", "pp=2", 2, machine=machine),
        "processes": Processes(f"Cleave, two processes, {halves}", "pp=2", 2, machine=machine),
    }


def main():
    parser = rounds.arguments(__doc__.splitlines()[0], MODELS)
    parser.add_argument("--repeat", type=int, default=6, help="batches in a round")
    options = rounds.parse(parser, MODELS)
    if options.quick:
        options.repeat = 2
    rounds.take_cores()
    before = report.load()
    models = [MODELS[name].tiny() if options.quick else MODELS[name] for name in options.models]
    with tempfile.TemporaryDirectory(prefix="cleave-machines-") as folder:
        contestants = contestants_on(measure_machine(options, pathlib.Path(folder) / "two.json", 2))
        results = {model.name: rounds.compete(options, model, contestants, options.repeat) for model in models}
    found = "\n\n".join([
        f"{report.machine(before)}. Default configurations, seeded; batches of 8, texts of 128 tokens; plans "
        f"for the machine as `cleave profile` measured it. Medians of {options.rounds} rounds, ratios of each round's own times.",
        report.speeds(results, contestants),
        report.table([["wanted", *results], *wanted_rows(results)]),
        *report.failures(results, contestants)])
    rounds.conclude(options, MODELS, "processes", results, found)


def wanted_rows(results):
    for what, name, other, least in WANTED:
        yield [f"{what}: ≥ {least}", *(report.against(found, name, [other], least) for found in results.values())]
    yield [f"bubble of 8 micro-batches, by formula: within {BUBBLE_POINTS} points",
           *(report.bubble(found, "processes8", BUBBLE_POINTS) for found in results.values())]


if __name__ == "__main__":
    main()
