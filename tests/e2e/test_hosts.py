"""Two machines that are network namespaces of this one, with two ranks each: the bits of one process, and ends that are told."""

import os
import signal
import time

import pytest
from safetensors.torch import load_file

from conftest import cleave
from hosts import hosts  # noqa: F401
from launching import (END, FOREVER, HANG, MODELS, NOTICE, SLACK, Processes, Table, plans, ranks_of, same_bits,  # noqa: F401
                       strike, wait_until_running, watch_end)

TABLE = Table("hosts")


@pytest.fixture(scope="module", autouse=True)
def table():
    yield
    TABLE.write()


# The bits -----------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def local(plans, tmp_path_factory):
    """local("pp=2"): what one process gives, with a thread a rank."""
    folder, made = tmp_path_factory.mktemp("local"), {}

    def run(mesh, name="gpt2"):
        if (mesh, name) not in made:
            plan, inputs = plans(mesh, name)
            cleave("run", plan, "--inputs", inputs, "--outputs", folder / "local.safetensors", env={**os.environ, "OMP_NUM_THREADS": "1"})
            made[mesh, name] = load_file(folder / "local.safetensors")
        return made[mesh, name]

    return run


def check_bits(start, mesh, name, plans, local, folder):
    """`start` is what starts processes."""
    plan, inputs = plans(mesh, name)
    outputs = folder / "outputs.safetensors"
    with start(ranks_of(mesh), plan, "--inputs", inputs, "--outputs", outputs, "--repeat", 3) as processes:
        ended = processes.end()
    assert all(end.status == 0 and not end.err for end in ended.values()), ended
    assert same_bits(load_file(outputs), local(mesh, name))


@pytest.mark.parametrize("mesh", ["pp=2", "tp=2", "pp=2,tp=2", "dp=2,pp=2"])
@pytest.mark.parametrize("name", MODELS)
def test_bits(hosts, mesh, name, plans, local, tmp_path):
    for start in (Processes, hosts.processes):
        check_bits(start, mesh, name, plans, local, tmp_path)


@pytest.mark.parametrize("mesh", ["tp=4", "pp=2", "pp=2,tp=2", "dp=2,pp=2"])
def test_bits_over_a_slow_link(hosts, mesh, plans, local, tmp_path):
    assert hosts.shape("tbf", "rate", "200mbit", "burst", "64kb", "latency", "400ms") == ""
    check_bits(hosts.processes, mesh, "gpt2", plans, local, tmp_path)


@pytest.mark.parametrize("mesh", ["pp=2", "tp=2", "pp=2,tp=2"])
def test_bits_over_a_long_link(hosts, mesh, plans, local, tmp_path):
    problem = hosts.shape("netem", "delay", "2ms", "0.5ms", "rate", "1gbit", "loss", "0.1%")
    if problem:
        pytest.skip(f"NOT TESTED: links with delays, which this kernel cannot simulate (tc netem: {problem})")
    check_bits(hosts.processes, mesh, "gpt2", plans, local, tmp_path)


# Ends ---------------------------------------------------------------------------------------------------------------------


def test_a_cut_link(hosts, plans, tmp_path):
    """No process has died, and nobody hears of the other host: each ends at the deadline, by itself."""
    timeout = 3
    plan, inputs = plans("pp=2,tp=2")
    arguments = (*FOREVER, "--timeout", timeout, "--outputs", tmp_path / "outputs.safetensors")
    with hosts.processes(4, plan, "--inputs", inputs, *arguments) as processes:
        wait_until_running(processes)
        since = time.monotonic()
        hosts.cut()
        outcome = watch_end(processes, since, range(4), timeout + HANG + END + SLACK)
    for message in outcome.messages.values():
        assert f"no result after {timeout} s: " in message or f"has waited {timeout} s" in message, message
    assert not list(tmp_path.iterdir())
    TABLE.note("cut link", f"in the middle, --timeout {timeout}", "pp=2,tp=2", timeout + HANG, outcome)


def test_a_link_that_is_cut_at_the_start(hosts, plans, tmp_path):
    """One host never hears of the other."""
    timeout = 3
    plan, inputs = plans("pp=2,tp=2")
    hosts.cut()
    with hosts.processes(4, plan, "--inputs", inputs, "--timeout", timeout) as processes:
        outcome = watch_end(processes, processes.started, range(4), timeout + HANG + END + SLACK)
    for rank in (0, 1):
        assert "rank 2, rank 3 have not started within 3 s" in outcome.messages[rank], outcome.messages
    for rank in (2, 3):
        assert "found no store at 10.77.0.1:29500 that answers within 3 s" in outcome.messages[rank], outcome.messages
    TABLE.note("cut link", f"before the start, --timeout {timeout}", "pp=2,tp=2", timeout + HANG, outcome)


@pytest.mark.parametrize("victim", [0, 3])
def test_death_in_mid_send(hosts, victim, plans, tmp_path):
    """Over a link so slow that values are nearly always on their way."""
    assert hosts.shape("tbf", "rate", "20mbit", "burst", "16kb", "latency", "400ms") == ""
    plan, inputs = plans("pp=2,tp=2")
    with hosts.processes(4, plan, "--inputs", inputs, *FOREVER, "--outputs", tmp_path / "outputs.safetensors") as processes:
        wait_until_running(processes)
        since = strike(processes, victim, signal.SIGKILL)
        outcome = watch_end(processes, since, [rank for rank in range(4) if rank != victim], NOTICE + END + SLACK)
    for message in outcome.messages.values():
        assert f"rank {victim} has died" in message, outcome.messages
    assert not list(tmp_path.iterdir())
    TABLE.note("SIGKILL", "in mid-send, over a link of 20 Mbit/s", f"pp=2,tp=2, rank {victim}", NOTICE, outcome)
