"""A training step whose backward pass is written by hand (tests/training) gives the same bits in threads and in processes, by
every schedule, and says who is gone where a process is killed."""

import signal
import time

import pytest
from safetensors.torch import load_file

from conftest import cleave, execute
from launching import Processes, plain_environment, same_bits, wait_until_running, watch_end


@pytest.fixture
def network(tmp_path):
    """Writes the plan of a network: `network(layers=4, pp=2)`; returns it and its example inputs."""
    def write(**options):
        plan = tmp_path / ("-".join(f"{name}{value}" for name, value in options.items()) + ".plan")
        execute("writeTrainingPlan", plan, *(f"{name}={value}" for name, value in options.items()))
        return plan, f"{plan}.inputs.safetensors"
    return write


def in_threads(plan, inputs, outputs):
    cleave("run", plan, "--inputs", inputs, "--outputs", outputs, env={**plain_environment(), "OMP_NUM_THREADS": "1"})
    return load_file(outputs)


@pytest.mark.parametrize("order", ["gpipe", "1f1b", "zb-h1", "interleaved"])
@pytest.mark.parametrize("mesh", [dict(pp=2), dict(pp=2, dp=2), dict(pp=2, tp=2), dict(pp=4), dict(pp=2, dp=2, tp=2)],
                         ids=lambda mesh: "-".join(f"{axis}{size}" for axis, size in mesh.items()))
def test_processes_give_the_bits_of_threads(network, order, mesh, tmp_path):
    layers = mesh["pp"] * (2 if order == "interleaved" else 1)
    plan, inputs = network(layers=layers, order=order, **mesh)
    expected = in_threads(plan, inputs, tmp_path / "threads.safetensors")
    assert set(expected) == {"loss", *(f"grad.{layer}" for layer in range(layers))}
    ranks = mesh["pp"] * mesh.get("dp", 1) * mesh.get("tp", 1)
    outputs = tmp_path / "processes.safetensors"
    with Processes(ranks, plan, "--inputs", inputs, "--outputs", outputs) as run:
        ended = run.end()
    assert all(end.status == 0 and not end.err for end in ended.values()), ended
    assert same_bits(load_file(outputs), expected)


def test_tied_weights_in_processes(network, tmp_path):
    plan, inputs = network(layers=4, pp=4, dp=2, tied=1)
    expected = in_threads(plan, inputs, tmp_path / "threads.safetensors")
    outputs = tmp_path / "processes.safetensors"
    with Processes(8, plan, "--inputs", inputs, "--outputs", outputs) as run:
        ended = run.end()
    assert all(end.status == 0 and not end.err for end in ended.values()), ended
    assert same_bits(load_file(outputs), expected)


@pytest.mark.parametrize("rank", range(4))
def test_a_killed_rank_is_told(network, rank):
    plan, inputs = network(pp=2, dp=2)
    with Processes(4, plan, "--inputs", inputs, "--repeat", 1_000_000, "--timeout", 60) as run:
        wait_until_running(run)
        run.running[rank].send_signal(signal.SIGKILL)
        struck = time.monotonic()
        end = watch_end(run, struck, [other for other in range(4) if other != rank], 10)
    assert end.ended < 5
    for message in end.messages.values():
        assert f"rank {rank}" in message


def test_what_is_shown(network):
    plan, _ = network(pp=2, dp=2)
    shown = cleave("inspect", plan, "--json").json()
    assert shown["format_version"] == 3
    assert shown["required_features"] == ["training"]
    assert [(group["kind"], group["ranks"]) for group in shown["groups"]] == [("data", [0, 1]), ("data", [2, 3])]
    assert len(shown["buckets"]) == 2
