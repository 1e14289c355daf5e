"""Every architecture that PyTorch can trace, small, over pipeline stages and tensor-parallel ranks: the second table of docs/coverage.md.

Each is traced (architectures.py), compiled for every mesh, held to its original, and inspected. What came of it is kept as one
JSON line a model in WORK/results.jsonl, the latest line counts; what is there already is not done again, so that a run can be
stopped, and go on later, and a part can be run anew with --again.
"""

import argparse
import errno
import json
import multiprocessing
import os
import pathlib
import re
import shutil
import subprocess
import sysconfig
import time

FOLDER = pathlib.Path(__file__).resolve().parent
SOURCE = FOLDER.parents[1]
MESHES = ("pp=2", "tp=2", "tp=3", "pp=2,tp=2")
COMPILE_SECONDS = 600


class Cleave:
    """The executable; waits where it is being built anew."""

    def __init__(self, folder):
        self.program = folder / "cleave"

    def __call__(self, *arguments):
        """The JSON that a command prints; its error line is the exception's."""
        for _ in range(120):
            try:
                done = subprocess.run([self.program, *map(str, arguments)], capture_output=True, text=True,
                                      timeout=COMPILE_SECONDS, env={**os.environ, "OMP_NUM_THREADS": "1"})
                break
            except OSError as error:
                if error.errno not in (errno.ENOENT, errno.ETXTBSY, errno.EACCES, errno.ENOEXEC):
                    raise
                time.sleep(5)
        else:
            raise RuntimeError(f"{self.program} cannot be run")
        if done.returncode:
            lines = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
            raise RuntimeError(next((line for line in lines if line.startswith("error: ")), lines[-1]))
        return json.loads(done.stdout)


class Zoo:
    def __init__(self, options):
        self.options, self.cleave = options, Cleave(options.bin)
        self.traced, self.results = options.work / "traced", options.work / "results.jsonl"
        self.traced.mkdir(parents=True, exist_ok=True)

    def read(self):
        """{name: what came of it}, in the order of the names."""
        lines = self.results.read_text().splitlines() if self.results.exists() else []
        return {entry["name"]: entry for entry in sorted(map(json.loads, lines), key=lambda entry: entry["name"])}

    def due(self, names):
        """The names that have not been through all meshes asked for, or are to go through them again."""
        known = self.read()
        found = []
        for name in names:
            entry = known.get(name) or {"name": name, "trace": None, "meshes": {}}
            if self.options.again and self.options.again.search(json.dumps(entry)):
                entry = {**entry, "meshes": {mesh: result for mesh, result in entry["meshes"].items() if not result["reason"]}}
                entry["trace"] = entry["trace"] if entry["trace"] and not entry["trace"]["reason"] else None
            is_traced = entry["trace"] is not None
            if not is_traced or not entry["trace"]["reason"] and set(self.options.meshes) - set(entry["meshes"]):
                found.append(entry)
        return found[:self.options.limit]

    def go_through(self, entry):
        import architectures

        path = self.traced / f"{entry['name'].replace(':', '.')}.pt"
        if not entry["trace"] or not entry["trace"]["reason"] and not path.exists():
            entry["trace"] = vars(architectures.trace(entry["name"], path))
        if not entry["trace"]["reason"]:
            for mesh in self.options.meshes:
                if mesh not in entry["meshes"]:
                    entry["meshes"][mesh] = compiled(self.cleave, path, mesh, entry["name"])
        return entry


def compiled(cleave, path, mesh, name):
    """Facts of the plan for one mesh, or why there is none."""
    plan = path.with_suffix(f".{os.getpid()}.plan")
    begin = time.time()
    try:
        report = cleave("compile", path, "--inputs", path.with_suffix(".inputs.safetensors"), "--mesh", mesh, "--verify", "--json",
                        *(f"--library={path}" for path in libraries(name)), "-o", plan)
        facts = cleave("inspect", plan, "--json")
    except subprocess.TimeoutExpired:
        return {"reason": f"more than {COMPILE_SECONDS} s", "seconds": time.time() - begin}
    except RuntimeError as error:
        return {"reason": short(str(error), path), "seconds": time.time() - begin}
    finally:
        shutil.rmtree(plan, ignore_errors=True)
    return {"reason": "", "error": report["error"], "allowed": report["allowed"],
            "seconds": sum(report[f"{step}_seconds"] for step in ("read", "pass", "write")), **counted(facts)}


def libraries(name):
    """torchvision's own operators, which detectors use. Made for Python, they want its library and torch's for it first."""
    if not re.search("torchvision.*(rcnn|retinanet|fcos|ssd)", name):
        return []
    import torch
    import torchvision

    python = pathlib.Path(sysconfig.get_config_var("LIBDIR")) / sysconfig.get_config_var("INSTSONAME")
    torchs = pathlib.Path(torch.__file__).parent / "lib/libtorch_python.so"
    own = pathlib.Path(torchvision.__file__).parent / "_C.so"
    return [python, torchs, own]


def short(message, path):
    """An error line without the file that it is about."""
    return message.removeprefix("error: ").replace(f"{path}: ", "").replace(str(path), path.name)


def counted(facts):
    """What the table says of a plan, of what `cleave inspect` says."""
    parameters = [weight for weight in facts["weights"] if weight["role"] == "parameter"]
    matrices = [weight for weight in parameters if len(weight["shape"]) > 1]
    total = sum(map(elements, matrices))
    layers = repeated([weight["name"] for weight in parameters])
    inside = [entry for entry in facts["collectives"] if prefix(entry["module_path"]) in layers]
    operators = {}
    for entry in facts["replicated_ops"]:
        operators[entry["op"]] = operators.get(entry["op"], 0) + entry.get("calls", 1)
    return {"sharded": sum(elements(weight) for weight in matrices if weight["style"] != "replicate") / total if total else None,
            "layers": len(layers), "collectives": len(facts["collectives"]), "layer_collectives": len(inside),
            "calls": facts["calls"], "replicated": operators}


def elements(weight):
    count = 1
    for size in weight["shape"]:
        count *= size
    return count


def prefix(path):
    """The outermost numbered module that a path is in: `model.layers.3` of `model.layers.3.mlp.down_proj`."""
    found = re.match(r"(.*?\.)?\d+(?=\.|$)", path)
    return found.group(0) if found else None


def repeated(paths):
    """The outermost numbered modules that are one of several."""
    numbered = {prefix(path) for path in paths} - {None}
    several = {}
    for path in numbered:
        several.setdefault(path.rpartition(".")[0], []).append(path)
    return {path for group in several.values() if len(group) > 1 for path in group}


def pattern(reason):
    """A reason without names and numbers, by which failures are grouped."""
    reason = re.sub(r"\"[^\"]*\"|'[^']*'|`[^`]*`", "…", reason)
    reason = re.sub(r"(?<![\w.])(?!aten\.|spmd\.|cleave\.|quantized\.)[A-Za-z_]\w*(\.\w+)+", "…", reason)
    return re.sub(r"-?\d[\d.,e+-]*", "N", reason)


def failures(entries):
    """Groups of failures, most frequent first, each with one example and how to repeat it."""
    groups = {}
    for entry in entries:
        for mesh, result in entry["meshes"].items():
            if result["reason"]:
                groups.setdefault(pattern(result["reason"]), []).append((entry["name"], mesh, result["reason"]))
    lines = []
    for group in sorted(groups.values(), key=len, reverse=True):
        name, mesh, reason = min(group, key=lambda item: (MESHES.index(item[1]), item[0]))
        models = sorted({item[0] for item in group})
        lines.append(f"{len(group)} of {len(models)} models: {reason}\n    --mesh {mesh} {name}; "
                     f"all: {', '.join(models[:12])}{' …' if len(models) > 12 else ''}")
    return lines


def parse():
    parser = argparse.ArgumentParser(description="Traces, compiles and verifies every architecture there is.")
    parser.add_argument("--bin", type=pathlib.Path, default=SOURCE / "build/bin", help="where the executables are")
    parser.add_argument("--work", type=pathlib.Path, default=SOURCE / "build/zoo", help="where results and traces are kept")
    parser.add_argument("--only", type=re.compile, default=re.compile(""), metavar="REGEX", help="architectures by name")
    parser.add_argument("--again", type=re.compile, metavar="REGEX", help="repeat failures of results that match")
    parser.add_argument("--meshes", nargs="*", default=MESHES, choices=MESHES, metavar="MESH", help="these alone")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="models at a time (1)")
    parser.add_argument("--limit", type=int, metavar="N", help="models at most")
    parser.add_argument("--table", action="store_true", help="run nothing, write the table of what is there")
    return parser.parse_args()


def main():
    options = parse()
    zoo = Zoo(options)
    if not options.table:
        import architectures

        due = zoo.due([name for name in architectures.names() if options.only.search(name)])
        with multiprocessing.get_context("fork").Pool(options.jobs) as pool, open(zoo.results, "a") as file:
            for count, entry in enumerate(pool.imap_unordered(zoo.go_through, due), 1):
                print(json.dumps(entry), file=file, flush=True)
                reasons = [f"{mesh}: {result['reason']}" for mesh, result in entry["meshes"].items() if result["reason"]]
                print(f"{count}/{len(due)} {entry['name']}: {entry['trace']['reason'] or '; '.join(reasons) or 'ok'}", flush=True)
    entries = list(zoo.read().values())
    print("\n".join(failures(entries)))
    is_whole = all(entry["trace"]["reason"] or set(MESHES) <= set(entry["meshes"]) for entry in entries)
    if options.table or (is_whole and not options.only.pattern and not options.limit):
        import table

        table.write(entries)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
