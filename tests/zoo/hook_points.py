"""Hook points of TransformerLens, captured and edited over several meshes, against its own cache and hooks.

Packages are installed into build/peers/ when this first runs (requirements-transformer_*.txt). Each model of lens/ is traced as a
user traces it, and compiled for each mesh. Then
- every hook point that TransformerLens calls is captured, and compared with the value of each of its calls;
- the hook points of one layer, and those outside of layers, are edited (--replace), and the logits are compared;
- activation patching by layer and position is compared with transformer_lens.patching.
What a plan cannot hold or refuses is listed with what Cleave says, in docs/transformer-lens.md where all models took part. The exit
status is 1 if anything is wrong, or not held for a reason that is not in KNOWN.
"""

import argparse
import collections
import dataclasses
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

SOURCE = pathlib.Path(__file__).resolve().parents[2]
HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "lens"))
sys.dont_write_bytecode = True

import sweep
import torch
from comparing import differences
from edit import PATCHED, edit
from safetensors.torch import load_file, save_file

PEERS = SOURCE / "build/peers"
PAGE = SOURCE / "docs/transformer-lens.md"
BEGIN, END = "<!-- make transformer-lens: begin -->", "<!-- make transformer-lens: end -->"
SECONDS = 600  # for one command
TOLERANCE, LEAST = 1e-4, 0.0  # of the value's largest magnitude, however small that is
MESHES = {"pp=4": ("--mesh", "pp=4"), "tp=2": ("--mesh", "tp=2"), "pp=2,tp=2": ("--mesh", "pp=2,tp=2"),
          "pp=2, 2 micro-batches": ("--mesh", "pp=2", "--microbatches", "2")}
EDITED = ("pp=4", "tp=2")  # meshes for edits and patching
# What is in fused attention: points that are declared in one more plan of each mesh.
FUSED = ("*.hook_attn_scores", "*.hook_pattern")
OPERATION_OF_CATEGORY = {"declared": "read", "limited": "read", "declared_edits": "edit", "refused_edits": "edit",
                         "no plan": "read, edit"}
FIRST_MICROBATCH = "rows are chosen by values, so that no dimension is the batch: the value is that of the first micro-batch"


@dataclasses.dataclass(frozen=True)
class ModelClass:
    """A class of TransformerLens, with the file of models and the packages, the first of which come first."""
    name: str
    release: str
    file: str
    requirements: tuple[str, ...]

    def environment(self):
        return {"PYTHONPATH": os.pathsep.join(str(install(name)) for name in self.requirements)}


MODEL_CLASSES = (ModelClass("HookedTransformer", "3.9.0", "hooked.py", ("transformer_lens",)),
         ModelClass("TransformerBridge", "4.3.0", "bridged.py", ("transformer_bridge", "transformer_lens")))


def install(name):
    """The folder of the packages that requirements-NAME.txt pins."""
    requirements, folder = HERE / f"requirements-{name}.txt", PEERS / name
    # The stamp is written last: an interrupted installation has none and is repeated.
    stamp = folder / "requirements.stamp"
    if not stamp.exists() or stamp.read_text() != requirements.read_text():
        print(f"installing {requirements.name} into {folder}", file=sys.stderr, flush=True)
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", folder, "--requirement",
                        requirements], check=True)
        stamp.write_text(requirements.read_text())
    return folder


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", type=sweep.absolute, default=SOURCE / "build/bin", help="where the executables are")
    parser.add_argument("--work", type=sweep.absolute, default=SOURCE / "build/zoo/lens", help="where files are kept")
    parser.add_argument("--only", type=re.compile, default=re.compile(""), metavar="REGEX", help="models by KIND:NAME")
    parser.add_argument("--again", type=re.compile, default=re.compile(r"$^"), metavar="REGEX",
                        help="repeat results of models, by KIND:NAME")
    return parser.parse_args()


def main():
    options = parse()
    torch.set_num_threads(1)
    os.environ["OMP_NUM_THREADS"] = "1"
    options.work.mkdir(parents=True, exist_ok=True)
    install("transformer_lens")
    run_page(options)
    found = []
    for kind in MODEL_CLASSES:
        names = re.findall(r'"(\w+)"', re.search(r"^NAMES = \((.*?)\)$", (HERE / "lens" / kind.file).read_text(), re.M | re.S)[1])
        for name in names:
            if options.only.search(f"{kind.name}:{name}"):
                known = options.work / f"{kind.name}.{name}.json"
                if not known.exists() or options.again.search(f"{kind.name}:{name}"):
                    known.write_text(json.dumps(vars(HookPointCheck(kind, name, options).result())))
                found.append(Result(**json.loads(known.read_text())))
                print(status_line(found[-1]), flush=True)
    report = text(found)
    print(report)
    if not options.only.pattern:
        before, _, rest = PAGE.read_text().partition(BEGIN)
        PAGE.write_text(f"{before}{BEGIN}\n{report}\n{END}{rest.partition(END)[2]}")
    unknown = [(result.name, *entry) for result in found for entry in entries(result) if not reason(*entry)]
    for entry in unknown:
        print("unknown:", *entry, file=sys.stderr)
    sys.exit(bool(unknown) or any(result.wrong for result in found))


def run_page(options):
    """Runs the commands of the page that `make transformer-lens` answers for, with its file lens.py."""
    folder = options.work / "page"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    (folder / "build").symlink_to(SOURCE / "build")
    for kind, block in re.findall(r"^```(.*?)\n(.*?)^```", PAGE.read_text(), re.M | re.S):
        if kind == "python":
            (folder / "lens.py").write_text(block)
        elif kind == "sh make transformer-lens":
            subprocess.run(["bash", "-euo", "pipefail", "-c", block], cwd=folder, check=True)


@dataclasses.dataclass
class Result:
    """What became of one model."""
    kind: str
    name: str
    points: int = 0  # that TransformerLens calls
    not_called: list[str] = dataclasses.field(default_factory=list)
    converted: list[str] = dataclasses.field(default_factory=list)  # those whose cache has another layout than the module's result
    equal: collections.Counter = dataclasses.field(default_factory=collections.Counter)  # by mesh
    declared: list = dataclasses.field(default_factory=list)  # (mesh, point, why not without --capture-points)
    limited: list = dataclasses.field(default_factory=list)  # (mesh, point, why not)
    edits: collections.Counter = dataclasses.field(default_factory=collections.Counter)  # equal, by mesh
    declared_edits: list = dataclasses.field(default_factory=list)  # (mesh, point, why not without --capture-points)
    refused_edits: list = dataclasses.field(default_factory=list)  # (mesh, point, why not)
    patched: collections.Counter = dataclasses.field(default_factory=collections.Counter)  # equal, by mesh
    refused: list = dataclasses.field(default_factory=list)  # (mesh, why it does not compile)
    wrong: list[str] = dataclasses.field(default_factory=list)


class Failure(Exception):
    """What a command said is wrong."""


class HookPointCheck:
    def __init__(self, kind, name, options):
        self.kind, self.name, self.options = kind, name, options
        self.folder = options.work / kind.name / name
        self.found = Result(kind.name, name)

    def result(self):
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        source, environment = f"{HERE / 'lens' / self.kind.file}:{self.name}", self.kind.environment()
        try:
            self.command([self.options.bin / "cleave-trace", source, "-o", "model.pt"], **environment)
            self.command([sys.executable, "-P", HERE / "lens/answers.py", source, self.folder], **environment)
            self.input = next(iter(load_file(self.folder / "model.inputs.safetensors")))
            self.cache, self.first, self.edits = (load_file(self.folder / f"{name}.safetensors")
                                                  for name in ("cache", "first", "edits"))
            points = json.loads((self.folder / "points.json").read_text())
            self.paths = points["called"]
            self.found.points = len(self.paths)
            self.found.not_called, self.found.converted = points["not_called"], points["converted"]
            self.calls = {name: [call for call in self.cache if call.partition("#")[0] == path]
                          for name, path in self.paths.items()}
            for mesh in MESHES:
                try:
                    self.compile("plan", mesh)
                except Failure as failure:
                    self.found.refused.append((mesh, str(failure)))
                    continue
                self.check(mesh)
        except Failure as failure:
            self.found.wrong.append(str(failure))
        shutil.rmtree(self.folder)
        return self.found

    def command(self, command, **environment):
        done = subprocess.run([*map(str, command)], capture_output=True, text=True, cwd=self.folder,
                              env={**os.environ, **environment}, timeout=SECONDS)
        if done.returncode:
            lines = done.stderr.strip().splitlines() or [f"ended with {done.returncode}"]
            raise Failure(next((line for line in lines if line.startswith("error: ")), lines[-1]).removeprefix("error: "))
        return done.stdout

    def compile(self, plan, mesh, *options):
        self.command([self.options.bin / "cleave", "compile", "model.pt", "--inputs", "model.inputs.safetensors", *MESHES[mesh],
                      "--dynamic", f"{self.input}=batch,_", *options, "-o", plan])

    def declare(self, mesh, patterns):
        """Compiles the plan `declared` with --capture-points. Returns what Cleave says of those that match nothing, by pattern."""
        unknown = {}
        while True:
            known = [pattern for pattern in patterns if pattern not in unknown]
            try:
                self.compile("declared", mesh, *[option for pattern in known for option in ("--capture-points", pattern)])
                return unknown
            except Failure as failure:
                matches_nothing = re.match(r"--capture-points (\S+): matches no module", str(failure))
                if not matches_nothing:
                    raise
                unknown[matches_nothing[1]] = str(failure)

    def run(self, plan, *options, inputs="model.inputs.safetensors"):
        """The model's outputs, and what is captured."""
        self.command([self.options.bin / "cleave", "run", plan, "--inputs", inputs, "--outputs", "outputs.safetensors", *options])
        return load_file(self.folder / "outputs.safetensors")

    def check(self, mesh):
        values = self.run("plan", "--capture", "*")
        missing = {name: self.why_missing(name) for name, calls in self.calls.items() if any(call not in values for call in calls)}
        self.values = values
        for name in self.calls.keys() - missing.keys():
            self.compare(mesh, name, values)
        patterns = [*FUSED, *dict.fromkeys(self.paths[name] for name in missing)]
        unknown = self.declare(mesh, patterns)
        values = self.run("declared", "--capture", "*")
        for name in self.calls:
            if any(call not in values for call in self.calls[name]):
                self.found.limited.append((mesh, name, unknown.get(self.paths[name], "not in the plan with --capture-points")))
            elif name in missing:
                self.found.declared.append((mesh, name, missing[name]))
                self.compare(mesh, name, values)
            elif differs := differences(values, self.cache, self.calls[name], TOLERANCE, LEAST):
                if not self.equals_first_microbatch(name, values):
                    self.found.wrong.append(f"{mesh}: {name} with --capture-points: {differs}")
        if mesh in EDITED:
            self.check_edits(mesh)
            self.check_patching(mesh)

    def why_missing(self, name):
        try:
            self.run("plan", "--capture", self.paths[name])
        except Failure as failure:
            return str(failure)
        return "captured by its name alone, or not in all of its calls"

    def compare(self, mesh, name, values):
        differs = differences(values, self.cache, self.calls[name], TOLERANCE, LEAST)
        if not differs:
            self.found.equal[mesh] += 1
        elif "micro-batches" in mesh and self.equals_first_microbatch(name, values):
            self.found.limited.append((mesh, name, FIRST_MICROBATCH))
        else:
            self.found.wrong.append(f"{mesh}: {name}: {differs}")

    def equals_first_microbatch(self, name, values):
        """Whether a value without a batch is that of the first micro-batch."""
        whole, first = self.cache[self.paths[name]], self.first[self.paths[name]]
        grows = [size for size, half in zip(whole.shape, first.shape) if size != half]
        return grows != [] and all(size != 2 * half for size, half in zip(whole.shape, first.shape)) and not differences(
            values, self.first, self.calls[name], TOLERANCE, LEAST)

    def check_edits(self, mesh):
        refused = {}
        for name in self.edits:
            if (error := self.check_edit(mesh, "plan", name)):
                refused[name] = error
        if not refused:
            return
        try:
            self.declare(mesh, list(dict.fromkeys(self.paths[name] for name in refused)))
        except Failure as failure:
            self.found.wrong.append(f"{mesh}: {failure}")
            return
        for name, error in refused.items():
            if (again := self.check_edit(mesh, "declared", name)):
                self.found.refused_edits.append((mesh, name, again))
            else:
                self.found.declared_edits.append((mesh, name, error))

    def check_edit(self, mesh, plan, name):
        """Why Cleave refuses it; empty if it does not."""
        replaced = {call: edit(self.cache[call]).contiguous() for call in self.calls[name]}
        save_file(replaced, self.folder / "replaced.safetensors")
        try:
            values = self.run(plan, "--replace", "replaced.safetensors")
        except Failure as failure:
            return str(failure)
        if differs := differences(values, {"output": self.edits[name]}, ["output"], TOLERANCE, LEAST):
            self.found.wrong.append(f"{mesh}: edit of {name}: {differs}")
        else:
            self.found.edits[mesh] += 1
        return ""

    def check_patching(self, mesh):
        prompts, expected = (load_file(self.folder / f"{name}.safetensors") for name in ("prompts", "patching"))
        answers, positions = prompts["answers"], prompts["clean"].shape[1]
        # Row i of the batch is the corrupted prompt, of which position i is patched.
        save_file({self.input: prompts["clean"]}, self.folder / "clean.safetensors")
        save_file({self.input: prompts["corrupted"].repeat(positions, 1)}, self.folder / "corrupted.safetensors")
        points = [point for point in PATCHED if point in expected]
        paths = {point: [self.paths[f"blocks.{layer}.{point}"] for layer in range(len(expected[point]))] for point in points}
        named = [path for point in points for path in paths[point]]
        plan = "plan"
        if any(path not in self.values for path in named):
            plan = "declared"
            self.compile(plan, mesh, *[option for path in named for option in ("--capture-points", path)])
        capture = [option for path in named for option in ("--capture", path)]
        clean = self.run(plan, *capture, inputs="clean.safetensors")
        corrupted = self.run(plan, *capture, inputs="corrupted.safetensors")
        rows = torch.arange(positions)
        for point in points:
            for layer, row in enumerate(expected[point]):
                name = paths[point][layer]
                patched = corrupted[name].clone()
                patched[rows, rows] = clean[name][0]
                save_file({name: patched}, self.folder / "patched.safetensors")
                logits = self.run(plan, "--replace", "patched.safetensors", inputs="corrupted.safetensors")["output"]
                found = logits[:, -1, answers[0]] - logits[:, -1, answers[1]]
                if differs := differences({name: found}, {name: row}, [name], TOLERANCE, LEAST):
                    self.found.wrong.append(f"{mesh}: patching {name}: {differs}")
                else:
                    self.found.patched[mesh] += row.numel()


def status_line(result):
    counts = ", ".join(f"{mesh}: {result.equal.get(mesh, 0)} equal" for mesh in MESHES)
    edits = ", ".join(f"{mesh}: {result.edits.get(mesh, 0)} edits, {result.patched.get(mesh, 0)} patches" for mesh in EDITED)
    lines = [f"{result.kind}:{result.name}: {result.points} points called, {len(result.not_called)} not; {counts}; {edits}"]
    lines += [f"  WRONG {what}" for what in result.wrong]
    lines += [f"  no plan for {mesh}: {why}" for mesh, why in result.refused]
    for what in ("declared", "limited", "declared_edits", "refused_edits"):
        lines += [f"  {what}: {mesh}: {name}: {why}" for mesh, name, why in getattr(result, what)]
    return "\n".join(lines)


# What may be missing or refused, and what the page says of it: (category, mesh, hook point, what Cleave says) as patterns.
KNOWN = (
    (("declared", ".*", r"hook_attn_scores|hook_pattern", "no such capture point"),
     "fused attention does not compute it; `--capture-points` of the hook point keeps the softmax apart"),
    (("declared", ".*tp.*", r"hook_(attn|mlp)_out|attn.*hook_out|mlp.*hook_out", "no such capture point"),
     "attention and MLP are added before their sum over ranks, so that no rank has either; `--capture-points` keeps them apart"),
    (("declared_edits", ".*", ".*", "expected one that can be replaced"),
     "another module or call has an equal value, which is computed once; `--capture-points` of the hook point keeps them apart"),
    (("declared_edits", ".*", ".*", "no such capture point"), "not captured either, see above"),
    (("declared", ".*", r"embed\.hook_in|hook_tokens", "no such capture point"),
     "an input of the model; `--capture-points` of the hook point keeps it"),
    (("refused_edits", ".*", r"embed\.hook_in|hook_tokens", "expected one that can be replaced"), "an input of the model: change the input"),
    (("limited", ".*", r"rotary_emb\.hook_in", "matches no module"), "no operator reads the value, so that the trace lacks it"),
    (("refused_edits", ".*", r"rotary_emb\.hook_in", "no such capture point"),
     "no operator reads the value, so that the trace lacks it"),
    (("refused_edits", "tp=2", ".*", "expected one that can be replaced"),
     "over tensor-parallel ranks another module or call has an equal value, with `--capture-points`, too"),
    (("limited", ".*micro-batches", ".*", "first micro-batch"), FIRST_MICROBATCH),
    (("no plan", ".*micro-batches", "every hook point", r"attn: aten\.cat has no rule for dimension batch"),
     "no rule for the batch in the bridge's attention; no plan with micro-batches, any other mesh"),
    (("no plan", ".*micro-batches", "every hook point", "so micro-batches are not parts of it"),
     "the mixture of experts numbers the tokens of the whole batch; no plan with micro-batches, any other mesh"),
)


def reason(category, mesh, name, why):
    """What the page says of an entry; empty if it is not known."""
    for patterns, text_of in KNOWN:
        if all(re.search(pattern, value) for pattern, value in zip(patterns, (category, mesh, name, why))):
            return text_of
    return ""


def entries(result):
    """What a plan does not hold, or by --capture-points alone: (category, mesh, hook point, what Cleave says)."""
    categories = ("declared", "limited", "declared_edits", "refused_edits")
    found = [(category, *item) for category in categories for item in getattr(result, category)]
    return found + [("no plan", mesh, "every hook point", why) for mesh, why in result.refused]


def text(results):
    by_class = {one.name: [result for result in results if result.kind == one.name] for one in MODEL_CLASSES}
    rows = [["", *(f"{one.name} {one.release}" for one in MODEL_CLASSES)], ["---"] * (1 + len(MODEL_CLASSES))]

    def row(what, count):
        rows.append([what, *(str(count(of)) for of in by_class.values())])

    row("models", len)
    row("hook points that are called", lambda of: sum(result.points for result in of))
    for mesh in MESHES:
        row(f"equal, {mesh}", lambda of, mesh=mesh: sum(result.equal.get(mesh, 0) for result in of))
    for mesh in MESHES:
        row(f"of these with `--capture-points` alone, {mesh}",
            lambda of, mesh=mesh: sum(item[0] == mesh for result in of for item in result.declared))
    row("not held, all meshes", lambda of: sum(len(result.limited) for result in of) + sum(
        result.points for result in of for _ in result.refused))
    for mesh in EDITED:
        row(f"edits with equal logits, {mesh}", lambda of, mesh=mesh: sum(result.edits.get(mesh, 0) for result in of))
    row("edits refused, all meshes", lambda of: sum(len(result.refused_edits) for result in of))
    for mesh in EDITED:
        row(f"patches (layer, position) with equal logit differences, {mesh}",
            lambda of, mesh=mesh: sum(result.patched.get(mesh, 0) for result in of))
    row("wrong", lambda of: sum(len(result.wrong) for result in of))
    tables = ["\n".join("| " + " | ".join(cells) + " |" for cells in rows)]
    found = {}
    for result in results:
        for category, mesh, name, why in entries(result):
            key = (re.sub(r"\b\d+\b", "*", name), OPERATION_OF_CATEGORY[category], reason(category, mesh, name, why) or why)
            meshes, models = found.setdefault(key, ({}, {}))
            meshes[mesh] = models[f"{result.kind.removeprefix('Transformer')} {result.name}"] = None
    lines = ["| hook point | what | meshes | models | why |", "|---|---|---|---|---|"]
    lines += [f"| `{name}` | {what} | {', '.join(meshes)} | {', '.join(models)} | {why} |"
              for (name, what, why), (meshes, models) in sorted(found.items())]
    idle = sorted({re.sub(r"\b\d+\b", "*", name) for result in results for name in result.not_called})
    return "\n\n".join([*tables, "\n".join(lines),
                        "Hook points that TransformerLens did not call in one or more of these models, and that its cache lacks, "
                        f"too: {', '.join(f'`{name}`' for name in idle)}."])


if __name__ == "__main__":
    main()
