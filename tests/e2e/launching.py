"""Several processes of `cleave run`, one a rank, as a launcher would start them, and how they end."""

import contextlib
import dataclasses
import math
import os
import pathlib
import select
import socket
import subprocess
import time

import pytest

from conftest import BIN, cleave

# What a launcher may have set in the environment of the tests.
LAUNCHERS = ("RANK", "WORLD_SIZE", "LOCAL_", "MASTER_", "SLURM_", "OMPI_", "PMI_", "PMIX_", "TORCHELASTIC_")


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def plain_environment():
    return {name: value for name, value in os.environ.items() if not name.startswith(LAUNCHERS)}


@dataclasses.dataclass
class Ended:
    status: int
    out: str
    err: str
    seconds: float


class Processes:
    """Starts `program` as ranks of `size`; `own[rank]` are a rank's environment and arguments besides those of all,
    `before(rank)` a command that starts it."""

    def __init__(self, size, *arguments, program=("cleave", "run"), own=None, ranks=None, environment=None, before=None, **options):
        self.port = free_port()
        self.started = time.monotonic()
        self.running = {}
        own = own or {}
        for rank in range(size) if ranks is None else ranks:
            variables, more = own.get(rank, ({}, ()))
            settings = {**plain_environment(), "OMP_NUM_THREADS": "1", "RANK": str(rank), "WORLD_SIZE": str(size),
                        "LOCAL_WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(self.port),
                        **(environment or {}), **variables}
            command = [*(before(rank) if before else ()), str(BIN / program[0]), *program[1:], *map(str, arguments), *map(str, more)]
            self.running[rank] = subprocess.Popen(command, env=settings, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                                  text=True, **options)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.running.values():
            process.kill()
            process.wait()

    def end(self, timeout=120):
        """How each has ended, by rank."""
        ended = {}
        waiting = dict(self.running)
        while waiting and time.monotonic() < self.started + timeout:
            for rank, process in list(waiting.items()):
                if process.poll() is not None:
                    seconds = time.monotonic() - self.started
                    out, err = process.communicate()
                    ended[rank] = Ended(process.returncode, out, err, seconds)
                    del waiting[rank]
            time.sleep(0.01)
        assert not waiting, f"still running: ranks {sorted(waiting)}"
        return ended


def run_ranks(size, *arguments, **options):
    """The outputs of a run that succeeds: what rank 0 has printed. The others print nothing."""
    with Processes(size, *arguments, **options) as processes:
        ended = processes.end()
    assert all(end.status == 0 and not end.err for end in ended.values()), ended
    assert not any(end.out for rank, end in ended.items() if rank > 0), ended
    return ended[0].out


def same_bits(found, expected):
    return found.keys() == expected.keys() and all(
        found[name].dtype == tensor.dtype and found[name].shape == tensor.shape
        and found[name].numpy().tobytes() == tensor.numpy().tobytes() for name, tensor in expected.items())


# GPT-2 and a mixture of experts whose values fill messages of their own; FULL_SIZE=1: GPT-2 small, and 210 million weights.
EXPERTS = ("vocab_size={},hidden_size={},intermediate_size={},num_hidden_layers={},num_attention_heads=8,num_key_value_heads=4,"
           "num_local_experts=8,num_experts_per_tok=2,max_position_embeddings=128")
if os.environ.get("FULL_SIZE"):
    MODELS = {"gpt2": "n_positions=1024", "mixtral": EXPERTS.format(32000, 512, 1792, 8)}
else:
    MODELS = {"gpt2": "vocab_size=512,n_embd=128,n_layer=4,n_head=4,n_positions=128", "mixtral": EXPERTS.format(512, 64, 128, 4)}


@pytest.fixture(scope="module")
def plans(trace_model, tmp_path_factory):
    """plans("pp=2"): the plan of one of MODELS, and its inputs."""
    folder, made = tmp_path_factory.mktemp("plans"), {}

    def plan_for(mesh, name="gpt2"):
        model = trace_model(f"hf:{name}", "--config", MODELS[name], "--batch", 4, "--seq", 128)
        if (mesh, name) not in made:
            made[mesh, name] = folder / f"{name}-{mesh.replace(',', '-')}.plan"
            cleave("compile", model.path, "--inputs", model.inputs, "--mesh", mesh, "-o", made[mesh, name])
        return made[mesh, name], model.inputs

    return plan_for


def ranks_of(mesh):
    """`pp=2,tp=2` has 4."""
    return math.prod(int(axis.split("=")[1]) for axis in mesh.split(","))


# What becomes of them ---------------------------------------------------------------------------------------------------------

# Death is noticed within a second, what hangs within the deadline and two seconds; then ranks have five to end.
NOTICE, HANG, END = 1, 2, 5
# What a machine takes that does other things beside: `make faults` holds ranks to those times, on a quiet one; here what they
# say shows how they have noticed.
SLACK = 3 if os.environ.get("FAULTS_TABLE") else 60
FOREVER = ("--repeat", 1000000000)


def cpu_seconds(process):
    fields = open(f"/proc/{process.pid}/stat").read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def name_of(task):
    with contextlib.suppress(OSError):  # it may have ended
        return (task / "comm").read_text()
    return ""


def has_thread(process, *names):
    return any(name_of(task).startswith(names) for task in pathlib.Path(f"/proc/{process.pid}/task").iterdir())


def wait_until_joining(processes, seconds=60):
    """Until all ranks have found the run and see each other end."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for process in processes.running.values():
            assert process.poll() is None, process.communicate()[1]
        if all(has_thread(process, "life") for process in processes.running.values()):
            return
        time.sleep(0.02)
    raise AssertionError("the ranks do not join each other")


def wait_until_running(processes, seconds=60):
    """Until all ranks compute: CPU time only grows much once they do."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for process in processes.running.values():
            assert process.poll() is None, process.communicate()[1]
        if all(has_thread(process, "cpu:", "cuda:") for process in processes.running.values()):
            begin = {rank: cpu_seconds(process) for rank, process in processes.running.items()}
            time.sleep(1)
            if all(cpu_seconds(process) - begin[rank] > 0.02 for rank, process in processes.running.items()):
                return
        time.sleep(0.05)
    raise AssertionError("the ranks do not get to work")


def strike(processes, rank, blow):
    """When it was dealt."""
    since = time.monotonic()
    os.kill(processes.running[rank].pid, blow)
    return since


def fill_errors(process):
    """Leaves no room for what it says on the standard error."""
    pipe = os.open(f"/proc/{process.pid}/fd/2", os.O_WRONLY | os.O_NONBLOCK)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(pipe, bytes(4096))
    os.close(pipe)


class Table:
    """What was seen to happen after faults. FAULTS_TABLE=FILE has it written there, where FILE has a place for it, and every
    row held to its limits; otherwise a machine that does other things beside may take longer."""

    def __init__(self, name):
        self.begin, self.end = f"<!-- {name} -->\n", f"<!-- end of {name} -->\n"
        self.path = os.environ.get("FAULTS_TABLE")
        self.rows = []

    def note(self, fault, when, ranks, limit, outcome):
        """Holds what was seen to `limit` seconds until ranks say so, and to the time that they then have to end."""
        self.rows.append(f"| {fault} | {when} | {ranks} | {limit} s | {outcome.noticed:.2f} s | {outcome.ended:.2f} s |\n")
        slack = 0 if self.path else SLACK
        assert outcome.noticed <= limit + slack and outcome.ended <= limit + END + slack, outcome

    def write(self):
        if not self.path:
            return
        head = "| fault | when | ranks | limit | all survivors have reported the failure after | all survivors have ended after |\n|---|---|---|---|---|---|\n"
        before, rest = pathlib.Path(self.path).read_text().split(self.begin)
        after = rest.split(self.end)[1]
        pathlib.Path(self.path).write_text(before + self.begin + head + "".join(self.rows) + self.end + after)


@dataclasses.dataclass
class Outcome:
    """By rank what it said; after how many seconds all had said it, and had ended."""
    messages: dict
    noticed: float
    ended: float


def watch_end(processes, since, ranks, timeout):
    """How `ranks` end: each says one thing, and has status 1."""
    noticed, ended = {}, {}
    while len(ended) < len(ranks) and time.monotonic() < since + timeout:
        silent = {processes.running[rank].stderr: rank for rank in ranks if rank not in noticed}
        for pipe in select.select(list(silent), [], [], 0.005)[0]:
            noticed[silent[pipe]] = time.monotonic() - since
        for rank in ranks:
            if rank not in ended and processes.running[rank].poll() is not None:
                ended[rank] = time.monotonic() - since
    assert len(ended) == len(ranks), f"ranks {sorted(set(ranks) - set(ended))} still run {timeout} s later"
    messages = {}
    for rank in ranks:
        out, err = processes.running[rank].communicate()
        assert processes.running[rank].returncode == 1 and not out, (rank, processes.running[rank].returncode, out, err)
        lines = err.splitlines()
        assert len(lines) == 1 and lines[0].startswith(f"error: rank {rank} stops: "), err
        messages[rank] = lines[0].split(" stops: ", 1)[1]
    return Outcome(messages, max(noticed.values()), max(ended.values()))
