"""Who can take part in a benchmark, and how each is run: in processes of its own, every time."""

import concurrent.futures
import dataclasses
import json
import os
import pathlib
import socket
import subprocess
import sys

PEERS = pathlib.Path(__file__).resolve().parent / "peers"
TIMEOUT = 1800
TINY = {
    "gpt2": "n_layer=2,n_embd=32,n_head=4,vocab_size=128,n_positions=64",
    "bert": "num_hidden_layers=2,hidden_size=32,num_attention_heads=4,intermediate_size=64,vocab_size=128",
    "vit": "num_hidden_layers=2,hidden_size=32,num_attention_heads=4,intermediate_size=64,image_size=32",
    "llama": "num_hidden_layers=2,hidden_size=32,intermediate_size=64,num_attention_heads=4,num_key_value_heads=4,vocab_size=128",
    "resnet-50": "embedding_size=16,hidden_sizes=[16,32],depths=[1,2]",
}


class Failure(Exception):
    """A contestant that cannot run a model; the message is the first line of why."""


@dataclasses.dataclass(frozen=True)
class Model:
    name: str
    source: str
    config: str  # for cleave-trace --config, may be empty
    batch: int  # 0: the source makes its own inputs
    seq: int

    def options(self):
        config = ["--config", self.config] if self.config else []
        size = ["--batch", self.batch, "--seq", self.seq] if self.batch else []
        return [self.source, *config, *size]

    def tiny(self):
        return dataclasses.replace(self, config=TINY[self.source.removeprefix("hf:")], seq=16)


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
    # A folder of packages that come before those of this environment.
    packages: pathlib.Path | None = None

    def prepare(self, bench):
        pass

    def measure(self, bench):
        return json.loads(self.output(self.script, bench))

    def output(self, script, bench):
        """What `script` of PEERS prints."""
        command = [sys.executable, PEERS / script, *bench.model.options(), "--traced", bench.traced,
                   "--threads", self.threads, "--microbatches", self.microbatches, "--steps", bench.steps]
        # What one round compiled, the next finds: compiling is not what is measured.
        environment = {"TORCHINDUCTOR_CACHE_DIR": str(bench.folder / "inductor")}
        return output(command, **environment, **({"PYTHONPATH": str(self.packages)} if self.packages else {}))


@dataclasses.dataclass(frozen=True)
class Plan:
    """A plan with as many threads as there are cores, shared among its devices."""
    label: str
    mesh: str  # for cleave compile --mesh
    microbatches: int = 1
    # One batch from its inputs to its outputs, rather than batches back to back.
    alone: bool = False
    # Of all devices together; 0: all cores.
    threads: int = 0
    # As `cleave profile` has measured it, if it has.
    machine: pathlib.Path | None = None

    def plan(self, bench):
        return bench.folder / f"{self.mesh}x{self.microbatches}.plan"

    def prepare(self, bench):
        if not self.plan(bench).exists():
            output([bench.tools / "cleave", "compile", bench.traced, "--inputs", bench.inputs, "--mesh", self.mesh,
                    "--microbatches", self.microbatches, *(["--machine", self.machine] if self.machine else []), "--verify",
                    "-o", self.plan(bench)])

    def measure(self, bench):
        run = self.run(bench)
        return {"seconds": run["seconds_alone" if self.alone else "seconds"], **run.get("bubble", {})}

    def command(self, bench):
        return [bench.tools / "cleave", "run", self.plan(bench), "--inputs", bench.inputs,
                "--repeat", 1 if self.alone else bench.steps, "--timeout", TIMEOUT, "--json"]

    def run(self, bench):
        environment = {"OMP_NUM_THREADS": str(self.threads)} if self.threads else {}
        return json.loads(output(self.command(bench), **environment))


@dataclasses.dataclass(frozen=True)
class Processes(Plan):
    """The same as one process of one thread a device, which exchange values by Gloo."""
    devices: int = 2

    def run(self, bench):
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            port = listener.getsockname()[1]
        with concurrent.futures.ThreadPoolExecutor(self.devices) as pool:
            printed = [pool.submit(output, self.command(bench), RANK=str(rank), WORLD_SIZE=str(self.devices),
                                   MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), OMP_NUM_THREADS="1")
                       for rank in range(self.devices)]
            return json.loads([each.result() for each in printed][0])


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
            return json.JSONDecoder().raw_decode(line)[0]["error"]  # Two ranks may share a line.
    said = done.stderr.strip().splitlines()
    return next((line for line in said if line.startswith("error: ")), said[-1] if said else f"exit {done.returncode}")
