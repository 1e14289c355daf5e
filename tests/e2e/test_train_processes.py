"""Training with one process per rank: the bits of one process, checkpoints of either, and what becomes of it when a rank dies."""

import json
import re
import shutil
import signal
import time

import pytest
import torch
from safetensors.torch import load_file, save_file

from conftest import BIN, everything_below, execute
from launching import END, NOTICE, SLACK, Processes, ranks_of, same_bits, strike, wait_until_running, watch_end
from training_architectures import compiled, trained

pytestmark = pytest.mark.usefixtures("one_thread")

TRAIN = ("cleave", "train")


def trained_by(size, plan, data, *options, steps=4, lr=1e-2):
    """What a training of `size` processes reports, and its weights."""
    output = plan.with_name("processes.safetensors")
    with Processes(size, plan, "--data", data, "--steps", steps, "--lr", lr, "--output", output, "--json", *options,
                   program=TRAIN) as processes:
        ended = processes.end()
    assert all(end.status == 0 for end in ended.values()), ended
    # Rank 0 alone logs and prints.
    assert not any(end.out or end.err for rank, end in ended.items() if rank > 0), ended
    return json.loads(ended[0].out), load_file(output)


@pytest.mark.parametrize("model, mesh, options", [
    ("hf:gpt2", "pp=2", ()), ("hf:gpt2", "tp=2", ()), ("hf:gpt2", "pp=2,tp=2", ("--microbatches", 4, "--schedule", "1f1b")),
    ("hf:gpt2", "pp=2", ("--microbatches", 4, "--schedule", "zb-h1", "--recompute", "full")),
    ("hf:mixtral", "pp=3", ("--microbatches", 4, "--schedule", "gpipe")),
    ("hf:t5", "pp=2", ("--microbatches", 2, "--schedule", "interleaved", "--optimizer", "sgd(momentum=0.9)", "--clip-norm", 1))])
def test_the_bits_of_one_process(model, mesh, options, training_model, tmp_path):
    given = training_model(model)
    plan = compiled(given, tmp_path, "--mesh", mesh, *options)
    kept = ("--checkpoint", tmp_path / "threads.checkpoint")
    report, weights = trained(plan, given.inputs, *kept)
    kept = ("--checkpoint", tmp_path / "processes.checkpoint")
    found, own = trained_by(ranks_of(mesh), plan, given.inputs, *kept)
    for key in "losses", "gradient_norms", "learning_rates", "steps":
        assert found[key] == report[key], key
    assert [device["weight_bytes"] for device in found["devices"]] == [device["weight_bytes"] for device in report["devices"]]
    assert same_bits(own, weights)
    assert (tmp_path / "threads.checkpoint").read_bytes() == (tmp_path / "processes.checkpoint").read_bytes()


def test_checkpoints_go_on_in_either(training_model, tmp_path):
    model = training_model("hf:gpt2")
    plan = compiled(model, tmp_path, "--mesh", "pp=2,tp=2")
    whole = trained(plan, model.inputs, steps=6)
    checkpoint = tmp_path / "kept.checkpoint"
    trained_by(4, plan, model.inputs, "--checkpoint", checkpoint, steps=2)
    trained(plan, model.inputs, "--checkpoint", checkpoint, "--resume", steps=4)
    found = trained_by(4, plan, model.inputs, "--checkpoint", checkpoint, "--resume", steps=6)
    assert found[0]["losses"] == whole[0]["losses"][4:] and same_bits(found[1], whole[1])


def test_a_step_that_is_not_finite(training_model, tmp_path):
    """All ranks skip it, or fail with the operator that made it."""
    model = training_model("hf:gpt2")
    plan = compiled(model, tmp_path, "--mesh", "pp=2,tp=2")
    skipping = ("--skip-nonfinite", "--lr-schedule", "constant")
    report, weights = trained(plan, model.inputs, *skipping, lr=1e30)
    found, own = trained_by(4, plan, model.inputs, *skipping, lr=1e30)
    assert report["skipped_steps"] and found["skipped_steps"] == report["skipped_steps"] and same_bits(own, weights)
    with Processes(4, plan, "--data", model.inputs, "--steps", 4, "--lr", 1e30, program=TRAIN) as processes:
        ended = processes.end()
    said = {re.sub(r"^error: rank \d stops: ", "", end.err.splitlines()[-1]) for end in ended.values()}
    assert [end.status for end in ended.values()] == [1] * 4 and len(said) == 1, ended
    expected = r"step \d: the loss is nan, the norm of its gradients nan; .*skip such steps; rank \d \(stage \d\): .*: makes a NaN"
    assert re.match(expected, said.pop()), ended


def test_ranks_must_agree(training_model, tmp_path):
    model = training_model("hf:gpt2")
    plan = compiled(model, tmp_path, "--mesh", "pp=2")
    longer = {name: torch.cat([value] * 3) for name, value in load_file(model.inputs).items()}
    save_file(longer, tmp_path / "longer.safetensors")
    common = ("--data", model.inputs, "--steps", 4, "--output", tmp_path / "out.safetensors")
    for own, words in [(("--lr", 1e-3), "rank 1 was given --steps 4 --lr 1.0"), (("--lr", 1e-2, "--seed", 3), "--seed 3"),
                       (("--lr", 1e-2, "--data", tmp_path / "longer.safetensors"), "--data of 3 batches")]:
        others = common[2:] if "--data" in own else common
        with Processes(2, plan, own={0: ({}, (*common, "--lr", 1e-2)), 1: ({}, (*others, *own))}, program=TRAIN) as processes:
            ended = processes.end()
        assert all(end.status == 1 and words in end.err and "give all ranks the same options" in end.err
                   for end in ended.values()), ended
    assert not (tmp_path / "out.safetensors").exists()


def test_wrong_files_end_all_ranks(training_model, tmp_path):
    model = training_model("hf:gpt2")
    plan = compiled(model, tmp_path, "--mesh", "pp=2")
    save_file({"steps": torch.tensor(3)}, tmp_path / "empty.checkpoint")
    before = (tmp_path / "empty.checkpoint").read_bytes()
    for options, words in [(("--data", tmp_path / "no.safetensors"), "no.safetensors"),
                           (("--data", model.inputs, "--output", tmp_path / "no" / "out"), "rank 0: cannot write"),
                           (("--data", model.inputs, "--checkpoint", tmp_path / "empty.checkpoint", "--resume"), "is missing")]:
        with Processes(2, plan, *options, "--steps", 4, "--lr", 1e-2, program=TRAIN) as processes:
            ended = processes.end()
        assert all(end.status == 1 and words in end.err and len(end.err.splitlines()) == 1 for end in ended.values()), ended
    with Processes(3, plan, "--data", model.inputs, "--steps", 4, "--lr", 1e-2, program=TRAIN) as processes:
        ended = processes.end()
    assert all(end.status == 1 and "plan was compiled for 2 ranks, 3 processes" in end.err for end in ended.values()), ended
    assert (tmp_path / "empty.checkpoint").read_bytes() == before


@pytest.mark.parametrize("mesh, victim", [("pp=2", 0), ("pp=2", 1), ("tp=2", 1), ("pp=2,tp=2", 3)])
def test_death_in_the_middle(mesh, victim, training_model, tmp_path):
    """Told as in inference; the file is the checkpoint of a whole step, from which the training goes on."""
    model = training_model("hf:gpt2")
    plan = compiled(model, tmp_path, "--mesh", mesh, "--microbatches", 4)
    checkpoint = tmp_path / "kept.checkpoint"
    arguments = ("--data", model.inputs, "--lr", 1e-2, "--checkpoint", checkpoint)
    with Processes(ranks_of(mesh), plan, *arguments, "--steps", 10 ** 6, "--log-every", 10 ** 6, "--checkpoint-every", 1,
                   program=TRAIN) as processes:
        wait_until_running(processes)
        since = strike(processes, victim, signal.SIGKILL)
        outcome = watch_end(processes, since, [rank for rank in processes.running if rank != victim], NOTICE + END + SLACK)
    for message in outcome.messages.values():
        assert f"rank {victim} has died; last known status: rank {victim} " in message, message
    steps = int(load_file(checkpoint)["steps"])
    assert steps > 0 and not [name for name in everything_below(tmp_path) if "partial" in name]
    expected = trained(plan, model.inputs, steps=steps + 2)
    found = trained_by(ranks_of(mesh), plan, model.inputs, "--checkpoint", checkpoint, "--resume", steps=steps + 2)
    assert found[0]["losses"] == expected[0]["losses"][steps:] and same_bits(found[1], expected[1])


# The phase in whose program a rank dies, and at which of its calls: those of the third of three steps of four micro-batches. Other
# ranks wait for values, for gradients, for the sum of the tied weight's gradients (Reduce), for the norm, or have updated theirs.
DEATHS = {"F": ("Forward", 10), "B": ("BackwardInput", 10), "W": ("BackwardWeight", 10), "Reduce": ("BackwardWeight", 12),
          "norm": ("Norm", 3), "U": ("Update", 3)}


@pytest.mark.parametrize("stage", [0, 1])
@pytest.mark.parametrize("action", DEATHS)
def test_death_in_an_action(action, stage, training_model, tmp_path):
    """The file is the checkpoint of the last whole step, from which the training goes on."""
    model = training_model("hf:gpt2")
    plan = compiled(model, tmp_path, "--mesh", "pp=2,tp=2", "--microbatches", 4, "--schedule", "zb-h1", "--clip-norm", 1)
    dying, checkpoint, (phase, call) = tmp_path / "dying.plan", tmp_path / "kept.checkpoint", DEATHS[action]
    shutil.copytree(plan, dying)
    execute("faultyPlan", plan / "plan.fb", "die", f"{stage},{phase},{call}", dying / "plan.fb")
    arguments = ("--data", model.inputs, "--lr", 1e-2, "--checkpoint", checkpoint)
    with Processes(4, dying, *arguments, "--steps", 5, "--log-every", 10, "--checkpoint-every", 1, "--allow-operator",
                   "cleave_test::die", program=TRAIN, environment={"LD_PRELOAD": str(BIN / "libdyingOperator.so")}) as processes:
        victim = 2 * stage
        assert processes.running[victim].wait(120) == 9
        outcome = watch_end(processes, time.monotonic(), [rank for rank in range(4) if rank != victim], NOTICE + END + SLACK)
    for message in outcome.messages.values():
        assert f"rank {victim} has died; last known status: rank {victim} " in message, message
    assert int(load_file(checkpoint)["steps"]) == 2
    expected = trained(plan, model.inputs, steps=5)
    found = trained(plan, model.inputs, "--checkpoint", checkpoint, "--resume", steps=5)
    assert found[0]["losses"] == expected[0]["losses"][2:] and same_bits(found[1], expected[1])
