#!/usr/bin/env python3
"""Whether `--mesh auto` chooses the best of all meshes, schedules and numbers of micro-batches on two CPU devices of this machine.

usage: chosen_mesh.py [--bin build/bin] [--models gpt2,resnet-50] [--rounds 9] [--quick]
The machine is measured by `cleave profile`, a core a device. Each configuration is compiled for it; then, in each round, every one
runs a step alone in a fresh process, one after another, and so does the plan of `--mesh auto`, which is one of them: how far these
two are apart is the noise. Ratios are of one round; their medians have intervals of 95 % (of order statistics, which suppose
nothing). Prints Markdown, and fails where a configuration takes distinguishably less than the chosen one. Plans of GPT-2 take 9 GB
of TMPDIR. --quick measures and runs a tiny GPT-2 for a moment, and fails only if a plan does.
"""

import dataclasses
import json
import math
import pathlib
import statistics
import sys
import tempfile

sys.dont_write_bytecode = True
import contestants
import report
import rounds
from contestants import Model, Plan
from prediction import measure_machine

BATCH = 8
MODELS = {name: Model(name, f"hf:{name}", "", batch=BATCH, seq=128) for name in ("gpt2", "resnet-50")}
MESHES = {"pp=1,tp=1": ["gpipe"], "pp=1,tp=2": ["gpipe"], "pp=2,tp=1": ["gpipe", "interleaved"]}
AUTO = "auto"


@dataclasses.dataclass(frozen=True)
class Configured(Plan):
    """A plan for the measured machine; of `--mesh auto`, with whatever that finds."""
    schedule: str = "gpipe"
    alone: bool = True

    def plan(self, bench):
        return bench.folder / f"{self.label}.plan"

    def prepare(self, bench):
        fixed = ["--devices", self.threads, "--schedule", self.schedule, "--microbatches", self.microbatches]
        contestants.output([bench.tools / "cleave", "compile", bench.traced, "--inputs", bench.inputs, "--mesh", self.mesh,
                            "--machine", self.machine, *([] if self.mesh == AUTO else fixed), "-o", self.plan(bench)])

    def measure(self, bench):
        forecast = json.loads(contestants.output([bench.tools / "cleave", "simulate", self.plan(bench), "--json"]))
        shape = json.loads(contestants.output([bench.tools / "cleave", "inspect", self.plan(bench), "--json"]))["mesh"]
        found = name_of(f"pp={shape['pp']},tp={shape['tp']}", forecast["schedule"], forecast["microbatches"])
        # A core a device, also where one is left unused.
        run = dataclasses.replace(self, threads=len(forecast["devices"])).run(bench)
        return {"seconds": run["seconds_alone"], "predicted": forecast["seconds"], "configuration": found}


def name_of(mesh, schedule, microbatches):
    return f"{mesh}, {schedule}, {microbatches}"


def configurations(machine):
    yield AUTO, Configured(AUTO, AUTO, machine=machine)
    for mesh, schedules in MESHES.items():
        devices = math.prod(int(axis[3:]) for axis in mesh.split(","))
        for schedule in schedules:
            for microbatches in (1, 2, 4, 8):
                name = name_of(mesh, schedule, microbatches)
                yield name, Configured(name, mesh, microbatches, threads=devices, schedule=schedule, machine=machine)


def main():
    parser = rounds.arguments(__doc__.splitlines()[0], MODELS)
    parser.set_defaults(rounds=9)
    options = rounds.parse(parser, MODELS)
    rounds.take_cores()
    before = report.load()
    with tempfile.TemporaryDirectory(prefix="cleave-machines-") as folder:
        plans = dict(configurations(measure_machine(options, pathlib.Path(folder) / "two.json", 2)))
        results = {}
        for name in options.models:
            model = MODELS[name].tiny() if options.quick else MODELS[name]
            results[name] = rounds.compete(options, model, plans, 1)
            print(judged(name, results[name]), end="\n\n", flush=True)
    how = (f"Default configurations, seeded; batches of {BATCH}, texts of 128 tokens; a step alone, a core a device, every run in a fresh "
           f"process; medians of {options.rounds} rounds with intervals of 95 %.")
    print("\n\n".join([f"{report.machine(before)}. {how}", *report.failures(results, plans)]))
    wrong = [found for found in results.values() if not report.measured(found, AUTO) or better(found)]
    sys.exit(rounds.any_failed(results) if options.quick else bool(wrong))


def interval(values):
    """Their median, and an interval that holds the true one in 95 % of all cases, or all values where they are few."""
    values = sorted(values)
    n = len(values)
    outside = max([0] + [k for k in range(1, n // 2) if 2 * sum(math.comb(n, i) for i in range(k + 1)) <= 0.05 * 2**n])
    return statistics.median(values), values[outside], values[n - 1 - outside]


def times(found, name):
    """Its seconds as multiples of the chosen one's."""
    return interval(theirs["seconds"] / ours["seconds"] for ours, theirs in zip(found[AUTO], found[name]))


def better(found):
    """Configurations that take less than the chosen one, by more than the noise."""
    return [name for name in found if name != AUTO and report.measured(found, name) and times(found, name)[2] < 1]


def judged(model, found):
    if not report.measured(found, AUTO):
        return f"**{model}**: nothing was chosen."
    chosen = found[AUTO][0]["configuration"]
    seconds = {name: interval(one["seconds"] for one in found[name]) for name in found if report.measured(found, name)}
    rows = [["mesh, schedule, micro-batches", "predicted ms", "measured ms", "of the chosen one's time"]]
    for name in sorted(seconds, key=lambda name: seconds[name][0]):
        label = f"{AUTO}: {chosen}" if name == AUTO else f"{name}, chosen" if name == chosen else name
        rows.append([label, f"{1000 * found[name][0]['predicted']:.4g}", spread(seconds[name], 1000), spread(times(found, name))])
    best = min((name for name in seconds if name != AUTO), key=lambda name: seconds[name][0])
    others = better(found)
    verdict = (f"short: {', '.join(others)} take less" if others else "which is the best" if best == chosen
               else f"not distinguishable from the best, {best}")
    return f"**{model}**: chosen is {chosen}, {verdict}.\n\n{report.table(rows)}"


def spread(found, scale=1):
    median, low, high = (scale * value for value in found)
    return f"{median:.4g} ({low:.4g} to {high:.4g})"


if __name__ == "__main__":
    main()
