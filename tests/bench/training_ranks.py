#!/usr/bin/env python3
"""A training step over two pipeline stages, and over two tensor-parallel ranks, of one thread each, without dropout: Cleave against
eager PyTorch with two threads, torch.distributed.pipelining, the package tensor_parallel and DTensor's parallelize_module.

usage: training_ranks.py [--bin build/bin] [--models gpt2,bert,llama] [--rounds 3] [--steps 3] [--quick]
In each round every contestant runs once, in a fresh process. Prints Markdown, and puts it into docs/results.md when all models took
part. --quick leaves out the package, which has to be downloaded, writes nothing, and fails if a contestant does.
"""

import dataclasses
import sys

sys.dont_write_bytecode = True
import report
import rounds
from contestants import Peer
from tensor_parallel import DOWNLOADED, PACKAGES, Package
from training import MODELS as TRAINED, TrainingPlan

BATCH = 8
MODELS = {name: dataclasses.replace(TRAINED[name], batch=BATCH) for name in ("gpt2", "bert", "llama")}
CONTESTANTS = {
    "eager": Peer("eager, 2 threads", "train_eager.py", threads=2),
    "pipelining": Peer("torch.distributed.pipelining, Schedule1F1B, stages by hand", "train_pipelining.py", threads=1, microbatches=BATCH),
    "package": Package("tensor_parallel 2.0.0, two CPU devices", "train_two_threads.py", threads=1, packages=PACKAGES),
    "dtensor": Peer("DTensor `parallelize_module`, two Gloo ranks", "train_dtensor.py", threads=1),
    "1f1b": TrainingPlan("Cleave, pp=2, 1F1B", "pp=2", BATCH),
    "zb-h1": TrainingPlan("Cleave, pp=2, ZB-H1", "pp=2", BATCH, schedule="zb-h1"),
    "interleaved": TrainingPlan("Cleave, pp=2, interleaved", "pp=2", BATCH, schedule="interleaved"),
    "tp": TrainingPlan("Cleave, tp=2", "tp=2"),
}
# What is compared, the contestant, those of which the fastest is compared with it, and how many times as fast it should be.
WANTED = [
    ("pp=2 in 1F1B, speed relative to torch.distributed.pipelining", "1f1b", ["pipelining"], 1.4),
    ("tp=2, speed relative to the better of tensor_parallel and DTensor", "tp", ["package", "dtensor"], 1.4),
    ("pp=2 in 1F1B, speed relative to eager", "1f1b", ["eager"], 1.05),
    ("tp=2, speed relative to eager", "tp", ["eager"], 1.05),
    ("ZB-H1, speed relative to 1F1B", "zb-h1", ["1f1b"], 1.0),
    ("interleaved, speed relative to 1F1B", "interleaved", ["1f1b"], 1.0),
]


def main():
    parser = rounds.arguments(__doc__.splitlines()[0], MODELS)
    parser.set_defaults(rounds=3)
    parser.add_argument("--steps", type=int, default=3)
    options = rounds.parse(parser, MODELS)
    rounds.take_cores()
    before = report.load()
    taking_part = {name: contestant for name, contestant in CONTESTANTS.items() if not (options.quick and name in DOWNLOADED)}
    results = {name: rounds.compete(options, MODELS[name].tiny() if options.quick else MODELS[name], taking_part,
                                    2 if options.quick else options.steps) for name in options.models}
    wanted = [[f"{what}: ≥ {least}", *(report.against(found, name, others, least) for found in results.values())]
              for what, name, others, least in WANTED]
    found = "\n\n".join([
        f"{report.machine(before)}. Default configurations (Llama of 12 layers, 768 wide), seeded, without dropout; batches of {BATCH}, "
        f"texts of 128 tokens, {BATCH} micro-batches where there are stages; AdamW. Medians of {options.rounds} rounds of {options.steps} "
        "steps, ratios of each round's own times.",
        report.speeds(results, CONTESTANTS), report.table([["wanted", *results], *wanted]), *report.failures(results, CONTESTANTS)])
    rounds.conclude(options, MODELS, "training_ranks", results, found)


main()
