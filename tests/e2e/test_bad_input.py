"""Input that is damaged, swapped or not what it should be: one clear error, exit status 1, nothing written."""

import json
import os
import random
import resource
import shutil
import signal
import subprocess
import time
import zipfile

import pytest
import torch
from safetensors.torch import load_file, save_file

from conftest import BIN, cleave, everything_below

SAMPLES = 8

MODULES = """
import torch
from torch import nn

class Linear(nn.Module):
    def __init__(self, combine):
        super().__init__()
        self.linear = nn.Linear(8, 8)
        self.combine = combine

    def forward(self, x):
        return self.combine(self.linear(x))

class FixedView(nn.Module):
    def forward(self, x):
        return x.view(4, 2, 8).sum(1)

class FixedTable(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(torch.ones(8, 8))

    def forward(self, x):
        return x + self.table

@torch.jit.script
def only_small(x):
    if bool((x > 5).any()):
        raise RuntimeError("too large")
    return x * 2

class Fussy(nn.Module):
    def forward(self, x):
        return only_small(x)

view = lambda: (Linear(FixedView()), torch.ones(8, 8))
table = lambda: (Linear(FixedTable()), torch.ones(8, 8))
fussy = lambda: (nn.Sequential(Fussy()), torch.ones(3))
"""


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


@pytest.fixture(scope="module")
def custom_model(trace_model, tmp_path_factory):
    """custom_model("view"): one of the modules above, traced."""
    path = tmp_path_factory.mktemp("modules") / "modules.py"
    path.write_text(MODULES)
    return lambda name: trace_model(f"{path}:{name}")


def refused(folder, *arguments, status=1, **options):
    """The one error line of a command that must fail and leave `folder` as it was."""
    before = everything_below(folder)
    result = cleave(*arguments, status=status, cwd=folder, **options)
    lines = result.err.splitlines()
    assert len(lines) == 1 and lines[0].startswith("error: "), result.err
    assert not result.out
    assert everything_below(folder) == before
    return lines[0]


def compile_refused(model, *more, **options):
    inputs = () if "--input" in more else ("--inputs", "model.inputs.safetensors")
    devices = () if "--devices" in more else ("--devices", 2)
    output = () if "-o" in more else ("-o", "new.plan")
    return refused(model.parent, "compile", model.name, *inputs, *devices, *more, *output, **options)


def run_refused(plan, inputs, *more, **options):
    output = () if "--outputs" in more else ("--outputs", "outputs.safetensors")
    return refused(plan.parent, "run", plan.name, "--inputs", inputs, *output, *more, **options)


def verify_refused(plan, model, *more):
    return refused(plan.parent, "verify", plan.name, "--model", model, *more)


def flip(path, bit):
    with open(path, "r+b") as file:
        file.seek(bit // 8)
        byte = file.read(1)[0]
        file.seek(bit // 8)
        file.write(bytes([byte ^ 1 << bit % 8]))


def sampled_bits(size, seed):
    return random.Random(seed).sample(range(8 * size), SAMPLES)


def contents(plan):
    return {path.name: path.read_bytes() for path in plan.iterdir()}


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


# Inputs -------------------------------------------------------------------------------------------------------------

WRONG_INPUTS = {
    "none": (lambda inputs: {}, "input_ids"),
    "one too many": (lambda inputs: {**inputs, "more": inputs["input_ids"].clone()}, "more"),
    "another name": (lambda inputs: {"ids": inputs["input_ids"]}, "did you mean input_ids?"),
    "another type": (lambda inputs: {"input_ids": inputs["input_ids"].float()}, "float32[2, 16]"),
    "another size": (lambda inputs: {"input_ids": inputs["input_ids"][:1].contiguous()}, "input_ids: found int64[1, 16]"),
    "another rank": (lambda inputs: {"input_ids": inputs["input_ids"][0].contiguous()}, "input_ids: found int64[16]"),
    # An id beyond the vocabulary: found by the operator that looks it up.
    "another value": (lambda inputs: {"input_ids": inputs["input_ids"] + 1000}, "transformer.wte"),
}


@pytest.mark.parametrize("name", WRONG_INPUTS)
def test_wrong_inputs(plan, tiny_model, name):
    damage, message = WRONG_INPUTS[name]
    save_file(damage(load_file(tiny_model("gpt2").inputs)), plan.parent / "wrong.safetensors")
    assert message in run_refused(plan, "wrong.safetensors")
    if name == "another value":
        message = "the original model raises: RuntimeError: index out of range"
    assert message in verify_refused(plan, tiny_model("gpt2").path, "--inputs", "wrong.safetensors")


@pytest.mark.parametrize("content", [b"not tensors", b"", (1 << 62).to_bytes(8, "little") + b"{}",
                                     (2).to_bytes(8, "little") + b"[]"], ids=["text", "empty", "bomb", "no header"])
def test_inputs_that_are_no_tensors(plan, model, content):
    (plan.parent / "wrong.safetensors").write_bytes(content)
    assert "wrong.safetensors" in run_refused(plan, "wrong.safetensors")
    assert "wrong.safetensors" in verify_refused(plan, model.name, "--inputs", "wrong.safetensors")
    shutil.copy(plan.parent / "wrong.safetensors", plan.parent / "model.inputs.safetensors")
    assert "model.inputs.safetensors" in compile_refused(model)


@pytest.mark.parametrize("devices", ["cpu:0", "cpu:0,cpu:1,cpu:2", "cuda:0,cuda:1"])
def test_unknown_devices(plan, tiny_model, devices):
    assert "device" in run_refused(plan, tiny_model("gpt2").inputs, "--devices", devices)


@pytest.mark.parametrize("devices", ["cpu:0,gpu:1", "cpu:0,cpu:x", "cpu:0,cpu:-1", "cpu", "cpu:0,cpu:99999999999999999999"])
def test_malformed_devices(plan, devices):
    for command in (("run", plan.name), ("verify", plan.name, "--model", "model.pt")):
        message = refused(plan.parent, *command, "--devices", devices, status=2)
        assert "device" in message and "--help" in message


# What cannot be compiled --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("more, message", [
    (("--input", "input_ids:f32[2,16]"), "transformer.wte"),
    (("--input", "ids:i64[2,16]"), "input_ids"),
    (("--devices", "1000"), "1000 stages"),
    (("--machine", "nowhere"), "nowhere"),
    (("--machine", "cpu:1"), "cpu:1"),
    (("--stage-before", "transformer.no_such_module"), "transformer.no_such_module"),
    (("--stage-before", "transformer.h.1", "--stage-before", "transformer.h.2"), "--stage-before"),
    (("--capture-points", "transformer.no_such_module.*"), "transformer.no_such_module"),
    (("--dynamic", "no_such_input=batch,seq"), "no_such_input"),
    (("--dynamic", "input_ids=batch"), "2"),
    (("--dynamic", "input_ids=batch,17"), "17"),
    (("--dynamic", "input_ids=n,n"), "dimension n"),
    (("--role", "no_such_input=tokens"), "no_such_input"),
    (("--library", "nowhere.so"), "nowhere.so"),
    (("--emit-ir", "model.pt"), "--emit-ir"),
], ids=lambda value: " ".join(value) if isinstance(value, tuple) else "")
def test_impossible_wishes(model, more, message):
    assert message in compile_refused(model, *more)


@pytest.mark.parametrize("more, message", [
    (("--input", "input_ids:i64[2,16]", "--input", "input_ids:i64[2,16]"), "given twice"),
    (("--input", "input_ids:i64[2,16]", "--input", "input_ids=3"), "given twice"),
    (("--input", "input_ids:i63[2,16]"), "ids:i64[4,128]"),
    (("--input", "input_ids:i64[2,-16]"), '"-16"'),
    (("--input", "input_ids:i64[2,16"), "ids:i64[4,128]"),
    (("--input", "input_ids"), "ids:i64[4,128]"),
    (("--mesh", "pp=3"), "make --devices equal"),
    (("--mesh", "tp=2"), "tp=2"),
    (("--mesh", "pp=2,pp=2"), "given twice"),
    (("--mesh", "zz=2"), "zz=2"),
    (("--mesh", "pp=two"), "pp=two"),
    (("--mesh", "pp=0"), "pp=0"),
    (("--machine", "a b.json"), '" "'),
    (("--machine", "a[.json"), '"["'),
    (("--stage-before", "transformer.h["), '"["'),
    (("--stage-before", "transformer.h]"), '"]"'),
    (("--stage-before", "transformer.h(1"), '"("'),
    (("--stage-before", "transformer.h.1,transformer.h.2"), '","'),
    (("--stage-before", "a\nb"), "does not print"),
    (("--stage-before", ""), "nothing"),
    (("--capture-points", "transformer.h["), "transformer.h["),
    (("--capture-points", "transformer.h[0-"), "transformer.h[0-"),
    (("--capture-points", "transformer.h]"), "transformer.h]"),
    (("--capture-points", "transformer.h[]]"), "transformer.h[]]"),
    (("--capture-points", "transformer.h[[]"), "transformer.h[[]"),
    (("--capture-points", "{a,b}"), "{"),
    (("--capture-points", "transformer.(h"), '"("'),
    (("--capture-points", "a\\"), "a\\"),
    (("--capture-points", ""), "nothing"),
    (("--dynamic", "input_ids=batch,1x"), "1x"),
    (("--dynamic", "input_ids=batch,[seq"), "[seq"),
    (("--dynamic", "input_ids"), "--dynamic input_ids"),
    (("--dynamic", "=batch,seq"), "--dynamic"),
    (("--dynamic", "input_ids=a,b", "--dynamic", "input_ids=a,b"), "named twice"),
    (("--role", "input_ids=nonsense"), "nonsense"),
    (("--role", "input_ids"), "--role input_ids"),
], ids=lambda value: " ".join(value) if isinstance(value, tuple) else "")
def test_malformed_wishes(model, more, message):
    """Wrong usage: no model could make them right."""
    line = compile_refused(model, *more, status=2)
    assert message in line and line.startswith("error: compile: ") and line.endswith("; see cleave compile --help")


def test_brackets_in_a_pattern(model):
    cleave("compile", model.name, "--inputs", "model.inputs.safetensors", "--capture-points", "transformer.h.[0-1].mlp",
           "-o", "new.plan", cwd=model.parent)
    points = cleave("inspect", "new.plan", "--json", cwd=model.parent).json()["capture_points"]
    assert [point["path"] for point in points] == ["transformer.h.0.mlp", "transformer.h.1.mlp"]


@pytest.mark.parametrize("name, module, operator", [("view", "combine", "aten.view"), ("table", "combine", "aten.add")])
def test_a_dimension_that_the_model_fixes(custom_model, tmp_path, name, module, operator):
    model = custom_model(name)
    message = refused(tmp_path, "compile", model.path, "--inputs", model.inputs, "--dynamic", "x=batch,_", "-o", "new.plan")
    assert f" {module}: " in message and operator in message and "batch" in message


def test_an_original_that_raises(custom_model, tmp_path):
    model = custom_model("fussy")
    inputs = tmp_path / "large.safetensors"
    save_file({"input": torch.full((3,), 9.0)}, inputs)
    message = refused(tmp_path, "compile", model.path, "--inputs", inputs, "--verify", "-o", "new.plan")
    assert "too large" in message
    cleave("compile", model.path, "--inputs", inputs, "-o", tmp_path / "new.plan")
    assert "too large" in refused(tmp_path, "verify", "new.plan", "--model", model.path, "--inputs", inputs)
    # The plan raises as the original does, and says where.
    message = refused(tmp_path, "run", "new.plan", "--inputs", inputs)
    assert "too large" in message and " 0: " in message


def test_a_plan_of_another_model(plan, tiny_model, model):
    assert "is not the model" in verify_refused(plan, tiny_model("bert").path)


# Where it cannot be written -----------------------------------------------------------------------------------------


def occupy_with_a_file(path):
    path.write_text("precious")


def occupy_with_a_folder(path):
    path.mkdir()
    (path / "precious").write_text("")


@pytest.mark.parametrize("occupy", [occupy_with_a_file, occupy_with_a_folder])
def test_what_is_no_plan_is_not_replaced(model, occupy):
    occupy(model.parent / "taken")
    message = compile_refused(model, "-o", "taken")
    assert "taken" in message and "remove it, or give another name" in message


# Nobody may make folders in /sys, root included.
@pytest.mark.parametrize("output", ["no/such/folder", "model.pt/new.plan", "/sys/new.plan", "", "."])
def test_an_output_that_cannot_be_made(model, plan, output):
    compile_refused(model, "-o", output)
    if output:
        run_refused(plan, model.parent / "model.inputs.safetensors", "--outputs", output)


def test_a_failure_leaves_the_older_plan(model, plan):
    """`refused` looks at what is there."""
    compile_refused(model, "--devices", "1000", "-o", plan.name)
    cleave("compile", model.name, "--inputs", "model.inputs.safetensors", "--devices", 3, "-o", plan.name, cwd=plan.parent)
    assert len(contents(plan)) == 4


def limit_file_size():
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))


def test_a_full_disk(model, plan):
    inputs = model.parent / "model.inputs.safetensors"
    assert "free some space" in compile_refused(model, preexec_fn=limit_file_size)
    assert "free some space" in run_refused(plan, inputs, preexec_fn=limit_file_size)


@pytest.mark.parametrize("target", ["inputs", "a symbolic link to inputs", "a hard link to inputs", "plan.fb", "a new file",
                                    "a symbolic link to plan.fb", "a hard link to plan.fb", "a link into the plan"])
def test_outputs_do_not_replace_what_is_read(model, plan, target):
    inputs, link = model.parent / "model.inputs.safetensors", model.parent / "link"
    if "inputs" in target or "plan.fb" in target:
        link = inputs if "inputs" in target else plan / "plan.fb"
    if target.startswith("a symbolic link"):
        (model.parent / "link").symlink_to(link)
        link = model.parent / "link"
    elif target.startswith("a hard link"):
        os.link(link, model.parent / "link")
        link = model.parent / "link"
    elif target == "a new file":
        link = plan / "outputs.safetensors"
    elif target == "a link into the plan":
        (model.parent / "folder").symlink_to(plan)
        link = model.parent / "folder/outputs.safetensors"
    assert "give another name" in run_refused(plan, inputs, "--outputs", link)


def test_a_full_disk_below_emitted_ir(model):
    (model.parent / "ir").mkdir()
    message = compile_refused(model, "--emit-ir", "ir", preexec_fn=limit_file_size)
    assert message.startswith("error: --emit-ir: cannot write ") and "free some space" in message


def test_emitted_ir_does_not_replace_a_folder(model):
    (model.parent / "ir/01-strip-boundaries.mlir").mkdir(parents=True)
    assert "01-strip-boundaries.mlir" in compile_refused(model, "--emit-ir", "ir")


@pytest.mark.parametrize("command", ["compile", "run", "verify", "inspect"])
def test_a_full_standard_output(model, plan, command):
    arguments = {"compile": (model.name, "--inputs", "model.inputs.safetensors", "-o", "new.plan"),
                 "run": (plan.name, "--inputs", "model.inputs.safetensors"),
                 "verify": (plan.name, "--model", model.name), "inspect": (plan.name,)}
    with open("/dev/full", "w") as full:
        result = cleave(command, *arguments[command], status=1, cwd=model.parent, stdout=full)
    assert result.err.startswith("error: cannot write to the standard output: ")
    assert len(result.err.splitlines()) == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])
# While the model is read; while shards are written, or just after; while the plan is verified.
@pytest.mark.parametrize("moment", ["", "rank-*.safetensors", "plan.fb"], ids=["reading", "writing", "verifying"])
def test_a_killed_compile_leaves_nothing(model, number, moment):
    before = everything_below(model.parent)
    command = [BIN / "cleave", "compile", model.name, "--inputs", "model.inputs.safetensors", "--devices", "4", "--verify",
               "-o", "new.plan"]
    process = subprocess.Popen(command, cwd=model.parent, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    while process.poll() is None and not list(model.parent.glob(f".new.plan.partial-*/{moment}")):
        time.sleep(0.001)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == -number and not out and not err
    assert everything_below(model.parent) == before


# Wrong usage --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments, word", [
    ((), "subcommand"),
    (("explode",), "explode"),
    (("compile",), "model"),
    (("compile", "model.pt"), "--output"),
    (("compile", "model.pt", "-o"), "--output"),
    (("compile", "model.pt", "-o", "a.plan", "-o", "b.plan"), "--output"),
    (("compile", "model.pt", "-o", "a.plan", "--devices", "0"), "--devices"),
    (("compile", "model.pt", "-o", "a.plan", "--devices", "many"), "--devices"),
    (("compile", "model.pt", "-o", "a.plan", "--no-such-option"), "--no-such-option"),
    (("run", "a.plan", "--repeat", "0"), "--repeat"),
    (("run", "a.plan", "b.plan"), "b.plan"),
    (("run", "--devices", "cpu:0", "a.plan", "--repeat", "x"), "--repeat"),
    (("verify", "a.plan"), "--model"),
    (("inspect", "a.plan", "--format", "yaml"), "yaml"),
], ids=lambda value: " ".join(value) if isinstance(value, tuple) else "")
def test_wrong_usage(tmp_path, arguments, word):
    message = refused(tmp_path, *arguments, status=2)
    assert word in message and "--help" in message


@pytest.mark.parametrize("command", ["", "compile", "run", "verify", "inspect"])
def test_help(command):
    result = cleave(*command.split(), "--help")
    assert not result.err and "Usage: cleave" in result.out
    # CLI11's own words for types and ranges.
    assert "TEXT" not in result.out and "UINT" not in result.out
    assert max(map(len, result.out.splitlines())) <= 120


def test_json_alone_is_on_standard_output(model, plan):
    inputs = "model.inputs.safetensors"
    for arguments in (("compile", model.name, "--inputs", inputs, "--verify", "-o", "new.plan"),
                      ("run", plan.name, "--inputs", inputs), ("verify", plan.name, "--model", model.name),
                      ("inspect", plan.name)):
        result = cleave(*arguments, "--json", cwd=model.parent)
        assert isinstance(json.loads(result.out), dict) and not result.err


def test_progress_is_for_terminals(model):
    ours, theirs = os.openpty()
    result = cleave("compile", model.name, "--inputs", "model.inputs.safetensors", "--verify", "-o", "new.plan",
                    cwd=model.parent, stderr=theirs)
    os.close(theirs)
    shown = os.read(ours, 10000).decode().splitlines()
    os.close(ours)
    assert [line.split()[0] for line in shown] == ["reading", "cutting", "writing", "loading", "running"]
    assert result.out.startswith("new.plan: 1 stage, ")
