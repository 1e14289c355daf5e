"""A plan over several GPUs, in one process and as one process per GPU, between which NCCL moves tensors: `make test-multigpu`."""

import json
import signal
import subprocess

import pytest
import torch
from safetensors.torch import load_file

from conftest import BIN, SOURCE, cleave
from launching import (END, FOREVER, HANG, NOTICE, SLACK, Processes, free_port, plain_environment, plans, ranks_of, run_ranks,
                       strike, wait_until_running, watch_end)

GPUS = torch.cuda.device_count()
if GPUS == 0:
    pytest.skip("NOT TESTED: plans over GPUs, NCCL between processes: this machine has no GPU; run `make test-multigpu` on one "
                "that has two", allow_module_level=True)


def needs(count):
    return pytest.mark.skipif(GPUS < count, reason=f"NOT TESTED: takes {count} GPUs, found {GPUS}")


def over_gpus(*meshes):
    return pytest.mark.parametrize("mesh", [pytest.param(mesh, marks=needs(ranks_of(mesh))) for mesh in meshes])


def on(devices):
    """The options for these devices. With GPUs there is no sandbox, and a note says so unless none is asked for."""
    return "--devices", devices, "--sandbox", "off"


def all_gpus(mesh):
    return on(",".join(f"cuda:{rank}" for rank in range(ranks_of(mesh))))


@pytest.fixture
def expected(plans, tmp_path):
    """expected(mesh): the plan, its inputs, and what it gives on CPUs."""
    def run(mesh):
        plan, inputs = plans(mesh)
        cleave("run", plan, "--inputs", inputs, "--outputs", tmp_path / "cpu.safetensors")
        return plan, inputs, load_file(tmp_path / "cpu.safetensors")

    return run


def check_close(path, expected):
    found = load_file(path)
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        torch.testing.assert_close(found[name], tensor, rtol=1e-3, atol=1e-3)


@over_gpus("pp=2", "tp=2", "pp=2,tp=2", "dp=2,pp=2")
def test_processes(mesh, expected, tmp_path):
    plan, inputs, outputs = expected(mesh)
    report = json.loads(run_ranks(ranks_of(mesh), plan, "--inputs", inputs, "--outputs", tmp_path / "gpu.safetensors", "--json",
                                  "--repeat", 5, *all_gpus(mesh)))
    check_close(tmp_path / "gpu.safetensors", outputs)
    assert [device["name"] for device in report["devices"]] == all_gpus(mesh)[1].split(",")


@over_gpus("pp=2", "tp=2", "pp=2,tp=2")
def test_one_process(mesh, expected, tmp_path):
    plan, inputs, outputs = expected(mesh)
    cleave("run", plan, "--inputs", inputs, "--outputs", tmp_path / "gpu.safetensors", *all_gpus(mesh))
    check_close(tmp_path / "gpu.safetensors", outputs)


@over_gpus("pp=2", "tp=2")
def test_torchrun_gives_each_process_its_gpu(mesh, expected, tmp_path):
    plan, inputs, outputs = expected(mesh)
    command = [SOURCE / ".venv/bin/torchrun", "--nproc-per-node", "2", "--master-port", str(free_port()), "--no-python",
               BIN / "cleave", "run", plan, "--inputs", inputs, "--outputs", tmp_path / "gpu.safetensors", "--devices", "cuda"]
    subprocess.run(list(map(str, command)), check=True, env=plain_environment(), timeout=300)
    check_close(tmp_path / "gpu.safetensors", outputs)


@needs(1)
@pytest.mark.parametrize("mesh", ["pp=2", "tp=2"])
@pytest.mark.parametrize("devices", ["cpu:0,cuda:0", "cuda:0,cpu:0"])
def test_a_cpu_and_a_gpu(mesh, devices, expected, tmp_path):
    """Between them tensors go through main memory."""
    plan, inputs, outputs = expected(mesh)
    run_ranks(2, plan, "--inputs", inputs, "--outputs", tmp_path / "mixed.safetensors", *on(devices))
    check_close(tmp_path / "mixed.safetensors", outputs)


@needs(1)
@pytest.mark.parametrize("mesh", ["pp=2", "tp=2"])
def test_two_processes_on_one_gpu(mesh, plans):
    plan, inputs = plans(mesh)
    with Processes(2, plan, "--inputs", inputs, *on("cuda:0,cuda:0")) as processes:
        ended = processes.end()
    for rank, end in ended.items():
        assert end.status == 1 and "exchange tensors and are two processes on one GPU" in end.err, (rank, end)


@pytest.mark.parametrize("mesh, devices", [
    *(pytest.param(mesh, all_gpus(mesh)[1], marks=needs(ranks_of(mesh))) for mesh in ("pp=2", "tp=2", "pp=2,tp=2")),
    *(pytest.param(mesh, "cuda:0,cpu:0", marks=needs(1)) for mesh in ("pp=2", "tp=2")),
])
@pytest.mark.parametrize("blow, words, limit, options", [
    (signal.SIGKILL, "rank 1 has died", NOTICE, ()),
    (signal.SIGSTOP, "no sign of life", 5 + HANG, ("--timeout", 5)),
])
def test_a_rank_that_is_gone_ends_the_others(mesh, devices, blow, words, limit, options, plans):
    plan, inputs = plans(mesh)
    with Processes(ranks_of(mesh), plan, "--inputs", inputs, *FOREVER, *options, *on(devices)) as processes:
        wait_until_running(processes)
        since = strike(processes, 1, blow)
        outcome = watch_end(processes, since, sorted(set(processes.running) - {1}), timeout=60)
    assert all(words in message for message in outcome.messages.values()), outcome
    assert outcome.noticed <= limit + SLACK and outcome.ended <= limit + END + SLACK, outcome
