"""What becomes of a run of several processes when something happens to one of them: all end, soon, and say why.

FAULTS_TABLE=FILE writes how long that took as a table, which docs/reliability.md has.
"""

import dataclasses
import os
import re
import signal
import subprocess
import sys
import time

import pytest
from safetensors.torch import load_file, save_file

from conftest import cleave, everything_below
from launching import Processes, free_port, plain_environment

FOREVER = ("--repeat", 1000000000)
# Death is noticed within a second, what hangs within the deadline and two seconds; then ranks have five to end.
NOTICE, HANG, END = 1, 2, 5
# What a machine takes that does other things beside.
SLACK = 3

ROWS = []


@pytest.fixture(scope="module", autouse=True)
def table():
    yield
    if "FAULTS_TABLE" in os.environ:
        lines = ["| fault | when | ranks | first message after | all ended after |", "|---|---|---|---|---|"]
        lines += [f"| {fault} | {when} | {ranks} | {first:.2f} s | {last:.2f} s |" for fault, when, ranks, first, last in ROWS]
        with open(os.environ["FAULTS_TABLE"], "w") as file:
            file.write("\n".join(lines) + "\n")


@pytest.fixture(scope="module")
def plans(trace_model, tmp_path_factory):
    """plans("pp=2"): the plan of a model whose values fill messages of their own, and its inputs."""
    folder, made = tmp_path_factory.mktemp("plans"), {}
    config = "vocab_size=512,n_embd=128,n_layer=4,n_head=4,n_positions=128"

    def plan_for(mesh):
        model = trace_model("hf:gpt2", "--config", config, "--batch", 4, "--seq", 128)
        if mesh not in made:
            made[mesh] = folder / f"{mesh.replace(',', '-')}.plan"
            cleave("compile", model.path, "--inputs", model.inputs, "--mesh", mesh, "-o", made[mesh])
        return made[mesh], model.inputs

    return plan_for


def ranks_of(mesh):
    size = 1
    for axis in mesh.split(","):
        size *= int(axis.split("=")[1])
    return size


def wait_until_running(processes, rank, seconds=60):
    """Until all ranks compute: CPU time only grows much once they do."""
    def cpu_seconds(process):
        fields = open(f"/proc/{process.pid}/stat").read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    end = time.monotonic() + seconds
    threads = {}
    while time.monotonic() < end:
        for other, process in processes.running.items():
            assert process.poll() is None, process.communicate()[1]
            names = [open(f"/proc/{process.pid}/task/{task}/comm").read().strip()
                     for task in os.listdir(f"/proc/{process.pid}/task")]
            threads[other] = any(name.startswith("cpu:") for name in names)
        if all(threads.values()):
            begin = {other: cpu_seconds(process) for other, process in processes.running.items()}
            time.sleep(1)
            if all(cpu_seconds(process) - begin[other] > 0.02 for other, process in processes.running.items()):
                return
        time.sleep(0.05)
    raise AssertionError("the ranks do not get to work")


@dataclasses.dataclass
class Outcome:
    messages: dict
    first: float
    last: float


def watch_end(processes, since, ranks, timeout):
    """The one message of each of `ranks`, all of which end with status 1, and after how long."""
    pending, ended = set(ranks), {}
    while pending and time.monotonic() < since + timeout:
        for rank in list(pending):
            if processes.running[rank].poll() is not None:
                ended[rank] = time.monotonic() - since
                pending.remove(rank)
        time.sleep(0.005)
    assert not pending, f"ranks {sorted(pending)} still run {timeout} s later"
    messages = {}
    for rank in ranks:
        out, err = processes.running[rank].communicate()
        assert processes.running[rank].returncode == 1 and not out, (rank, processes.running[rank].returncode, out, err)
        lines = err.splitlines()
        assert len(lines) == 1 and lines[0].startswith(f"error: rank {rank} stops: "), err
        messages[rank] = lines[0].split(" stops: ", 1)[1]
    return Outcome(messages, min(ended.values()), max(ended.values()))


def strike(processes, rank, blow):
    """When it was dealt."""
    since = time.monotonic()
    os.kill(processes.running[rank].pid, blow)
    return since


def started(plans, mesh, folder, *more, **options):
    plan, inputs = plans(mesh)
    return Processes(ranks_of(mesh), plan, "--inputs", inputs, "--outputs", folder / "outputs.safetensors", *more, **options)


# Death --------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mesh, victim", [("pp=2", 0), ("pp=2", 1), ("tp=2", 1), ("pp=2,tp=2", 0), ("pp=2,tp=2", 3), ("pp=4", 2)])
@pytest.mark.parametrize("blow", [signal.SIGKILL, signal.SIGSEGV])
def test_death_in_the_middle(blow, mesh, victim, plans, tmp_path):
    with started(plans, mesh, tmp_path, *FOREVER) as processes:
        wait_until_running(processes, victim)
        since = strike(processes, victim, blow)
        others = [rank for rank in processes.running if rank != victim]
        outcome = watch_end(processes, since, others, NOTICE + END + SLACK)
    ROWS.append((blow.name, "in the middle", f"{mesh}, rank {victim}", outcome.first, outcome.last))
    assert outcome.last <= NOTICE + END
    for message in outcome.messages.values():  # who, where, and at what
        assert re.match(rf"rank {victim} has died; its last word: rank {victim} \(stage \d: \S+", message), message
    # The first that was told to the store; with rank 0 that is gone.
    assert victim == 0 or len(set(outcome.messages.values())) == 1, outcome.messages
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("delay", [0.0, 0.1, 0.3, 1.0])
@pytest.mark.parametrize("victim", [0, 1])
def test_death_at_the_start(victim, delay, plans, tmp_path):
    """While processes look for each other, a death is seen at the deadline at the latest."""
    timeout = 5
    with started(plans, "pp=2", tmp_path, *FOREVER, "--timeout", timeout) as processes:
        time.sleep(delay)
        since = strike(processes, victim, signal.SIGKILL)
        outcome = watch_end(processes, since, [1 - victim], timeout + HANG + END)
    ROWS.append(("SIGKILL", f"{delay:.1f} s after the start", f"pp=2, rank {victim}", outcome.first, outcome.last))
    assert not list(tmp_path.iterdir())


# What hangs ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mesh, victim", [("pp=2", 0), ("pp=2", 1), ("tp=2", 1), ("pp=2,tp=2", 2)])
def test_a_stopped_process(mesh, victim, plans, tmp_path):
    timeout = 3
    with started(plans, mesh, tmp_path, *FOREVER, "--timeout", timeout) as processes:
        wait_until_running(processes, victim)
        since = strike(processes, victim, signal.SIGSTOP)
        others = [rank for rank in processes.running if rank != victim]
        outcome = watch_end(processes, since, others, timeout + HANG + END + SLACK)
        # It ends, too, as soon as it can.
        os.kill(processes.running[victim].pid, signal.SIGCONT)
        assert processes.running[victim].wait(timeout=NOTICE + END + SLACK) == 1
    ROWS.append(("SIGSTOP", f"in the middle, --timeout {timeout}", f"{mesh}, rank {victim}", outcome.first, outcome.last))
    assert outcome.last <= timeout + HANG + END
    for message in outcome.messages.values():
        assert f"no result after {timeout} s: " in message or f"has waited {timeout} s" in message, message
        assert re.search(rf"rank {victim} .*(no sign of life|does not answer)", message), message
    assert not list(tmp_path.iterdir())


def test_a_rank_that_never_starts(plans, tmp_path):
    plan, inputs = plans("pp=2")
    for present, message in [(0, "rank 1 has not started within 2 s"), (1, "found no store at 127.0.0.1:")]:
        with Processes(2, plan, "--inputs", inputs, "--timeout", 2, ranks=[present]) as processes:
            outcome = watch_end(processes, time.monotonic(), [present], 2 + HANG + END)
        ROWS.append(("never started", "--timeout 2", f"pp=2, rank {1 - present}", outcome.first, outcome.last))
        assert message in outcome.messages[present], outcome.messages


def test_a_rank_that_is_slow_but_in_time(plans, tmp_path):
    """No false alarm."""
    with started(plans, "pp=2", tmp_path, "--repeat", 20) as processes:
        time.sleep(2)
        for _ in range(4):
            if processes.running[1].poll() is None:
                strike(processes, 1, signal.SIGSTOP)
                time.sleep(2)
                strike(processes, 1, signal.SIGCONT)
                time.sleep(0.3)
        ended = processes.end()
    assert all(end.status == 0 for end in ended.values()), ended


# What is wrong on one rank only -----------------------------------------------------------------------------------------------


def test_another_plan(plans, tmp_path):
    plan, inputs = plans("pp=2")
    other, _ = plans("tp=2")
    with Processes(2, "--inputs", inputs, own={0: ({}, (plan,)), 1: ({}, (other,))}) as processes:
        outcome = watch_end(processes, processes.started, [0, 1], 30)
    for message in outcome.messages.values():
        assert re.search(r"found another plan at rank 1 \(\w{12}, on \S+\) than at rank 0 \(\w{12}, on \S+\); give all", message)
    assert len(set(message.split(": ", 1)[1] for message in outcome.messages.values())) == 1


def test_a_damaged_shard(plan, tiny_model, tmp_path):
    shard = plan / "rank-001.safetensors"
    damaged = bytearray(shard.read_bytes())
    damaged[-1] ^= 1
    shard.write_bytes(damaged)
    with Processes(2, plan, "--inputs", tiny_model("gpt2").inputs) as processes:
        outcome = watch_end(processes, processes.started, [0, 1], 30)
    assert outcome.messages[0] == outcome.messages[1]
    assert outcome.messages[0].startswith("rank 1: ") and "rank-001.safetensors" in outcome.messages[0], outcome.messages


def test_an_operator_that_fails(plans, tmp_path):
    plan, inputs = plans("pp=2")
    wrong = tmp_path / "wrong.safetensors"
    save_file({name: tensor + 100000 for name, tensor in load_file(inputs).items()}, wrong)
    before = everything_below(tmp_path)
    with Processes(2, plan, "--inputs", wrong, "--outputs", tmp_path / "outputs.safetensors") as processes:
        outcome = watch_end(processes, processes.started, [0, 1], 30)
    assert outcome.messages[0] == outcome.messages[1]
    assert outcome.messages[0].startswith("rank 0 (stage 0): transformer.wte: aten::embedding: "), outcome.messages
    assert everything_below(tmp_path) == before


def test_outputs_that_cannot_be_written(plans, tmp_path):
    with started(plans, "pp=2", tmp_path / "nowhere") as processes:
        outcome = watch_end(processes, processes.started, [0, 1], 60)
    assert outcome.messages[0] == outcome.messages[1]
    assert "nowhere" in outcome.messages[0]


# The store ------------------------------------------------------------------------------------------------------------------

AGENT = """
import datetime, sys, time
from torch.distributed import TCPStore
store = TCPStore("127.0.0.1", int(sys.argv[1]), is_master=True, wait_for_workers=False)
print("there", flush=True)
time.sleep(600)
"""


def test_the_store_is_killed(plans, tmp_path):
    """As torchrun's agent holds it: a process beside the ranks."""
    port = free_port()
    agent = subprocess.Popen([sys.executable, "-c", AGENT, str(port)], stdout=subprocess.PIPE, text=True, env=plain_environment())
    try:
        assert agent.stdout.readline() == "there\n"
        variables = {"MASTER_PORT": str(port), "TORCHELASTIC_USE_AGENT_STORE": "True"}
        with started(plans, "pp=2", tmp_path, *FOREVER, environment=variables) as processes:
            wait_until_running(processes, 0)
            since = time.monotonic()
            agent.kill()
            outcome = watch_end(processes, since, [0, 1], NOTICE + END + SLACK)
        ROWS.append(("store killed", "in the middle", "pp=2", outcome.first, outcome.last))
        for message in outcome.messages.values():
            assert message.startswith(f"lost the store at 127.0.0.1:{port}, which torchrun's agent holds"), message
    finally:
        agent.kill()
        agent.wait()
