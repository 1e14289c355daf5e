"""Wishes and inputs that do not fit the model or the plan: one clear error, exit status 1, nothing written."""

import json
import re

import pytest
import torch
from safetensors.torch import load_file, save_file

from conftest import cleave, compile_refused, refused, run_refused, verify_refused

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


@pytest.fixture(scope="module")
def custom_model(trace_model, tmp_path_factory):
    """custom_model("view"): one of the modules above, traced."""
    path = tmp_path_factory.mktemp("modules") / "modules.py"
    path.write_text(MODULES)
    return lambda name: trace_model(f"{path}:{name}")


# Inputs -------------------------------------------------------------------------------------------------------------

WRONG_INPUTS = {
    "none": (lambda inputs: {}, "input_ids"),
    "one too many": (lambda inputs: {**inputs, "more": inputs["input_ids"].clone()},
                     "tensor more is no input of the plan, which takes input_ids int64[2, 16]; leave it out"),
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


@pytest.mark.parametrize("devices", ["cpu:0", "cpu:0,cpu:1,cpu:2", "cuda:0,cuda:1"])
def test_unknown_devices(plan, tiny_model, devices):
    # Which GPUs would have, with a note.
    assert "device" in run_refused(plan, tiny_model("gpt2").inputs, "--devices", devices, "--sandbox", "off")


@pytest.mark.parametrize("devices", ["cpu:0,gpu:1", "cpu:0,cpu:x", "cpu:0,cpu:-1", "cpu", "cpu:0,cpu:99999999999999999999"])
def test_malformed_devices(plan, devices):
    for command in (("run", plan.name), ("verify", plan.name, "--model", "model.pt")):
        message = refused(plan.parent, *command, "--devices", devices, status=2)
        assert "did you mean cpu:" in message and "--help" in message


@pytest.mark.parametrize("devices", [",", "cpu:0,,cpu:1", "cpu:0,", ""])
def test_missing_devices(plan, devices):
    for command in (("run", plan.name), ("verify", plan.name, "--model", "model.pt"), ("profile", "-o", "machine.json")):
        message = refused(plan.parent, *command, "--devices", devices, status=2)
        assert f'--devices: found "{devices}", expected names of devices with a comma between any two: cpu:0,cuda:0' in message


# What cannot be compiled --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("more, message", [
    (("--input", "input_ids:f32[2,16]"), "transformer.wte"),
    (("--devices", "1000", "--mesh", "tp=1000"), "--mesh tp=1000: found no weight that 1000 ranks can split, expected at most "),
    (("--devices", "2000", "--mesh", "dp=2,tp=1000", "--microbatches", "2"), "--mesh tp=1000: found no weight"),
    (("--input", "ids:i64[2,16]"), "input input_ids: is missing; "),
    (("--input", "input_id:i64[2,16]"), "input input_id: is no input of forward; did you mean input_ids?"),
    (("--input", "input_ids:i64[2,16]", "--input", "input_idz:i64[2,16]"),
     "input input_idz: is no input of forward, which takes: input_ids; leave it out"),
    (("--devices", "1000"), "1000 stages"),
    (("--machine", "nowhere"), "; give one of these, or a file as cleave profile writes it"),
    (("--machine", "cpu:2", "--devices", "3"), "--devices 3: machine cpu:2 has 2; give that many at most, or a machine that has "
     "more"),
    (("--machine", "cpu:1"), "cpu:1"),
    (("--machine", "a100:8"), "the nearest is a100-80g:8"),
    (("--stage-before", "transformer.no_such_module"), "transformer has wte, "),
    (("--stage-before", "decoder"), "the model has transformer, lm_head"),
    (("--stage-before", "transformer.h.1.mpl"), "did you mean transformer.h.1.mlp?"),
    (("--capture-points", "transfromer.h.*"), "did you mean transformer.h.0?"),
    (("--stage-before", "transformer.h.1", "--stage-before", "transformer.h.2"), "--stage-before"),
    (("--capture-points", "transformer.no_such_module.*"), "transformer.no_such_module"),
    (("--capture-points", "decoder.layers.*"), "there are transformer, lm_head"),
    (("--dynamic", "no_such_input=batch,seq"), "no_such_input"),
    (("--dynamic", "input_idz=batch,seq"), "did you mean input_ids?"),
    (("--dynamic", "input_ids=batch"), "found 1 name, expected 2"),
    (("--dynamic", "input_ids=batch,17"), "17"),
    (("--dynamic", "input_ids=n,n"), "dimension n has size 16, and size 2 in input_ids, expected one size for a name; "),
    (("--role", "no_such_input=tokens"), "no_such_input"),
    (("--library", "nowhere.so"), "nowhere.so"),
    (("--emit-ir", "model.pt"), "--emit-ir model.pt: is a file, expected a folder for the IR after each pass; give another"),
    (("--emit-ir", "model.pt/ir"), "--emit-ir model.pt/ir: model.pt is a file, expected a folder"),
    (("--emit-ir", "/proc/ir"), "--emit-ir: cannot write '/proc/ir': "),
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
    (("--machine", "cpu:8", "--devices", "3", "--mesh", "pp=12"), "takes 12 devices, but there are 3; take 8 at most and leave "
     "--devices out, or a machine that has more"),
    (("--mesh", ""), "--mesh: found nothing, expected axes, as pp=2,tp=2, or auto"),
    (("--machine", ""), "--machine: found nothing, expected a preset, as cpu:4, or a file"),
    (("--schedule", ""), "--schedule: found nothing, expected a schedule, as gpipe, or auto"),
    (("--mesh", "dp=2,pp=2", "--devices", "2"), "takes 4 devices, but there are 2; make --devices equal"),
    (("--mesh", "dp=0"), "dp=0"),
    (("--mesh", "tp=2000"), "at most 1024"),
    (("--shard", "transformer.h.*=colwise"), "--mesh tp=N"),
    (("--mesh", "tp=2", "--shard", "transformer.h.*"), "PATTERN=STYLE"),
    (("--mesh", "tp=2", "--shard", "transformer.h.*=colwis"), "did you mean colwise?"),
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


def test_fewer_devices_than_the_machine_has(model):
    report = cleave("compile", model.name, "--inputs", "model.inputs.safetensors", "--devices", 2, "--machine", "cpu:4", "-o",
                    "new.plan", cwd=model.parent)
    assert "note: 2 of the 4 devices of cpu:4 are used; leave --devices away to use all" in report.out


@pytest.mark.parametrize("mesh, used", [("pp=2", "2 of the 4 devices of cpu:4 are"), ("tp=2", "2 of the 4 devices of cpu:4 are"),
                                        ("pp=1", "of the 4 devices of cpu:4 is")])
@pytest.mark.parametrize("train", [(), ("--train",)], ids=["step", "training"])
def test_a_mesh_of_fewer_devices_than_the_machine_has(model, mesh, used, train):
    """Devices that are alike: it does not matter which."""
    command = ("simulate", model.name, "--inputs", "model.inputs.safetensors", *train, "--json", "--mesh", mesh)
    report = cleave(*command, "--machine", "cpu:4", cwd=model.parent).json()
    note = f"the first {used} used, as many as --mesh takes"
    assert note in report.pop("notes")
    alone = cleave(*command, "--machine", f"cpu:{len(report['devices'])}", cwd=model.parent).json()
    del alone["notes"]
    assert report == alone


@pytest.mark.parametrize("ways", [("--schedule", "gpipe"), ("--schedule", "interleaved"), ("--mesh", "tp=2")])
def test_memory_that_does_not_hold(model, ways):
    """The error names the least limit with which the same command works."""
    options = ("--machine", "machine.json", *ways)

    def machine(bytes_):
        device = {"flops_per_second": 2e11, "memory_bytes_per_second": 1e10, "operator_seconds": 2e-6, "memory_bytes": bytes_}
        link = {"latency_seconds": 5e-6, "bytes_per_second": 1e10}
        devices = [{"name": f"cpu:{index}", **device} for index in range(2)]
        (model.parent / "machine.json").write_text(json.dumps({"devices": devices, "link": link}))

    def least_that_holds(bytes_):
        machine(bytes_)
        return int(re.search(r"devices with memory for (\d+) bytes \(--device-memory \1B\)$", compile_refused(model, *options))[1])

    least = least_that_holds(1000)
    assert least_that_holds(least - 1) == least
    machine(least)
    cleave("compile", model.name, "--inputs", "model.inputs.safetensors", *options, "-o", "new.plan", cwd=model.parent)


def test_brackets_in_a_pattern(model):
    cleave("compile", model.name, "--inputs", "model.inputs.safetensors", "--capture-points", "transformer.h.[0-1].mlp",
           "--emit-ir", "ir", "-o", "new.plan", cwd=model.parent)
    text = next(model.parent.glob("ir/*-strip-boundaries.mlir")).read_text()
    assert re.findall(r'cleave.boundary \S+ "([^"]+)"', text) == ["transformer.h.0.mlp", "transformer.h.1.mlp"]


def test_dynamic_without_inputs(model):
    message = refused(model.parent, "compile", model.name, "--dynamic", "input_ids=batch,seq", "-o", "new.plan")
    assert "--dynamic input_ids=batch,seq: found no example inputs, expected those of input_ids; give them with --inputs" in message


@pytest.mark.parametrize("name, module, operator", [("view", "combine", "aten.view"), ("table", "combine", "aten.add")])
def test_a_dimension_that_the_model_fixes(custom_model, tmp_path, name, module, operator):
    model = custom_model(name)
    compile = ("compile", model.path, "--inputs", model.inputs, "--dynamic", "x=batch,_", "-o", "new.plan")
    assert "--dynamic x=batch,_: found no other size of batch at which trace and module were compared" in refused(tmp_path, *compile)
    message = refused(tmp_path, *compile, "--beyond-witnesses")
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
