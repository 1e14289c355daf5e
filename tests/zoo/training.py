"""Training of every architecture that PyTorch can trace in training mode, small, over a mesh that its name draws.

Each has its dropouts at 0 and a loss of all its outputs. `compile --train --verify` holds three steps of the plan to PyTorch's own:
losses, gradients, their norm, and the weights. Where a mesh is refused, one device is tried. Each model adds one line of JSON to
WORK/meshes.jsonl; models that are there are not run again.
"""

import collections
import copy
import json
import random
import re
import shutil

import gradients
import sweep

SECONDS = 300  # for one architecture
SEED = 977
# Options of compile.
MESHES = {"tp=2": ("--mesh", "tp=2"), "tp=3": ("--mesh", "tp=3"), "tp=4": ("--mesh", "tp=4"),
          "tp=2, 2 micro-batches": ("--mesh", "tp=2", "--microbatches", "2"),
          "tp=2, recomputed": ("--mesh", "tp=2", "--recompute", "full"),
          "pp=2": ("--mesh", "pp=2"), "pp=3,tp=2": ("--mesh", "pp=3,tp=2"), "pp=2, recomputed": ("--mesh", "pp=2", "--recompute", "full"),
          "pp=2, 1f1b": ("--mesh", "pp=2", "--microbatches", "2", "--schedule", "1f1b"),
          "pp=2, zb-h1": ("--mesh", "pp=2", "--microbatches", "2", "--schedule", "zb-h1"),
          "pp=2,tp=2, gpipe": ("--mesh", "pp=2,tp=2", "--microbatches", "2", "--schedule", "gpipe"),
          "pp=2, interleaved": ("--mesh", "pp=2", "--microbatches", "2", "--schedule", "interleaved")}
DIFFERS = "the plan differs"


def main():
    parser = sweep.parser(__doc__.splitlines()[0])
    parser.add_argument("--mesh", choices=MESHES, help="this mesh for all architectures")
    options = parser.parse_args()
    if options.one:
        print(json.dumps(TrainingCheck(options.one, options).result()))
        return
    print(summary(sweep.run(options, __file__, "meshes.jsonl", SECONDS, status_line, ["--mesh", options.mesh] if options.mesh else [])))


def status_line(found):
    return found["reason"] or f"{found['mesh']}: {found['error'] or 'same'}"


def summary(entries):
    traced = [entry for entry in entries if not entry["reason"]]
    same = collections.Counter(entry["mesh"] for entry in traced if not entry["error"])
    wrong = [entry for entry in traced if DIFFERS in entry["error"] and not entry["differs_alone"]]
    lines = [f"{len(entries)} architectures, {len(traced)} traced, {sum(same.values())} the same over a mesh, {len(wrong)} wrong"]
    lines += [f"  {mesh}: {same[mesh]} the same" for mesh in MESHES if same[mesh]]
    lines += [f"  wrong: {entry['name']} over {entry['mesh']}: {entry['error']}" for entry in wrong]
    alone = sum(bool(entry["error"]) and not entry["alone"] for entry in traced)
    lines.append(f"  {alone} refused over their mesh and the same on one device")
    reasons = collections.Counter(re.sub(r"[\w./]*\d[\w.,]*", "N", entry["error"]) for entry in traced if entry["error"])
    return "\n".join([*lines, *(f"  {count}: {reason}" for reason, count in reasons.most_common())])


class TracedTraining(sweep.Check):
    """The trace of an architecture in training mode, small, with dropouts at 0 and a loss of all its outputs."""

    def trace(self):
        """Why it cannot be traced; empty if it was."""
        import architectures
        import torch
        from cleave_trace import files, tracing

        torch.set_num_threads(1)
        gradients.disable_functional_dropout(torch.nn.functional)
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        try:
            module, example, _ = gradients.first_that_trains(self.name, architectures)
            files.write(tracing.trace(copy.deepcopy(module), example, train=True), self.path)
        except Exception as error:
            return f"{type(error).__name__}: {error}".splitlines()[0][:200]
        return ""


class TrainingCheck(TracedTraining):
    def __init__(self, name, options):
        super().__init__(name, options, "training", SECONDS)
        self.mesh = options.mesh or random.Random(f"{SEED} {name}").choice(list(MESHES))

    def result(self):
        if reason := self.trace():
            return {"reason": reason}
        error = self.trained(*MESHES[self.mesh])
        alone = self.trained() if error else ""
        if not error:
            shutil.rmtree(self.folder)
        return {"reason": "", "mesh": self.mesh, "error": error, "alone": alone, "differs_alone": DIFFERS in alone}

    def trained(self, *options):
        return self.command("cleave", "compile", self.path, "--inputs", self.inputs, "--train", "--verify", *options, "-o", "plan")


if __name__ == "__main__":
    main()
