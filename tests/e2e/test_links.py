"""`cleave profile` as several processes: what it measures between them, and that plans follow it."""

import json
import os
import shutil
import signal
import subprocess
import time

import pytest
import torch
from safetensors.torch import load_file

from conftest import BIN, SOURCE, cleave, everything_below
from hosts import hosts  # noqa: F401
from launching import (END, HANG, NOTICE, SLACK, Processes, free_port, plain_environment, run_ranks, same_bits, strike,
                       wait_until_running, watch_end)

COLLECTIVES = ["all_gather", "all_reduce", "all_to_all", "broadcast", "reduce_scatter"]
PROFILE = ("cleave", "profile")
# Of the link between hosts.
MEGABITS = 50


def devices_of(machine):
    return [device["name"] for device in machine["devices"]]


# One host -------------------------------------------------------------------------------------------------------------


def test_processes_of_a_host(tmp_path):
    out = run_ranks(2, "--quick", "--rounds", 1, "-o", tmp_path / "machine.json", "--json", program=PROFILE)
    machine = json.loads((tmp_path / "machine.json").read_text())
    assert json.loads(out) == machine and [*everything_below(tmp_path)] == ["machine.json"]
    assert devices_of(machine) == ["cpu:0", "cpu:1"] and "nodes" not in machine and "links" not in machine
    assert sorted(machine["collectives"]) == COLLECTIVES
    assert {entry["ranks"] for entry in machine["collectives"].values()} == {2}
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert sum(device["memory_bytes"] for device in machine["devices"]) <= memory
    # A message goes over a connection: what threads give each other takes next to nothing.
    assert machine["link"]["latency_seconds"] > 1e-6 and machine["link"]["bytes_per_second"] < 1e11
    assert {"aten.gelu", "aten.layer_norm"} < set(machine["operators"]) and "matrix" in machine["products"]


def test_torchrun(tmp_path):
    command = [SOURCE / ".venv/bin/torchrun", "--nproc-per-node", "2", "--master-port", str(free_port()), "--no-python", BIN / "cleave",
               "profile", "--quick", "--rounds", "1", "-o", "machine.json"]
    done = subprocess.run(command, cwd=tmp_path, env=plain_environment(), capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert devices_of(json.loads((tmp_path / "machine.json").read_text())) == ["cpu:0", "cpu:1"]


def test_devices_are_one_a_process(tmp_path):
    options = ("--quick", "--rounds", 1, "-o", tmp_path / "machine.json")
    run_ranks(2, *options, "--devices", "cpu:3,cpu:1", program=PROFILE)
    assert devices_of(json.loads((tmp_path / "machine.json").read_text())) == ["cpu:3", "cpu:1"]
    for devices, status, message in [("cpu:0", 2, "--devices cpu:0: found 1 for 2 processes, which have one each"),
                                     ("cpu:0,cpu:0", 2, "cpu:0 is given twice"), ("cpu:0,cuda:99", 1, "device cuda:99: ")]:
        with Processes(2, *options, "--timeout", 1, "--devices", devices, program=PROFILE) as processes:
            ended = processes.end()
        assert ended[1].status == status and message in ended[1].err, ended


def test_what_fails_ends_all(tmp_path):
    """With one message, and the file that was there stays."""
    (tmp_path / "folder").mkdir()
    with Processes(2, "--quick", "-o", tmp_path / "folder", program=PROFILE) as processes:
        outcome = watch_end(processes, processes.started, (0, 1), 60)
    assert len(set(outcome.messages.values())) == 1 and "no regular file" in outcome.messages[1], outcome
    own = {rank: ({}, ("--rounds", 1 + rank)) for rank in (0, 1)}
    with Processes(2, "--quick", "-o", tmp_path / "machine.json", own=own, program=PROFILE) as processes:
        outcome = watch_end(processes, processes.started, (0, 1), 60)
    assert "rank 1 (profile-2q" in outcome.messages[0], outcome
    assert [*everything_below(tmp_path)] == ["folder"]


@pytest.mark.parametrize("blow, limit, said", [(signal.SIGKILL, NOTICE, "rank 1 has died; last known status: rank 1 "),
                                               (signal.SIGSTOP, 3 + HANG, "has waited 3 s for others to time ")])
def test_a_process_that_is_lost(tmp_path, blow, limit, said):
    (tmp_path / "machine.json").write_text("old")
    with Processes(2, "--rounds", 1000, "--timeout", 3, "-o", tmp_path / "machine.json", program=PROFILE) as processes:
        # Until it measures, of which the temporary file tells.
        while len([*tmp_path.iterdir()]) < 2:
            assert all(process.poll() is None for process in processes.running.values())
            time.sleep(0.01)
        wait_until_running(processes)
        since = strike(processes, 1, blow)
        outcome = watch_end(processes, since, [0], limit + END + SLACK)
    assert said in outcome.messages[0] and outcome.noticed <= limit + SLACK, outcome
    assert [*everything_below(tmp_path)] == ["machine.json"] and (tmp_path / "machine.json").read_text() == "old"


# Two hosts ------------------------------------------------------------------------------------------------------------


class Waisted(torch.nn.Module):
    """Evenly cut where it is wide, and unevenly where it is narrow."""
    def __init__(self, width=512, waist=8):
        super().__init__()
        self.first = torch.nn.Linear(width, width)
        self.down = torch.nn.Linear(width, waist)
        self.up = torch.nn.Linear(waist, width)
        self.second = torch.nn.Linear(width, width)
        self.third = torch.nn.Linear(width, width)
        self.fourth = torch.nn.Linear(width, width)

    def forward(self, x):
        return self.fourth(self.third(self.second(self.up(self.down(self.first(x))))))


def limit(hosts):
    assert hosts.shape("tbf", "rate", f"{MEGABITS}mbit", "burst", "64kb", "latency", "400ms") == ""


def compile_for(compiler, machine, mesh):
    """What inspect says of the plan for this machine."""
    (compiler.folder / "machine.json").write_text(json.dumps(machine))
    shutil.rmtree(compiler.folder / "model.plan", ignore_errors=True)
    cleave("compile", "model.pt", "--inputs", "model.inputs.safetensors", "--machine", "machine.json", "--mesh", mesh,
           "--microbatches", 1, "-o", "model.plan", cwd=compiler.folder)
    return cleave("inspect", "model.plan", "--json", cwd=compiler.folder).json()


def stage_of(plan, weight):
    return next(entry["stage"] for entry in plan["weights"] if entry["name"] == weight)


def test_two_hosts(hosts, compiler):
    """Two processes on each: their link is measured, and the cut is where little goes over it."""
    limit(hosts)
    file = compiler.folder / "measured.json"
    rate = MEGABITS * 1e6 / 8
    # Where others keep the machine busy, a link inside a host may be as slow as the one between them.
    for _ in range(5):
        with hosts.processes(4, "--quick", "--rounds", 1, "-o", file, program=PROFILE) as processes:
            ended = processes.end()
        assert all(end.status == 0 and not end.err for end in ended.values()), ended
        assert not any(ended[rank].out for rank in (1, 2, 3)) and "2 nodes of 2: " in ended[0].out
        machine = json.loads(file.read_text())
        nodes = machine["nodes"]
        assert devices_of(machine) == ["cpu:0", "cpu:1", "cpu:2", "cpu:3"] and nodes["devices"] == 2
        if machine["link"]["bytes_per_second"] > 2 * rate:
            break
    assert rate / 2 < nodes["bytes_per_second"] < 2 * rate < machine["link"]["bytes_per_second"]
    for kind in COLLECTIVES:
        within, between = machine["collectives"][kind], nodes["collectives"][kind]
        assert within["ranks"] == 2 and between["ranks"] == 4
        assert between["bytes_per_second"][-1] < 2 * rate < within["bytes_per_second"][-1]

    compiler.save(Waisted(), {"x": torch.rand(1024, 512)})
    # What would be made if all links were fast: cut where both stages do as much. Collectives measured on a busy machine
    # may be slow enough to move the cut, so they are priced by the link.
    link = {"latency_seconds": 1e-6, "bytes_per_second": 1e10}
    alike = {key: value for key, value in machine.items() if key not in ("nodes", "collectives")} | {"link": link}
    even = compile_for(compiler, alike, "pp=2,tp=2")
    assert stage_of(even, "second.weight") == 0 and stage_of(even, "fourth.weight") == 1
    # A tensor group stays on a host, whatever else is evaluated.
    assert compile_for(compiler, machine, "auto")["mesh"]["tp"] <= 2
    plan = compile_for(compiler, machine, "pp=2,tp=2")
    assert stage_of(plan, "first.weight") == 0 and stage_of(plan, "second.weight") == 1
    check_bits(hosts, compiler.folder)


def check_bits(hosts, folder):
    """Over the hosts for which the plan was made, and in one process."""
    inputs = ("--inputs", folder / "model.inputs.safetensors")
    cleave("run", folder / "model.plan", *inputs, "--outputs", folder / "local.safetensors",
           env={**plain_environment(), "OMP_NUM_THREADS": "1"})
    with hosts.processes(4, folder / "model.plan", *inputs, "--outputs", folder / "outputs.safetensors") as processes:
        ended = processes.end()
    assert all(end.status == 0 and not end.err for end in ended.values()), ended
    assert same_bits(load_file(folder / "outputs.safetensors"), load_file(folder / "local.safetensors"))


def test_a_host_of_one(hosts, tmp_path):
    """Where each has one process, the machine's link is what lies between them."""
    limit(hosts)
    with hosts.processes(2, "--quick", "--rounds", 1, "-o", tmp_path / "machine.json", program=PROFILE) as processes:
        ended = processes.end()
    assert all(end.status == 0 and not end.err for end in ended.values()), ended
    machine = json.loads((tmp_path / "machine.json").read_text())
    assert "nodes" not in machine and {entry["ranks"] for entry in machine["collectives"].values()} == {2}
    assert machine["link"]["bytes_per_second"] < 2 * MEGABITS * 1e6 / 8
