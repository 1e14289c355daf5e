#!/usr/bin/env python3
"""What `cleave simulate --train` forecasts of training steps on this machine, as `cleave profile` measures it, against the steps.

usage: training_prediction.py [--bin build/bin] [--models gpt2,bert,llama] [--rounds 3] [--quick]
In each round the machine is measured as one device and as two; then each model is forecast, compiled for that and trained in a fresh
process, over each mesh. As in prediction.py, the fastest run of all rounds is compared with the fastest forecast. Prints Markdown, and
puts it into docs/results.md when all models took part.
"""

import argparse
import dataclasses
import json
import pathlib
import sys
import tempfile

sys.dont_write_bytecode = True
import report
import rounds
from contestants import output
from prediction import Limits, furthest, in_rounds, measure_machine, tables
from training import MODELS as TRAINED, TrainingPlan

BATCH = 8
MODELS = {name: dataclasses.replace(TRAINED[name], batch=BATCH) for name in ("gpt2", "bert", "llama")}
# The mesh, micro-batches and schedule by name.
MESHES = {"one device": ("pp=1", 1, "gpipe"), "pp=2, 1F1B": ("pp=2", BATCH, "1f1b"), "pp=2, GPipe": ("pp=2", BATCH, "gpipe"),
          "pp=2, ZB-H1": ("pp=2", BATCH, "zb-h1"), "tp=2": ("tp=2", 1, "gpipe"), "tp=2, 4 micro-batches": ("tp=2", 4, "gpipe")}
LIMITS = Limits(mean=8, worst=15, bytes=3, too_few=3)


@dataclasses.dataclass(frozen=True)
class Forecast(TrainingPlan):
    """A plan for a measured machine, and what was forecast of it."""

    def options(self, bench):
        return [bench.traced, "--inputs", bench.inputs, "--train", "--mesh", self.mesh, "--microbatches", self.microbatches,
                *(["--schedule", self.schedule] if "pp=2" in self.mesh else []), "--machine", self.machine]

    def prepare(self, bench):
        output([bench.tools / "cleave", "compile", *self.options(bench), "-o", self.plan(bench)])

    def measure(self, bench):
        forecast = json.loads(output([bench.tools / "cleave", "simulate", *self.options(bench), "--json"]))
        stages = json.loads(output([bench.tools / "cleave", "inspect", self.plan(bench), "--json"]))["stages"]
        trained = self.train(bench)
        width = len(trained["devices"]) // len(stages)
        return {"seconds": self.mean_step(trained), "predicted": forecast["seconds"],
                "bytes": furthest(stage["predicted_peak_bytes"] / trained["devices"][index * width]["peak_bytes"]
                                  for index, stage in enumerate(stages))}


def main():
    parser = rounds.arguments(__doc__.splitlines()[0], MODELS)
    parser.set_defaults(rounds=3)
    parser.add_argument("--steps", type=int, default=3)
    options = rounds.parse(parser, MODELS)
    rounds.take_cores()
    before = report.load()
    results = in_rounds(options, one_round)
    how = (f"Default configurations (Llama of 12 layers, 768 wide), seeded, without dropout; batches of {BATCH}, texts of 128 tokens; "
           f"AdamW. The fastest of {options.rounds} rounds, each of `cleave profile` and {options.steps} steps of every plan.")
    found = "\n\n".join([f"{report.machine(before)}. {how}", *tables(results, MESHES, LIMITS),
                          *report.failures(results, plans_for({}))])
    rounds.conclude(options, MODELS, "training_prediction", results, found)


def one_round(options):
    """By model and mesh, a run and what was forecast of it."""
    once = argparse.Namespace(**{**vars(options), "rounds": 1})
    with tempfile.TemporaryDirectory(prefix="cleave-machines-") as folder:
        machines = {count: measure_machine(options, pathlib.Path(folder) / f"{count}.json", count) for count in (1, 2)}
        found = {}
        for name in options.models:
            model = MODELS[name].tiny() if options.quick else MODELS[name]
            runs = rounds.compete(once, model, plans_for(machines), 2 if options.quick else options.steps)
            found[name] = {mesh: only if isinstance(only := runs[mesh], str) else only[0] for mesh in MESHES}
    return found


def plans_for(machines):
    return {name: Forecast(name, mesh, microbatches, schedule=schedule, machine=machines.get(1 if mesh == "pp=1" else 2))
            for name, (mesh, microbatches, schedule) in MESHES.items()}


main()
