#!/usr/bin/env python3
"""Cleave's tp=2 on two cores against eager, the package tensor_parallel and DTensor's parallelize_module.

usage: tensor_parallel.py [--bin build/bin] [--models gpt2,bert] [--rounds 5] [--quick]
In each round every contestant runs once, in a fresh process. Then a feed-forward block of 8192 wide is compiled for 1, 2, 4
and 8 ranks, and what each holds is compared with its share. Prints Markdown, and puts it into docs/results.md when all
models took part. --quick takes one round of a tiny GPT-2 and a small block, leaves out the package, which has to be
downloaded, writes nothing, and fails if a contestant does.
"""

import dataclasses
import pathlib
import sys

sys.dont_write_bytecode = True
import contestants
import report
import rounds
import split_block
from contestants import Model, Peer, Plan

HERE = pathlib.Path(__file__).resolve().parent
REQUIREMENTS = HERE / "requirements-tensor_parallel.txt"
PACKAGES = HERE.parents[1] / "build/peers/tensor_parallel"


@dataclasses.dataclass(frozen=True)
class Package(Peer):
    """A peer with packages of its own, transformers among them, so that it reads the model from a checkpoint."""

    def prepare(self, bench):
        install()
        dataclasses.replace(self, packages=None).output("checkpoint.py", bench)


def install():
    # The stamp is written last: what was broken off starts again.
    stamp = PACKAGES / "requirements.stamp"
    if stamp.exists() and stamp.read_text() == REQUIREMENTS.read_text():
        return
    print(f"installing {REQUIREMENTS.name} into {PACKAGES}", file=sys.stderr, flush=True)
    contestants.output([sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--upgrade", "--target", PACKAGES,
                        "--requirement", REQUIREMENTS])
    stamp.write_text(REQUIREMENTS.read_text())


CONTESTANTS = {
    "eager": Peer("eager, 2 threads", "eager.py", threads=2),
    "package": Package("tensor_parallel 2.0.0, two CPU devices", "two_threads.py", threads=1,
                       packages=PACKAGES),
    "dtensor": Peer("DTensor `parallelize_module`, two Gloo ranks", "dtensor.py", threads=1),
    "one": Plan("Cleave, one device, 2 threads", "pp=1"),
    "tp": Plan("Cleave, tp=2, batches back to back", "tp=2"),
    "alone": Plan("Cleave, tp=2, one batch at a time (mean of 3)", "tp=2", alone=True),
}
DOWNLOADED = ("package",)
MODELS = ("gpt2", "bert")
# (batch, tokens, batches in a round)
SHAPES = [(1, 8, 100), (4, 128, 10), (8, 128, 6)]
TINY_SHAPE = (2, 16, 2)
# (what, compared with the fastest of whom, times as fast by batch)
WANTED = [
    ("tp=2, as fast as eager", ["eager"], {4: 1, 8: 1}),
    ("tp=2, as fast as the better of tensor_parallel and DTensor", ["package", "dtensor"], {1: 2, 4: 1.4, 8: 1.4}),
]
BLOCK, SMALL_BLOCK = 8192, 1024


def main():
    options = rounds.parse(rounds.arguments(__doc__.splitlines()[0], MODELS), MODELS)
    rounds.take_cores()
    before = report.load()
    taking_part = {name: contestant for name, contestant in CONTESTANTS.items()
                   if not (options.quick and name in DOWNLOADED)}
    shapes = [TINY_SHAPE] if options.quick else SHAPES
    models = {name: shaped(options, *name) for name in ((model, *shape) for model in options.models for shape in shapes)}
    results = {model.name: rounds.compete(options, model, taking_part, steps=name[-1]) for name, model in models.items()}
    width = SMALL_BLOCK if options.quick else BLOCK
    held = split_block.measure(options.bin, width)
    counts = ", ".join(f"{steps} of {batch} × {seq}" for batch, seq, steps in shapes)
    how = ("Default configurations, seeded; batch × tokens. Every contestant in a fresh process, warm, one after another; "
           f"medians of {options.rounds} such rounds of {counts}, ratios of each round's own times.")
    found = "\n\n".join([
        f"{report.machine(before)}. {how}",
        report.speeds(results, CONTESTANTS),
        report.table([["wanted", *results], *wanted_rows(models, results)]),
        f"A feed-forward block, three float32 matrices of {width} × {width}, batch 8:",
        split_block.table(held, width),
        *report.failures(results, CONTESTANTS)])
    rounds.conclude(options, MODELS, "tensor_parallel", results, found)


def shaped(options, name, batch, seq, _):
    model = Model(f"{name} {batch} × {seq}", f"hf:{name}", "", batch, seq)
    return model.tiny() if options.quick else model


def wanted_rows(models, results):
    for what, others, least in WANTED:
        yield [what, *(f"≥ {least[model.batch]}: {report.against(results[model.name], 'tp', others, least[model.batch])}"
                       if model.batch in least else "–" for model in models.values())]


if __name__ == "__main__":
    main()
