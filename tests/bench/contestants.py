"""Who takes part in tests/bench/pipelined.py, and how each is run: in processes of its own, every time."""

import dataclasses
import json
import os
import pathlib
import subprocess
import sys

PEERS = pathlib.Path(__file__).resolve().parent / "peers"
TIMEOUT = 1800


class Failure(Exception):
    """A contestant that cannot run a model; the message is the first line of why."""


@dataclasses.dataclass(frozen=True)
class Model:
    name: str
    source: str
    config: str  # for cleave-trace --config, may be empty
    batch: int
    seq: int

    def options(self):
        config = ["--config", self.config] if self.config else []
        return [self.source, *config, "--batch", self.batch, "--seq", self.seq]


@dataclasses.dataclass(frozen=True)
class Bench:
    """One model in a folder of files that everyone reads."""
    tools: pathlib.Path
    folder: pathlib.Path
    model: Model
    steps: int

    @property
    def traced(self):
        return self.folder / "model.pt"

    @property
    def inputs(self):
        return self.folder / "model.inputs.safetensors"

    def trace(self):
        output([self.tools / "cleave-trace", *self.model.options(), "-o", self.traced])


@dataclasses.dataclass(frozen=True)
class Peer:
    label: str
    script: str
    threads: int
    microbatches: int = 1

    def prepare(self, bench):
        pass

    def measure(self, bench):
        command = [sys.executable, PEERS / self.script, *bench.model.options(), "--traced", bench.traced,
                   "--threads", self.threads, "--microbatches", self.microbatches, "--steps", bench.steps]
        # What one round compiled, the next finds: compiling is not what is measured.
        return json.loads(output(command, TORCHINDUCTOR_CACHE_DIR=str(bench.folder / "inductor")))


@dataclasses.dataclass(frozen=True)
class Plan:
    """A plan with as many threads as there are cores, shared among its devices."""
    label: str
    devices: int
    microbatches: int = 1
    # One batch from its inputs to its outputs, rather than batches back to back.
    alone: bool = False

    def plan(self, bench):
        return bench.folder / f"{self.devices}x{self.microbatches}.plan"

    def prepare(self, bench):
        output([bench.tools / "cleave", "compile", bench.traced, "--inputs", bench.inputs, "--devices", self.devices,
                "--microbatches", self.microbatches, "--verify", "-o", self.plan(bench)])

    def measure(self, bench):
        run = json.loads(output([bench.tools / "cleave", "run", self.plan(bench), "--inputs", bench.inputs,
                                 "--repeat", 1 if self.alone else bench.steps, "--timeout", TIMEOUT, "--json"]))
        return {"seconds": run["seconds_alone" if self.alone else "seconds"], **run.get("bubble", {})}


CONTESTANTS = {
    "eager": Peer("eager, 2 threads", "eager.py", threads=2),
    "torchscript": Peer("TorchScript, frozen, 2 threads", "torchscript.py", threads=2),
    "compile": Peer("torch.compile, 2 threads", "compiled.py", threads=2),
    "hand": Peer("torch.distributed.pipelining by hand, one batch in 8 micro-batches", "pipelining_by_hand.py",
                 threads=1, microbatches=8),
    "tracer": Peer("torch.distributed.pipelining by its tracer, one batch in 8 micro-batches",
                   "pipelining_by_tracer.py", threads=1, microbatches=8),
    "one": Plan("Cleave, one device, 2 threads", devices=1),
    "two": Plan("Cleave, two devices, batches back to back, each in 2 micro-batches", devices=2, microbatches=2),
    "in4": Plan("Cleave, two devices, one batch in 4 micro-batches", devices=2, microbatches=4, alone=True),
    "in8": Plan("Cleave, two devices, one batch in 8 micro-batches", devices=2, microbatches=8, alone=True),
}


def output(command, **environment):
    """What a command prints; raises what it says is wrong."""
    try:
        done = subprocess.run([*map(str, command)], env={**os.environ, **environment}, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        raise Failure(f"no answer after {TIMEOUT} s") from None
    if done.returncode:
        raise Failure(reason(done))
    return done.stdout


def reason(done):
    """A peer reports its error as JSON; when one rank of several fails, the others do for lack of it, later."""
    for line in done.stdout.splitlines():
        if line.startswith('{"error"'):
            return json.loads(line)["error"]
    said = done.stderr.strip().splitlines()
    return next((line for line in said if line.startswith("error: ")), said[-1] if said else f"exit {done.returncode}")
