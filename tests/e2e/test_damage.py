"""Files that are damaged, swapped or none of ours: one clear error, exit status 1, nothing written."""

import os
import pathlib
import random
import shutil
import subprocess
import zipfile

import pytest
import torch
from conftest import BIN, compile_refused, contents, refused, run_refused, verify_refused, drop_root_override

SAMPLES = 8


def flip(path, bit):
    with open(path, "r+b") as file:
        file.seek(bit // 8)
        byte = file.read(1)[0]
        file.seek(bit // 8)
        file.write(bytes([byte ^ 1 << bit % 8]))


def sampled_bits(size, seed):
    return random.Random(seed).sample(range(8 * size), SAMPLES)


# Damaged plans ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["plan.fb", "rank-000.safetensors", "rank-001.safetensors"])
def test_a_flipped_bit_in_a_plan(plan, tiny_model, name):
    path = plan / name
    for bit in sampled_bits(path.stat().st_size, name):
        flip(path, bit)
        assert name in run_refused(plan, tiny_model("gpt2").inputs), bit
        flip(path, bit)


@pytest.mark.parametrize("name", ["plan.fb", "rank-000.safetensors", "rank-001.safetensors"])
@pytest.mark.parametrize("kept", [0, 0.5, 0.99])
def test_a_truncated_plan(plan, tiny_model, name, kept):
    content = (plan / name).read_bytes()
    (plan / name).write_bytes(content[:int(kept * len(content))])
    assert name in run_refused(plan, tiny_model("gpt2").inputs)


@pytest.mark.parametrize("name", ["plan.fb", "rank-001.safetensors"])
def test_a_missing_file(plan, tiny_model, name):
    (plan / name).unlink()
    assert name in run_refused(plan, tiny_model("gpt2").inputs)


def test_swapped_shards(plan, tiny_model):
    first, second = plan / "rank-000.safetensors", plan / "rank-001.safetensors"
    both = first.read_bytes(), second.read_bytes()
    first.write_bytes(both[1])
    second.write_bytes(both[0])
    assert "rank-00" in run_refused(plan, tiny_model("gpt2").inputs)


def test_a_newer_format(plan, tiny_model):
    with open(plan / "plan.fb", "r+b") as file:
        file.seek(8)
        file.write((99).to_bytes(4, "little"))
    message = run_refused(plan, tiny_model("gpt2").inputs)
    assert "plan.fb" in message and "99" in message and "version" in message


@pytest.mark.parametrize("command", ["inspect", "verify"])
def test_other_commands_on_a_damaged_plan(plan, tiny_model, command):
    flip(plan / "plan.fb", 1000)
    more = ("--model", tiny_model("gpt2").path) if command == "verify" else ()
    assert "plan.fb" in refused(plan.parent, command, plan.name, *more)


def test_no_plan_at_all(model):
    for path in (model.parent / "nowhere.plan", model, model.parent):
        message = refused(model.parent, "run", path, "--inputs", "model.inputs.safetensors")
        assert "plan.fb" in message and "cleave compile" in message


# Damaged models -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("record", ["data.pkl", "data/0", "constants.pkl", "code/"])
def test_a_flipped_bit_in_a_model(model, record):
    with zipfile.ZipFile(model) as archive:
        item = next(item for item in archive.infolist() if f"/{record}" in item.filename)
    # A local header: 30 bytes, name, extra field whose length is in its bytes 28 and 29.
    header = model.read_bytes()[item.header_offset:item.header_offset + 30]
    start = item.header_offset + 30 + len(item.filename) + int.from_bytes(header[28:30], "little")
    for bit in sampled_bits(item.compress_size, record):
        flip(model, 8 * start + bit)
        assert "model.pt" in compile_refused(model), bit
        flip(model, 8 * start + bit)


def test_a_flipped_bit_anywhere_in_a_model(model, pristine_plan):
    """It is refused, or it was in padding or a date and the plan is the same."""
    refusals = 0
    for bit in sampled_bits(model.stat().st_size, "anywhere"):
        flip(model, bit)
        command = [BIN / "cleave", "compile", model.name, "--inputs", "model.inputs.safetensors", "--devices", "2", "-o",
                   "new.plan"]
        done = subprocess.run(command, cwd=model.parent, capture_output=True, text=True)
        if done.returncode == 0:
            assert contents(model.parent / "new.plan") == contents(pristine_plan), bit
            shutil.rmtree(model.parent / "new.plan")
        else:
            assert done.returncode == 1 and done.stderr.startswith("error: model.pt"), done.stderr
            refusals += 1
        flip(model, bit)
    assert refusals


@pytest.mark.parametrize("write", [
    lambda path: path.write_text("no archive"),
    lambda path: path.write_bytes(b""),
    lambda path: torch.save({"weight": torch.ones(2)}, path),
    lambda path: path.unlink(),
    lambda path: (path.unlink(), path.mkdir()),
    lambda path: path.write_bytes(path.read_bytes()[:-200]),
], ids=["text", "empty", "a dictionary of weights", "absent", "a folder", "truncated"])
def test_not_a_traced_model(model, plan, write):
    write(model)
    assert "model.pt" in compile_refused(model)
    assert "model.pt" in verify_refused(plan, model.name)


# Files that cannot be read -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["model.pt", "model.inputs.safetensors", "model.witnesses.safetensors", "machine.json",
                                  "model.plan/plan.fb", "model.plan/rank-001.safetensors"])
def test_a_file_without_permission(model, plan, name):
    path = model.parent / name
    path.touch()
    path.chmod(0)
    inputs = "model.inputs.safetensors"
    if name.startswith("model.plan"):
        message = run_refused(plan, inputs, preexec_fn=drop_root_override)
        assert path.name in refused(model.parent, "verify", plan.name, "--model", model.name, preexec_fn=drop_root_override)
    elif name == "machine.json":
        message = compile_refused(model, "--machine", name, preexec_fn=drop_root_override)
    else:
        message = compile_refused(model, preexec_fn=drop_root_override)
    assert path.name in message and "ermission denied" in message


@pytest.mark.parametrize("make", [pathlib.Path.mkdir, os.mkfifo], ids=["folder", "pipe"])
def test_a_plan_file_that_is_none(plan, make):
    (plan / "plan.fb").unlink()
    make(plan / "plan.fb")
    assert "plan.fb': it is no regular file; give the folder " in run_refused(plan, "model.inputs.safetensors")
    assert "plan.fb': it is no regular file; give the folder " in refused(plan.parent, "inspect", plan.name)


def test_names_of_nothing(model):
    message = refused(model.parent, "compile", "nosuch", "-o", "new.plan")
    assert message.endswith("; give a TorchScript archive, as torch.jit.save writes it")
    message = refused(model.parent, "compile", model.name, "--inputs", "nosuch", "-o", "new.plan")
    assert message.endswith("'nosuch': No such file or directory; give a safetensors file that can be read")


# Damaged inputs -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("content", [b"not tensors", b"", (1 << 62).to_bytes(8, "little") + b"{}",
                                     (2).to_bytes(8, "little") + b"[]"], ids=["text", "empty", "bomb", "no header"])
def test_inputs_that_are_no_tensors(plan, model, content):
    (plan.parent / "wrong.safetensors").write_bytes(content)
    assert "wrong.safetensors" in run_refused(plan, "wrong.safetensors")
    assert "wrong.safetensors" in verify_refused(plan, model.name, "--inputs", "wrong.safetensors")
    shutil.copy(plan.parent / "wrong.safetensors", plan.parent / "model.inputs.safetensors")
    assert "model.inputs.safetensors" in compile_refused(model)
