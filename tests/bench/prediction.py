#!/usr/bin/env python3
"""What Cleave predicts of plans on this machine, as `cleave profile` measures it, against runs of them.

usage: prediction.py [--bin build/bin] [--models gpt2,bert,resnet-50,llama] [--rounds 4] [--quick]
In each round the machine is measured as one device and as two; then each model, for batches of 1 and of 8 samples, is compiled for
that and run in a fresh process, and the time of a step (batches back to back, of which the first fills the pipeline) and the bytes at
most are compared with what was predicted. What else a host does adds to times, for seconds or for minutes, and takes nothing from
them (Chen and Revels 2016, arXiv:1608.04295): the fastest run of all rounds is compared with the fastest prediction, and both have
seen the host at as many moments, for minutes each round. Prints Markdown, and puts it into docs/results.md when all models took part.
--quick measures and runs a tiny GPT-2 for a moment, writes nothing, and fails if a plan does.
"""

import argparse
import dataclasses
import json
import pathlib
import statistics
import sys
import tempfile

sys.dont_write_bytecode = True
import contestants
import report
import rounds
from contestants import Model, Plan

LLAMA = "num_hidden_layers=8,hidden_size=768,intermediate_size=2048,num_attention_heads=12,num_key_value_heads=12"
MODELS = {name: Model(name, f"hf:{name}", config, batch=1, seq=128)
          for name, config in {"gpt2": "", "bert": "", "resnet-50": "", "llama": LLAMA}.items()}
BATCHES = {1: 10, 8: 3}  # steps of a run, few enough to be undisturbed now and then
MESHES = {"pp=1": 1, "pp=2": 2, "tp=2": 2}  # devices


@dataclasses.dataclass(frozen=True)
class Limits:
    """Percent: errors of steps in the mean and at worst, of bytes in either direction, and of bytes that are too few."""
    mean: int
    worst: int
    bytes: int
    too_few: int


LIMITS = Limits(mean=8, worst=15, bytes=5, too_few=2)


@dataclasses.dataclass(frozen=True)
class Predicted(Plan):
    """A plan for a measured machine."""

    def prepare(self, bench):
        contestants.output([bench.tools / "cleave", "compile", bench.traced, "--inputs", bench.inputs, "--mesh", self.mesh,
                            "--machine", self.machine, "-o", self.plan(bench)])

    def measure(self, bench):
        def of(*command):
            return json.loads(contestants.output([bench.tools / "cleave", *command, self.plan(bench), "--json"]))

        alone, run = of("simulate"), self.run(bench)
        slowest = max(stage["predicted_seconds"] for stage in of("inspect")["stages"])
        return {"seconds": run["seconds"],
                # The first batch passes all stages, the others follow at the pace of the slowest.
                "predicted": (alone["seconds"] + (bench.steps - 1) * slowest) / bench.steps,
                # Of the device that is furthest off.
                "bytes": furthest(predicted["peak_bytes"] / device["peak_bytes"]
                                  for predicted, device in zip(alone["devices"], run["devices"], strict=True))}


def main():
    parser = rounds.arguments(__doc__.splitlines()[0], MODELS)
    parser.set_defaults(rounds=4)
    options = rounds.parse(parser, MODELS)
    rounds.take_cores()
    before = report.load()
    results = in_rounds(options, one_round)
    how = ("Default configurations, seeded (Llama of 8 layers, 768 wide); texts of 128 tokens. Batches back to back, every run in a "
           f"fresh process; the fastest of {options.rounds} rounds, each of `cleave profile` and a run of every plan.")
    found = "\n\n".join([f"{report.machine(before)}. {how}", *tables(results), *report.failures(results, plans_for({}))])
    rounds.conclude(options, MODELS, "prediction", results, found)


def in_rounds(options, one_round):
    """By model and mesh, what `one_round(options)` gives in each round; or why a plan failed in one of them."""
    results = {}
    for number in range(options.rounds):
        print(f"round {number + 1} of {options.rounds}", file=sys.stderr, flush=True)
        for model, found in one_round(options).items():
            for mesh, runs in found.items():
                results.setdefault(model, {}).setdefault(mesh, []).append(runs)
                if not isinstance(runs, str):
                    print(f"{model}, {mesh}: {runs['predicted']:.4g} of {runs['seconds']:.4g} s", file=sys.stderr, flush=True)
    return {model: {mesh: next((runs for runs in found if isinstance(runs, str)), found) for mesh, found in of_mesh.items()}
            for model, of_mesh in results.items()}


def one_round(options):
    """By model and mesh, a run and what was predicted of it."""
    once = argparse.Namespace(**{**vars(options), "rounds": 1})
    with tempfile.TemporaryDirectory(prefix="cleave-machines-") as folder:
        machines = {count: measure_machine(options, pathlib.Path(folder) / f"{count}.json", count) for count in (1, 2)}
        found = {}
        for name in options.models:
            for batch, steps in BATCHES.items():
                model = dataclasses.replace(MODELS[name], name=f"{name}, batch {batch}", batch=batch)
                model = model.tiny() if options.quick else model
                runs = rounds.compete(once, model, plans_for(machines), 2 if options.quick else steps)
                found[model.name] = {mesh: only if isinstance(only := runs[mesh], str) else only[0] for mesh in MESHES}
    return found


def furthest(ratios):
    """From one."""
    return max(ratios, key=lambda ratio: abs(ratio - 1))


def plans_for(machines):
    return {mesh: Predicted(mesh, mesh, machine=machines.get(count)) for mesh, count in MESHES.items()}


def measure_machine(options, path, count):
    print(f"measuring {count} of the devices", file=sys.stderr, flush=True)
    devices = ",".join(f"cpu:{index}" for index in range(count))
    contestants.output([options.bin / "cleave", "profile", "--devices", devices, "-o", path, *["--quick"] * options.quick])
    return path


def tables(results, meshes=MESHES, limits=LIMITS):
    runs = [(model, mesh, found[mesh]) for model, found in results.items() for mesh in meshes if report.measured(found, mesh)]

    def of_rounds(choose):
        """Predicted and measured seconds."""
        return {(model, mesh): [choose(one[of] for one in found) for of in ("predicted", "seconds")] for model, mesh, found in runs}

    def errors(choose):
        return [100 * abs(predicted / measured - 1) for predicted, measured in of_rounds(choose).values()]

    seconds = of_rounds(min)
    ratios = {(model, mesh): furthest(one["bytes"] for one in found) for model, mesh, found in runs}

    def step(key):
        predicted, measured = seconds[key]
        return f"{1000 * predicted:.4g} of {1000 * measured:.4g} ms, {100 * (predicted / measured - 1):+.1f} %"

    def rows(of, cell):
        return [[model, *(cell((model, mesh)) if (model, mesh) in of else "–" for mesh in meshes)] for model in results]

    yield report.table([["a step, predicted of measured", *meshes], *rows(seconds, step)])
    yield report.table([["bytes at most, predicted / measured", *meshes], *rows(ratios, lambda key: f"{ratios[key]:.4f}")])
    bytes_off = [100 * (ratio - 1) for ratio in ratios.values()]
    if runs:
        usual = errors(statistics.median)
        yield report.table([["wanted", "found"],
                            wanted("error of steps, mean", statistics.mean(errors(min)), limits.mean),
                            wanted("error of steps, worst", max(errors(min)), limits.worst),
                            ["the same of medians of rounds, mean and worst", f"{statistics.mean(usual):.1f} and {max(usual):.1f} %"],
                            wanted("error of bytes, worst", max(map(abs, bytes_off)), limits.bytes),
                            wanted("bytes too few, worst", max(0, -min(bytes_off)), limits.too_few)])


def wanted(what, found, most):
    return [f"{what}: ≤ {most} %", f"{found:.1f} %" + ("" if found <= most else ", short")]


if __name__ == "__main__":
    main()
