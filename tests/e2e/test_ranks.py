"""A plan as several processes gives the bits that it gives in one."""

import json
import os
import re
import shutil
import subprocess

import pytest
import torch
from safetensors.torch import load_file, save_file

from conftest import BIN, MIXTRAL, SOURCE, cleave
from launching import Processes, free_port, plain_environment, run_ranks, same_bits


@pytest.fixture
def plan_of(tmp_path):
    """plan_of(model, "--mesh", "pp=2"): the plan, and what it gives in one process."""
    def compile_plan(model, *options):
        plan, outputs = tmp_path / "model.plan", tmp_path / "local.safetensors"
        cleave("compile", model.path, "--inputs", model.inputs, *options, "-o", plan)
        cleave("run", plan, "--inputs", model.inputs, "--outputs", outputs, env={**os.environ, "OMP_NUM_THREADS": "1"})
        return plan, load_file(outputs)

    return compile_plan


def check_bits(plan, inputs, expected, size, *options, **how):
    outputs = plan.parent / "ranks.safetensors"
    report = json.loads(run_ranks(size, plan, "--inputs", inputs, "--outputs", outputs, "--json", *options, **how))
    assert same_bits(load_file(outputs), expected)
    return report


# The bits -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size, options", [
    (2, ("--mesh", "pp=2")),
    (2, ("--mesh", "tp=2")),
    (4, ("--mesh", "pp=2,tp=2")),
    # Sums of three, in the order of ranks.
    (3, ("--mesh", "tp=3")),
    (2, ("--mesh", "pp=2", "--microbatches", 2)),
    (2, ("--mesh", "pp=2", "--microbatches", 2, "--schedule", "interleaved")),
    (4, ("--mesh", "pp=4", "--microbatches", 2)),
])
def test_gpt2(size, options, tiny_model, plan_of):
    model = tiny_model("gpt2")
    plan, expected = plan_of(model, *options)
    report = check_bits(plan, model.inputs, expected, size, "--repeat", 3, "--check-types")
    assert [device["name"] for device in report["devices"]] == [f"cpu:{rank}" for rank in range(size)]
    assert [output["name"] for output in report["outputs"]] == list(expected)
    assert all(device["peak_bytes"] > 0 for device in report["devices"])


@pytest.mark.parametrize("size, mesh", [(2, "pp=2"), (2, "tp=2"), (4, "pp=2,tp=2")])
def test_mixture_of_experts(size, mesh, trace_model, plan_of):
    model = trace_model("hf:mixtral", "--config", MIXTRAL, "--batch", 2, "--seq", 8)
    plan, expected = plan_of(model, "--mesh", mesh)
    check_bits(plan, model.inputs, expected, size)


@pytest.mark.parametrize("mesh", ["tp=2", "pp=2"])
def test_large_tensors(mesh, trace_model, plan_of):
    """More than a first message holds: sums in chunks, parts of gathers, values that come in messages of their own."""
    config = "vocab_size=1000,n_embd=96,n_layer=2,n_head=4,n_positions=128"
    model = trace_model("hf:gpt2", "--config", config, "--batch", 4, "--seq", 100)
    plan, expected = plan_of(model, "--mesh", mesh)
    check_bits(plan, model.inputs, expected, 2, "--repeat", 3)


class TwoEnds(torch.nn.Module):
    """Outputs of both stages, a value that is a view with gaps, and one that repeats itself."""

    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)

    def forward(self, x):
        y = self.first(x)
        part, repeated = y[:, ::2], y[:1].expand(4, 8)
        z = self.second(y)
        return {"early": y, "late": z[:, ::2] * part.t().t() + repeated[:, :4], "size": torch.tensor(x.size(0))}


def test_outputs_of_several_stages(compiler):
    compiler.save(torch.jit.trace(TwoEnds().eval(), torch.ones(4, 8), strict=False), {"x": torch.rand(4, 8)})
    plan, inputs, local = (compiler.folder / name for name in ("model.plan", "model.inputs.safetensors", "local.safetensors"))
    cleave("compile", compiler.folder / "model.pt", "--inputs", inputs, "--devices", 2, "--stage-before", "second", "-o", plan)
    cleave("run", plan, "--inputs", inputs, "--outputs", local)
    assert len(cleave("inspect", plan, "--json").json()["stages"]) == 2
    check_bits(plan, inputs, load_file(local), 2)


AHEAD = ("unshare", "--time", "--fork", "--monotonic", "5000")


def another_clock(rank):
    """The clock of rank 1 is as if its machine had been up for longer."""
    return AHEAD if rank else ()


def test_streams(tiny_model, plan_of, tmp_path):
    """Requests follow one another through the processes, and a trace has a row a rank, on rank 0's clock."""
    if not shutil.which("unshare") or subprocess.run([*AHEAD, "true"], capture_output=True).returncode != 0:
        pytest.skip("NOT TESTED: processes whose clocks differ: root makes them, by a time namespace")
    model = tiny_model("gpt2")
    plan, _ = plan_of(model, "--mesh", "pp=2")
    inputs = tmp_path / "stream.safetensors"
    save_file({name: torch.stack([tensor.roll(shift) for shift in range(20)]).contiguous()
               for name, tensor in load_file(model.inputs).items()}, inputs)
    cleave("run", plan, "--inputs", inputs, "--stream", "--outputs", tmp_path / "local.safetensors")
    check_bits(plan, inputs, load_file(tmp_path / "local.safetensors"), 2, "--stream", "--trace", tmp_path / "trace.json",
               before=another_clock)
    trace = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert [row["args"]["name"] for row in trace if row["ph"] == "M"] == ["rank 0 (cpu:0)", "rank 1 (cpu:1)"]
    events = {(event["tid"], event["args"]["request"], event["name"]): event for event in trace if event["ph"] == "X"}
    requests = {request for _, request, _ in events}
    assert len(requests) == 20
    # What the second stage computes comes after what it was given, but for what asking for the time takes.
    for request in requests:
        first, second = events[0, request, "F0.0"], events[1, request, "F1.0"]
        assert first["ts"] + first["dur"] <= second["ts"] + 1000


# Launching ------------------------------------------------------------------------------------------------------------------


def test_torchrun(tiny_model, plan_of, tmp_path):
    model = tiny_model("gpt2")
    plan, expected = plan_of(model, "--mesh", "pp=2")
    torchrun = SOURCE / ".venv/bin/torchrun"
    command = [torchrun, "--nproc-per-node", "2", "--master-port", str(free_port()), "--no-python", BIN / "cleave", "run", plan,
               "--inputs", model.inputs, "--outputs", tmp_path / "ranks.safetensors", "--json"]
    done = subprocess.run(command, env=plain_environment(), capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert len(json.loads(done.stdout)["devices"]) == 2
    assert same_bits(load_file(tmp_path / "ranks.safetensors"), expected)


def mpi(rank, size):
    return {"OMPI_COMM_WORLD_RANK": str(rank), "OMPI_COMM_WORLD_SIZE": str(size), "OMPI_COMM_WORLD_LOCAL_SIZE": str(size)}


def slurm(rank, size):
    return {"SLURM_PROCID": str(rank), "SLURM_STEP_NUM_TASKS": str(size), "SLURM_STEP_TASKS_PER_NODE": f"{size}(x1)",
            "SLURM_STEP_NODELIST": "localhost", "SLURM_JOB_ID": str(free_port()), "SLURM_STEP_ID": "0"}


@pytest.mark.parametrize("launcher, job", [(mpi, "PMIX_NAMESPACE"), (slurm, "SLURM_JOB_ID")])
def test_other_launchers(launcher, job, tiny_model, plan_of, tmp_path):
    """No address and no port: they follow from what the launcher says of the job."""
    model = tiny_model("gpt2")
    plan, expected = plan_of(model, "--mesh", "pp=2")
    name = f"job-{free_port()}" if job == "PMIX_NAMESPACE" else str(free_port())
    outputs = tmp_path / "ranks.safetensors"
    command = [BIN / "cleave", "run", plan, "--inputs", model.inputs, "--outputs", outputs]
    running = [subprocess.Popen(command, env={**plain_environment(), **launcher(rank, 2), job: name}, stdout=subprocess.PIPE)
               for rank in range(2)]
    assert [process.wait(timeout=120) for process in running] == [0, 0]
    assert same_bits(load_file(outputs), expected)


@pytest.mark.parametrize("variables, message", [
    ({"RANK": "0", "MASTER_ADDR": "localhost", "MASTER_PORT": "1"},
     "RANK is set, as by torchrun, but WORLD_SIZE is not; start the processes with torchrun, or unset RANK to run in one process"),
    ({"RANK": "0", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "1"}, "RANK is set, as by torchrun, but MASTER_ADDR is not; set "
     "MASTER_ADDR, the host of rank 0, or unset RANK to run in one process"),
    ({"RANK": "2", "WORLD_SIZE": "2"}, "RANK: found 2, expected less than WORLD_SIZE, which is 2"),
    ({"RANK": "x", "WORLD_SIZE": "2"}, "RANK: found 'x', expected a number up to 1048576"),
    ({"PMI_RANK": "1", "PMI_SIZE": "2", "MASTER_ADDR": "head"}, "PMI_RANK is set, as by PMI, but MASTER_PORT is not; pass mpiexec -genv MASTER_PORT, "
     "a free port, or unset PMI_RANK to run in one process"),
])
def test_incomplete_environments(variables, message, plan, tiny_model):
    result = cleave("run", plan, "--inputs", tiny_model("gpt2").inputs, status=1, env={**plain_environment(), **variables})
    assert result.err == f"error: {message}\n"


def test_one_process_is_no_rank(plan, tiny_model):
    environment = {**plain_environment(), "RANK": "0", "WORLD_SIZE": "1"}
    report = cleave("run", plan, "--inputs", tiny_model("gpt2").inputs, "--json", env=environment).json()
    assert len(report["devices"]) == 2


# What ranks must agree on ------------------------------------------------------------------------------------------------------


def failures(size, *arguments, **options):
    """The messages of a run that all ranks refuse."""
    with Processes(size, *arguments, **options) as processes:
        ended = processes.end()
    assert all(end.status == 1 and not end.out for end in ended.values()), ended
    # What does not hold a run back is said before it begins.
    lines = [[line for line in end.err.splitlines() if not line.startswith("note: no sandbox with GPUs")]
             for _, end in sorted(ended.items())]
    assert all(len(each) == 1 for each in lines), lines
    return [each[0].removeprefix(f"error: rank {rank} stops: ") for rank, each in enumerate(lines)]


def test_numbers_of_processes(plan, tiny_model):
    message = "plan was compiled for 2 ranks, 3 processes were started; start 2"
    assert failures(3, plan, "--inputs", tiny_model("gpt2").inputs) == [message] * 3


@pytest.mark.parametrize("devices", ["cpu:0,cuda:1000", "cuda:1000,cuda:1000"])
def test_all_miss_the_gpu_that_one_misses(devices, plan, tiny_model):
    """Whether this machine has GPUs or none, and a plugin for them or none."""
    messages = failures(2, plan, "--inputs", tiny_model("gpt2").inputs, "--devices", devices)
    assert messages[0] == messages[1]
    assert re.match(r"rank [01]: device cuda:1000: found .*; use cpu:1000$", messages[0]), messages


def test_gpus_by_place_on_the_machine(plan, tiny_model):
    inputs = tiny_model("gpt2").inputs
    places = {rank: ({"LOCAL_RANK": str(1000 + rank)}, ()) for rank in range(2)}
    messages = failures(2, plan, "--inputs", inputs, "--devices", "cuda", own=places)
    assert messages[0] == messages[1] and re.match(r"rank (\d): device cuda:100\1: found ", messages[0]), messages
    # One of them alone, too, since they meet before.
    for own in ({0: ({}, ("--devices", "cuda"))}, {rank: ({}, ("--devices", "cuda")) for rank in range(2)}):
        messages = failures(2, plan, "--inputs", inputs, own=own)
        assert messages[0] == messages[1], messages
        assert re.match(r"rank [01]: device cuda: found no place of this process on its machine \(LOCAL_RANK, ", messages[0])


@pytest.mark.skipif(torch.cuda.device_count() >= 2, reason="this machine has two GPUs: `make test-multigpu` tests them")
def test_what_takes_gpus_says_that_they_are_missing():
    done = subprocess.run(["make", "--no-print-directory", "test-multigpu"], cwd=SOURCE, capture_output=True, text=True, timeout=120)
    assert done.returncode != 0
    assert re.search(r"NOT TESTED: plans on GPUs: found \d, expected 2 or more", done.stderr), done


def test_only_the_own_shard_is_read(plan, tiny_model, tmp_path):
    """Each rank has a folder of its own, without the files of the others."""
    own = {}
    for rank in range(2):
        folder = shutil.copytree(plan, tmp_path / f"of{rank}" / "model.plan")
        (folder / f"rank-00{1 - rank}.safetensors").unlink()
        own[rank] = ({}, (folder,))
    run_ranks(2, "--inputs", tiny_model("gpt2").inputs, own=own)


def test_only_ranks_that_read_inputs_have_the_file(plan_of, compiler):
    net = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 8))
    compiler.save(net, {"input": torch.rand(2, 8)})
    folder = compiler.folder
    cleave("compile", "model.pt", "--inputs", "model.inputs.safetensors", "--mesh", "pp=2", "-o", "model.plan", cwd=folder)
    cleave("run", "model.plan", "--inputs", "model.inputs.safetensors", "--outputs", "local.safetensors", cwd=folder)
    own = {0: ({}, ("--inputs", folder / "model.inputs.safetensors")), 1: ({}, ("--inputs", folder / "nowhere"))}
    run_ranks(2, folder / "model.plan", "--outputs", folder / "ranks.safetensors", own=own)
    assert same_bits(load_file(folder / "ranks.safetensors"), load_file(folder / "local.safetensors"))


def test_other_inputs(tiny_model, plan_of, tmp_path):
    model = tiny_model("gpt2")
    plan, _ = plan_of(model, "--mesh", "tp=2")
    other = tmp_path / "other.safetensors"
    save_file({name: tensor + 1 for name, tensor in load_file(model.inputs).items()}, other)
    own = {0: ({}, ("--inputs", model.inputs)), 1: ({}, ("--inputs", other))}
    assert failures(2, plan, own=own) == ["rank 1 was given other inputs than rank 0; give all ranks the same file"] * 2
