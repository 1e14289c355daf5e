"""Outputs of modules of many architectures, captured and edited over several meshes, against PyTorch's forward hooks.

Each model is traced and compiled in a process of its own. For each mesh all capture points are read, in threads and in processes;
then a seeded choice of them is edited: set to zero, added to (per part), swapped between samples (whole). Each model adds one line of
JSON to WORK/captures.jsonl; models that are there are not run again.
"""

import collections
import json
import random
import re
import shutil

import sweep
from comparing import differences

SECONDS = 600  # for one architecture
# Options of compile, and the number of ranks.
MESHES = {"pp=4": (("--mesh", "pp=4"), 4), "tp=2": (("--mesh", "tp=2"), 2), "pp=2,tp=2": (("--mesh", "pp=2,tp=2"), 4),
          "dp=2": (("--mesh", "dp=2"), 2), "micro-batches": (("--mesh", "pp=2", "--microbatches", "2"), 2)}
EDITED = 1  # capture points for each kind of edit
TOLERANCE, LEAST = 1e-4, 1.0  # of the largest value, and of this where that is less


def main():
    parser = sweep.parser(__doc__.splitlines()[0])
    parser.add_argument("--meshes", nargs="+", choices=MESHES, default=list(MESHES), help="of these meshes alone")
    options = parser.parse_args()
    if options.one:
        print(json.dumps(CaptureCheck(options.one, options).result()))
        return
    print(summary(sweep.run(options, __file__, "captures.jsonl", SECONDS, status_line, ["--meshes", *options.meshes])))


def status_line(found):
    return found["reason"] or ", ".join(
        f"{mesh}: {entry.get('reason') or '{} points, {} edits'.format(entry['points'], entry['edits'])}"
        f"{' WRONG ' + entry['wrong'][0] if entry.get('wrong') else ''}" for mesh, entry in found["meshes"].items())


def summary(entries):
    traced = [entry for entry in entries if not entry["reason"]]
    lines = [f"{len(entries)} architectures, {len(traced)} traced"]
    for mesh in MESHES:
        runs = [entry["meshes"][mesh] for entry in traced if mesh in entry["meshes"]]
        ran = [run for run in runs if not run.get("reason")]
        lines.append(f"{mesh}: {len(ran)} ran, {sum(run['points'] for run in ran)} points, "
                     f"{sum(run['edits'] for run in ran)} edits, {sum(len(run['wrong']) for run in ran)} wrong, {sum(run['refused'] for run in ran)} edits refused")
        reasons = collections.Counter(run["reason"] for run in runs if run.get("reason"))
        lines += [f"  {count}: {reason}" for reason, count in reasons.most_common()]
    return "\n".join(lines)


class CaptureCheck(sweep.Check):
    def __init__(self, name, options):
        super().__init__(name, options, "captures", SECONDS)
        self.meshes = options.meshes

    def result(self):
        import torch
        from capturing import recorded
        from cleave_trace import files

        try:
            self.first_trace()
            files.write(self.trace, self.path)
        except Exception as error:
            return {"reason": str(error), "meshes": {}}
        with torch.no_grad():
            self.run()  # Some models replace submodules in the first call.
        self.expected = recorded(self.module, self.run)
        meshes = {mesh: self.check(mesh) for mesh in self.meshes}
        shutil.rmtree(self.folder, ignore_errors=True)
        return {"reason": "", "meshes": meshes}

    def run(self):
        import torch

        torch.manual_seed(0)
        return self.module(*self.bound.args, **self.bound.kwargs)

    def check(self, mesh):
        from launching import same_bits
        from safetensors.torch import load_file

        arguments, ranks = MESHES[mesh]
        error = self.command("cleave", "compile", self.path, "--inputs", self.inputs, *arguments, "-o", "plan")
        if error:
            return {"reason": re.sub(r"\d+", "N", error)[:160]}
        wrong, outputs = [], {}
        for way in ("threads", "processes"):
            arguments = ("run", "plan", "--inputs", self.inputs, "--outputs", f"{way}.safetensors", "--capture", "*")
            error = self.command("cleave", *arguments) if way == "threads" else self.in_processes(ranks, *arguments)
            if error:
                return {"reason": re.sub(r"\d+", "N", error)[:160]}
            outputs[way] = load_file(self.folder / f"{way}.safetensors")
        found = outputs["threads"]
        if not same_bits(outputs["processes"], found):
            wrong.append("processes and threads differ")
        points = [name for name in found if name in self.expected]
        wrong += [] if points else ["nothing is captured"]
        unknown = [name for name in found if name not in self.expected and name not in self.trace.outputs]
        wrong += [f"{name}: no such module" for name in unknown]
        wrong += [differs for name in points if (differs := differences(found, self.expected, [name], TOLERANCE, LEAST))]
        edits, refused = self.check_edits(mesh, points, wrong)
        return {"points": len(points), "modules": len(self.expected), "edits": edits, "refused": refused, "wrong": wrong}

    def check_edits(self, mesh, points, wrong):
        import torch
        from capturing import edited
        from cleave_trace import trees
        from safetensors.torch import load_file

        dice = random.Random(f"{self.name} {mesh}")
        floats = [name for name in points if self.expected[name].is_floating_point() and self.expected[name].dim() > 1]
        batch = next(iter(self.trace.inputs.values())).shape[0]
        whole = [name for name in floats if self.expected[name].shape[0] == batch and batch > 1]
        kinds = {"zero": (floats, torch.zeros_like), "add": (floats, lambda value: value + 1),
                 "swap": (whole, lambda value: torch.cat([value[-1:], value[1:-1], value[:1]]))}
        done = refused = 0
        for kind, (names, change) in kinds.items():
            for name in dice.sample(names, min(EDITED, len(names))):
                error = self.command("runHooks", "plan", self.inputs, "edited.safetensors", f"{kind}={name}")
                if error:
                    refused += "expected one that can be replaced" in error
                    if "expected one that can be replaced" not in error:
                        wrong.append(f"{kind} {name}: {error}"[:200])
                    continue
                try:
                    expected = edited(self.module, self.run, {name: change})
                except Exception:
                    continue  # The model itself cannot go on with it.
                expected = trees.leaves(trees.traceable(trees.plain(expected)), "output")
                found = load_file(self.folder / "edited.safetensors")
                differs = differences(found, expected, found, TOLERANCE, LEAST)
                wrong += [f"{kind} {name}: {differs}"] if differs else []
                done += 1
        return done, refused


if __name__ == "__main__":
    main()
