"""Runs a check of many architectures, each in a process of its own, and keeps a line of JSON for each.

A sweep goes on where it was stopped: architectures whose line is there are not run again.
"""

import argparse
import concurrent.futures
import copy
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(SOURCE / "tools/cleave-trace"), str(SOURCE / "tests/e2e")]


def parser(description):
    """Options that every sweep has."""
    made = argparse.ArgumentParser(description=description)
    made.add_argument("--bin", type=absolute, default=SOURCE / "build/bin", help="where the executables are")
    made.add_argument("--work", type=absolute, default=SOURCE / "build/zoo", help="where results are kept")
    made.add_argument("--only", type=re.compile, default=re.compile(""), metavar="REGEX", help="architectures by name")
    made.add_argument("--again", type=re.compile, metavar="REGEX", help="repeat results that match")
    made.add_argument("--jobs", type=int, default=1, metavar="N", help="models at the same time")
    made.add_argument("--limit", type=int, metavar="N", help="models at most")
    made.add_argument("--every", type=int, default=1, metavar="N", help="only every N-th architecture")
    made.add_argument("--one", metavar="NAME", help=argparse.SUPPRESS)
    return made


def absolute(path):
    return pathlib.Path(path).resolve()


def run(options, script, results_file, timeout, status_line, arguments=()):
    """Runs `script --one NAME` for each name without an entry in `results_file`, each for at most `timeout` seconds.

    Returns all entries.
    The script prints its entry as the last line. A run that fails or times out has only `reason`. `status_line` describes an entry.
    """
    import architectures

    options.work.mkdir(parents=True, exist_ok=True)
    path, known = options.work / results_file, {}
    for line in path.read_text().splitlines() if path.exists() else []:
        known[json.loads(line)["name"]] = line
    names = [name for name in architectures.names() if options.only.search(name)][::options.every]
    pending = [name for name in names if name not in known or options.again and options.again.search(known[name])][:options.limit]

    def in_process(name):
        command = [sys.executable, script, "--one", name, "--bin", options.bin, "--work", options.work, *arguments]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=timeout)
        except subprocess.TimeoutExpired:
            return {"reason": f"more than {timeout} s"}
        if done.returncode:
            return {"reason": f"ended with {done.returncode}: {(done.stderr.splitlines() or [''])[-1][:200]}"}
        return json.loads(done.stdout.splitlines()[-1])

    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for count, (name, found) in enumerate(zip(pending, pool.map(in_process, pending)), 1):
            known[name] = json.dumps({"name": name, **found})
            with open(path, "a") as file:
                print(known[name], file=file)
            print(f"{count}/{len(pending)} {name}: {status_line(found)}", flush=True)
    return [json.loads(line) for line in known.values()]


def attempts(name):
    """Ways to build an architecture and its example inputs, each to be called before the next is asked for."""
    import architectures

    source, _, model = name.partition(":")
    found = architectures.attempts_hf(model) if source == "hf" else architectures.attempts_vision(model)
    return (build for _, build in found)


class Check:
    """What the checks of one architecture begin with: its module, its trace, and a folder to compile and run in."""

    def __init__(self, name, options, folder, seconds):
        self.name, self.bin, self.seconds = name, options.bin, seconds
        self.folder = options.work / folder / name.replace(":", ".")
        self.path = self.folder / "model.pt"
        self.inputs = self.path.with_suffix(".inputs.safetensors")

    def first_trace(self):
        """Takes the first way of building the architecture in which it can be traced.

        `module` is a copy that tracing has not changed, `bound` are its arguments. Raises the first way's error.
        """
        import torch
        from cleave_trace import tracing

        torch.set_num_threads(1)
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        first = None
        for build in attempts(self.name):
            try:
                module, example = build()
                self.module = copy.deepcopy(module)
                self.bound = tracing.bind(self.module, example)
                self.trace = tracing.trace(module, example)
                return
            except Exception as error:
                first = first or ValueError(f"{type(error).__name__}: {error}".splitlines()[0][:200])
        raise first or ValueError("no way to build it")

    def command(self, program, *arguments):
        """Runs one of the executables in the folder. Returns its error; empty if it was fine."""
        done = subprocess.run([self.bin / program, *map(str, arguments)], capture_output=True, text=True, cwd=self.folder,
                              env={**os.environ, "OMP_NUM_THREADS": "1"}, timeout=self.seconds)
        return error_of(done.returncode, done.stderr)

    def in_processes(self, ranks, *arguments):
        """As `command`, of `cleave` in one process per rank."""
        from launching import free_port

        environment = {**os.environ, "OMP_NUM_THREADS": "1", "WORLD_SIZE": str(ranks), "LOCAL_WORLD_SIZE": str(ranks),
                       "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
        command = [self.bin / "cleave", *map(str, arguments)]
        running = [subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, cwd=self.folder,
                                    env={**environment, "RANK": str(rank)}) for rank in range(ranks)]
        errors = [error_of(process.wait(self.seconds), process.stderr.read()) for process in running]
        return next(filter(None, errors), "")


def error_of(status, text):
    """The error line of a program that ended so, and wrote `text` to stderr; empty if it was fine."""
    lines = text.strip().splitlines() or [f"ended with {status}"]
    return next((line for line in lines if line.startswith("error: ")), lines[-1])[:300] if status else ""


def named_dimensions(inputs, dimensions):
    """Options of `cleave compile` that name these dimensions, as the file of witnesses has them."""
    names = {path: ["_"] * tensor.dim() for path, tensor in inputs.items()}
    for index, dimension in enumerate(dimensions):
        for path, dim in dimension["dims"]:
            names[path][dim] = f"size{index}"
    return [word for path, dims in names.items() if set(dims) - {"_"} for word in ("--dynamic", f"{path}={','.join(dims)}")]


def range_of(dimension):
    """A dimension of the file of witnesses in a word, as x.0:1-64/8."""
    (path, dim), *_ = dimension["dims"]
    most = dimension["max"] if dimension["max"] < 2 ** 62 else ""
    return f"{path}.{dim}:{dimension['min']}-{most}" + (f"/{dimension['divisible_by']}" if dimension["divisible_by"] > 1 else "")
