"""Input that is damaged, swapped or not what it should be: one clear error, exit status 1, nothing written."""

import random
import shutil
import zipfile

import pytest
import torch
from safetensors.torch import load_file, save_file

from conftest import cleave, everything_below

SAMPLES = 8


@pytest.fixture
def model(tiny_model, tmp_path):
    """A copy of a tiny GPT-2 with its inputs, to be damaged."""
    original = tiny_model("gpt2")
    for path in (original.path, original.inputs):
        shutil.copy(path, tmp_path)
    return tmp_path / "model.pt"


@pytest.fixture(scope="module")
def pristine_plan(tiny_model, tmp_path_factory):
    plan = tmp_path_factory.mktemp("plan") / "model.plan"
    cleave("compile", tiny_model("gpt2").path, "--inputs", tiny_model("gpt2").inputs, "--devices", 2, "-o", plan)
    yield plan
    shutil.rmtree(plan.parent)


@pytest.fixture
def plan(pristine_plan, tmp_path):
    """A copy of a plan for two devices, to be damaged."""
    return shutil.copytree(pristine_plan, tmp_path / "model.plan")


def refused(folder, *arguments):
    """The one error line of a command that must fail and leave `folder` as it was."""
    before = everything_below(folder)
    result = cleave(*arguments, status=1, cwd=folder)
    lines = result.err.splitlines()
    assert len(lines) == 1 and lines[0].startswith("error: "), result.err
    assert result.out == ""
    assert everything_below(folder) == before
    return lines[0]


def compile_refused(model, *more):
    inputs = () if "--input" in more else ("--inputs", "model.inputs.safetensors")
    devices = () if "--devices" in more else ("--devices", 2)
    return refused(model.parent, "compile", model.name, *inputs, *devices, *more, "-o", "new.plan")


def run_refused(plan, inputs, *more):
    return refused(plan.parent, "run", plan.name, "--inputs", inputs, "--outputs", "outputs.safetensors", *more)


def flip(path, bit):
    with open(path, "r+b") as file:
        file.seek(bit // 8)
        byte = file.read(1)[0]
        file.seek(bit // 8)
        file.write(bytes([byte ^ 1 << bit % 8]))


def sampled_bits(size, seed):
    return random.Random(seed).sample(range(8 * size), SAMPLES)


@pytest.mark.parametrize("name", ["plan.fb", "rank-000.safetensors", "rank-001.safetensors"])
def test_a_flipped_bit_in_a_plan(plan, tiny_model, name):
    path = plan / name
    for bit in sampled_bits(path.stat().st_size, name):
        flip(path, bit)
        assert name in run_refused(plan, tiny_model("gpt2").inputs), bit
        flip(path, bit)


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
    contents = first.read_bytes(), second.read_bytes()
    first.write_bytes(contents[1])
    second.write_bytes(contents[0])
    assert "rank-00" in run_refused(plan, tiny_model("gpt2").inputs)


def test_no_plan_at_all(model):
    assert "nowhere.plan" in run_refused(model.parent / "nowhere.plan", model.parent / "model.inputs.safetensors")


@pytest.mark.parametrize("damage, word", [
    (lambda inputs: {}, "input_ids"),
    (lambda inputs: {**inputs, "more": inputs["input_ids"].clone()}, "more"),
    (lambda inputs: {"ids": inputs["input_ids"]}, "ids"),
    (lambda inputs: {"input_ids": inputs["input_ids"].float()}, "f32"),
    (lambda inputs: {"input_ids": inputs["input_ids"][:1].contiguous()}, "input_ids"),
    (lambda inputs: {"input_ids": inputs["input_ids"][0].contiguous()}, "input_ids"),
    # An id beyond the vocabulary: found by the operator that looks it up.
    (lambda inputs: {"input_ids": inputs["input_ids"] + 1000}, "transformer.wte"),
], ids=["none", "one too many", "another name", "another type", "another size", "another rank", "another value"])
def test_wrong_inputs(plan, tiny_model, damage, word):
    save_file(damage(load_file(tiny_model("gpt2").inputs)), plan.parent / "wrong.safetensors")
    assert word in run_refused(plan, "wrong.safetensors")


def test_inputs_that_are_no_tensors(plan):
    (plan.parent / "wrong.safetensors").write_text("not tensors")
    assert "wrong.safetensors" in run_refused(plan, "wrong.safetensors")


@pytest.mark.parametrize("devices", ["cpu:0", "cpu:0,cpu:1,cpu:2", "cpu:0,gpu:1", "cpu:0,cpu:x", "cpu:0,cpu:1000000"])
def test_unknown_devices(plan, tiny_model, devices):
    assert "device" in run_refused(plan, tiny_model("gpt2").inputs, "--devices", devices)


def write_weights_only(path):
    torch.save({"weight": torch.ones(2)}, path)


@pytest.mark.parametrize("write", [
    lambda path: path.write_text("no archive"),
    lambda path: path.write_bytes(b""),
    write_weights_only,
    lambda path: path.unlink(),
    lambda path: (path.unlink(), path.mkdir()),
    lambda path: path.write_bytes(path.read_bytes()[:-200]),
], ids=["text", "empty", "a dictionary of weights", "absent", "a folder", "truncated"])
def test_not_a_traced_model(model, write):
    write(model)
    assert "model.pt" in compile_refused(model)


@pytest.mark.parametrize("more", [
    ("--input", "input_ids:f32[2,16]"),
    ("--input", "ids:i64[2,16]"),
    ("--devices", "1000"),
    ("--mesh", "pp=3"),
    ("--stage-before", "transformer.no_such_module"),
    ("--dynamic", "no_such_input=batch,seq"),
], ids=" ".join)
def test_impossible_wishes(model, more):
    compile_refused(model, *more)
