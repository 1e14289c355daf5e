"""Outputs of modules of many architectures, captured and edited over several meshes, against PyTorch's forward hooks.

Each model is traced and compiled in a process of its own. For each mesh all capture points are read, in threads and in processes;
then a seeded choice of them is edited: set to zero, added to (per part), swapped between samples (whole). Each model adds one line of
JSON to WORK/captures.jsonl; models that are there are not run again.
"""

import json
import os
import random
import re
import shutil
import subprocess
import sys

import sweep

sys.path.insert(0, str(sweep.SOURCE / "tests/e2e"))
SECONDS = 600  # for one architecture
# Options of compile, and the number of ranks.
MESHES = {"pp=4": (("--mesh", "pp=4"), 4), "tp=2": (("--mesh", "tp=2"), 2), "pp=2,tp=2": (("--mesh", "pp=2,tp=2"), 4),
          "dp=2": (("--mesh", "dp=2"), 2), "micro-batches": (("--mesh", "pp=2", "--microbatches", "2"), 2)}
EDITED = 1  # capture points for each kind of edit
TOLERANCE = 1e-4  # of the largest value


def main():
    parser = sweep.parser(__doc__.splitlines()[0])
    parser.add_argument("--meshes", nargs="+", choices=MESHES, default=list(MESHES), help="of these meshes alone")
    options = parser.parse_args()
    if options.one:
        print(json.dumps(Check(options.one, options).result()))
        return
    print(summary(sweep.run(options, __file__, "captures.jsonl", SECONDS, told, ["--meshes", *options.meshes])))


def told(found):
    return found["reason"] or ", ".join(
        f"{mesh}: {entry.get('reason') or '{} points, {} edits'.format(entry['points'], entry['edits'])}"
        f"{' WRONG ' + entry['wrong'][0] if entry.get('wrong') else ''}" for mesh, entry in found["meshes"].items())


def summary(entries):
    traced = [entry for entry in entries if not entry["reason"]]
    lines = [f"{len(entries)} architectures, {len(traced)} traced"]
    for mesh in MESHES:
        runs = [entry["meshes"][mesh] for entry in traced if mesh in entry["meshes"]]
        ran = [run for run in runs if not run.get("reason")]
        lines.append(f"{mesh}: {len(ran)} ran, {sum(run['points'] for run in ran)} points, {sum(run['edits'] for run in ran)} edits, "
                     f"{sum(len(run['wrong']) for run in ran)} wrong, {sum(run['refused'] for run in ran)} edits refused")
        lines += [f"  {count}: {reason}" for reason, count in
                  sorted(((reason, sum(run.get("reason") == reason for run in runs)) for reason in {run.get("reason") for run in runs} - {None, ""}),
                         key=lambda pair: -pair[1])]
    return "\n".join(lines)


class Check:
    def __init__(self, name, options):
        self.name, self.options = name, options
        self.folder = options.work / "captures" / name.replace(":", ".")
        self.path = self.folder / "model.pt"
        self.inputs = self.path.with_suffix(".inputs.safetensors")

    def result(self):
        import copy

        import torch
        from capturing import recorded
        from cleave_trace import files, tracing

        torch.set_num_threads(1)
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        errors = []
        for build in sweep.attempts(self.name):
            try:
                module, example = build()
                self.module = copy.deepcopy(module)
                bound = tracing.bind(self.module, example)
                self.trace = tracing.trace(module, example)
                files.write(self.trace, self.path)
                break
            except Exception as error:
                errors.append(f"{type(error).__name__}: {error}".splitlines()[0][:200])
        else:
            return {"reason": errors[0], "meshes": {}}

        def run():
            torch.manual_seed(0)
            return self.module(*bound.args, **bound.kwargs)

        self.run = run
        with torch.no_grad():
            run()  # In a first call some models put other modules in the place of those that they have.
        self.expected = recorded(self.module, run)
        meshes = {mesh: self.check(mesh) for mesh in self.options.meshes}
        shutil.rmtree(self.folder, ignore_errors=True)
        return {"reason": "", "meshes": meshes}

    def program(self, program, *arguments, ranks=1):
        """Runs one of the executables, in a process for each rank, and returns the error line; empty if it was fine."""
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        command = [str(self.options.bin / program), *map(str, arguments)]
        if ranks == 1:
            done = subprocess.run(command, capture_output=True, text=True, cwd=self.folder, env=environment, timeout=SECONDS)
            return error_of(done.returncode, done.stderr)
        from launching import free_port

        port = free_port()
        running = [subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, cwd=self.folder,
                                    env={**environment, "RANK": str(rank), "WORLD_SIZE": str(ranks), "LOCAL_WORLD_SIZE": str(ranks),
                                         "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}) for rank in range(ranks)]
        errors = [error_of(process.wait(SECONDS), process.stderr.read()) for process in running]
        return next(filter(None, errors), "")

    def check(self, mesh):
        from safetensors.torch import load_file

        arguments, ranks = MESHES[mesh]
        error = self.program("cleave", "compile", self.path, "--inputs", self.inputs, *arguments, "-o", "plan")
        if error:
            return {"reason": re.sub(r"\d+", "N", error)[:160]}
        wrong, outputs = [], {}
        for way, count in (("threads", 1), ("processes", ranks)):
            error = self.program("cleave", "run", "plan", "--inputs", self.inputs, "--outputs", f"{way}.safetensors", "--capture", "*", ranks=count)
            if error:
                return {"reason": re.sub(r"\d+", "N", error)[:160]}
            outputs[way] = load_file(self.folder / f"{way}.safetensors")
        found = outputs["threads"]
        if any(not same_bits(found[name], value) for name, value in outputs["processes"].items()):
            wrong.append("processes and threads differ")
        points = [name for name in found if name in self.expected]
        unknown = [name for name in found if name not in self.expected and name not in self.trace.outputs]
        wrong += [f"{name}: no such module" for name in unknown]
        wrong += [f"{name}: {what}" for name in points if (what := difference(found[name], self.expected[name]))]
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
                error = self.program("runHooks", "plan", self.inputs, "edited.safetensors", f"{kind}={name}")
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
                differences = [f"{output}: {what}" for output in found if (what := difference(found[output], expected[output]))]
                wrong += [f"{kind} {name}: {differences[0]}"] if differences else []
                done += 1
        return done, refused


def error_of(status, text):
    lines = text.strip().splitlines() or [f"ended with {status}"]
    return next((line for line in lines if line.startswith("error: ")), lines[-1]) if status else ""


def same_bits(value, other):
    import torch

    return value.dtype == other.dtype and torch.equal(value.contiguous().view(torch.uint8) if value.dim() else value.reshape(1).view(torch.uint8),
                                                      other.contiguous().view(torch.uint8) if other.dim() else other.reshape(1).view(torch.uint8))


def difference(found, expected):
    """How `found` differs from what it should be; empty if it does not."""
    import torch

    if found.shape != expected.shape or found.dtype != expected.dtype:
        return f"{found.dtype}{list(found.shape)} instead of {expected.dtype}{list(expected.shape)}"
    if not found.is_floating_point():
        return "" if torch.equal(found, expected) else "other values"
    finite = expected[expected.isfinite()].abs()
    largest = max(1.0, finite.max().item() if finite.numel() else 1.0)
    if torch.allclose(found.double(), expected.double(), rtol=0, atol=TOLERANCE * largest, equal_nan=True):
        return ""
    return f"off by {(found.double() - expected.double()).abs().max().item():.3g} of {largest:.3g}"


if __name__ == "__main__":
    main()
