"""Plans of several data-parallel ranks, each a pipeline on its part of the batch."""

import json

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from conftest import cleave, refused
from layers import X, layers, outputs_of
from launching import run_ranks, same_bits


def inspect(plan, **options):
    return cleave("inspect", plan, "--json", **options).json()


@pytest.mark.parametrize("mesh", ["dp=2", "dp=2,pp=2", "dp=2,tp=2", "dp=2,pp=2,tp=2"])
def test_plans_give_what_the_original_gives(mesh, tiny_model, tmp_path):
    model = tiny_model("gpt2")
    plan = tmp_path / "model.plan"
    report = cleave("compile", model.path, "--inputs", model.inputs, "--mesh", mesh, "--verify", "--json", "-o", plan).json()
    assert report["mesh"]["dp"] == 2 and report["max_abs_error"] < 1e-4
    cleave("verify", plan, "--model", model.path, "--inputs", model.inputs)
    found = inspect(plan)
    assert found["mesh"]["dp"] == 2 and found["microbatches"] == 1
    ranks = 2 * len(found["stages"]) * found["mesh"]["tp"]
    assert [device["name"] for device in found["devices"]] == [f"cpu:{rank}" for rank in range(ranks)]
    width = ranks // len(found["stages"])
    assert [stage["devices"] for stage in found["stages"]] == \
        [[f"cpu:{width * stage + position}" for position in range(width)] for stage in range(len(found["stages"]))]


@pytest.mark.parametrize("mesh, options, size", [
    ("dp=2", (), 2), ("dp=2,pp=2", (), 4), ("dp=2,tp=2", (), 4), ("dp=2", ("--microbatches", 2), 2),
    ("dp=2,pp=2", ("--microbatches", 2), 4), ("dp=2,pp=2", ("--microbatches", 2, "--schedule", "interleaved"), 4)])
def test_threads_and_processes_give_the_same_bits(mesh, options, size, trace_model, tmp_path):
    config = "vocab_size=128,n_embd=32,n_layer=4,n_head=4,n_positions=64"
    model = trace_model("hf:gpt2", "--config", config, "--batch", 4, "--seq", 16)
    plan = tmp_path / "model.plan"
    cleave("compile", model.path, "--inputs", model.inputs, "--mesh", mesh, *options, "-o", plan)
    expected = outputs_of(plan, model.inputs, tmp_path)
    for name, tensor in load_file(model.outputs).items():
        assert torch.allclose(expected[name], tensor, atol=1e-4), name
    outputs = tmp_path / "ranks.safetensors"
    report = json.loads(run_ranks(size, plan, "--inputs", model.inputs, "--outputs", outputs, "--json", "--repeat", 3,
                                  "--check-types"))
    assert same_bits(load_file(outputs), expected)
    assert [device["name"] for device in report["devices"]] == [f"cpu:{rank}" for rank in range(size)]


class TwoEnds(nn.Module):
    """Outputs of both stages, and one that has no batch."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(6, 6), nn.Linear(6, 6)

    def forward(self, x, scale):
        y = self.first(x)
        return y, self.second(y) * scale, scale * 2


@pytest.mark.parametrize("mesh, microbatches, size", [("dp=2", 1, 2), ("dp=2,pp=2", 2, 4), ("dp=3", 2, 3)])
def test_batches_that_do_not_divide(mesh, microbatches, size, compiler):
    """Of fewer samples than micro-batches some ranks have fewer, or none."""
    torch.manual_seed(0)
    module, scale = TwoEnds().eval(), torch.rand(6)
    compiler.compile(torch.jit.trace(module, (X, scale)), "--mesh", mesh, "--microbatches", microbatches,
                     "--dynamic", "x=batch,_", x=X, scale=scale)
    plan, inputs = compiler.folder / "model.plan", compiler.folder / "model.inputs.safetensors"
    for batch in (8, 7, 5, 3, 2, 1):
        compiler.save(torch.jit.trace(module, (X, scale)), {"x": X[:batch], "scale": scale})
        outputs = outputs_of(plan, inputs, compiler.folder)
        for found, expected in zip(outputs.values(), module(X[:batch], scale), strict=True):
            assert torch.allclose(found, expected, atol=1e-6), batch
        if batch in (7, 1):
            run_ranks(size, plan, "--inputs", inputs, "--outputs", compiler.folder / "ranks.safetensors")
            assert same_bits(load_file(compiler.folder / "ranks.safetensors"), outputs)


def test_data_ranks_share_what_does_not_divide(compiler):
    """Three micro-batches of four: two and one, not two and none."""
    compiler.compile(layers(), "--mesh", "dp=2", "--microbatches", 2, input=X)
    compiler.save(layers(), {"input": X[:3]})
    cleave("run", "model.plan", "--inputs", "model.inputs.safetensors", "--trace", "trace.json", cwd=compiler.folder)
    events = [event for event in json.loads((compiler.folder / "trace.json").read_text())["traceEvents"] if event["ph"] == "X"]
    last = max(event["args"]["request"] for event in events)
    done = sorted((event["tid"], event["name"]) for event in events if event["args"]["request"] == last)
    assert done == [(0, "F0.0"), (0, "F0.1"), (1, "F0.0")]


def test_streams(compiler):
    compiler.compile(layers(), "--mesh", "dp=2,pp=2", input=X)
    many = torch.randn(20, 8, 6)
    compiler.save(layers(), {"input": many})
    plan, inputs = compiler.folder / "model.plan", compiler.folder / "model.inputs.safetensors"
    outputs = outputs_of(plan, inputs, compiler.folder, "--stream")
    assert torch.allclose(outputs["output"], torch.stack([layers()(x) for x in many]), atol=1e-6)


def test_memory_and_times_are_those_of_a_part(tiny_model, tmp_path):
    """What a data-parallel rank holds and takes is what a micro-batch of as many parts takes."""
    model, found = tiny_model("gpt2"), {}
    for name, options in (("data", ("--mesh", "dp=2")), ("micro", ("--microbatches", 2))):
        plan = tmp_path / f"{name}.plan"
        cleave("compile", model.path, "--inputs", model.inputs, *options, "-o", plan)
        found[name] = inspect(plan)["stages"][0]
    for key in ("predicted_peak_bytes", "predicted_activation_bytes"):
        assert found["data"][key] == found["micro"][key], key
    data, micro = (cleave("simulate", tmp_path / f"{name}.plan", "--json").json() for name in ("data", "micro"))
    assert data["seconds"] == pytest.approx(micro["seconds"] / 2)
    assert len(data["devices"]) == 2 and all(device["bubble"] == pytest.approx(0) for device in data["devices"])
    for device in cleave("run", tmp_path / "data.plan", "--inputs", model.inputs, "--json").json()["devices"]:
        assert device["peak_bytes"] <= 1.05 * found["data"]["predicted_peak_bytes"]


def test_the_number_of_microbatches_is_found(tiny_model, tmp_path):
    model = tiny_model("gpt2")
    cleave("compile", model.path, "--inputs", model.inputs, "--mesh", "dp=2,pp=2", "--microbatches", "auto", "-o",
           tmp_path / "a.plan")
    # Each has one sample.
    assert inspect(tmp_path / "a.plan")["microbatches"] == 1


def test_a_mesh_is_found_beside_data_ranks(tiny_model, tmp_path):
    model = tiny_model("gpt2")
    report = cleave("compile", model.path, "--inputs", model.inputs, "--mesh", "pp=auto,tp=auto,dp=2", "--devices", 4, "--verify",
                    "--json", "-o", tmp_path / "a.plan").json()
    assert report["mesh"]["dp"] == 2
    assert report["candidates"] and all("dp=2" in one["mesh"] for one in report["candidates"])


def test_simulate_leaves_out_what_the_batch_lacks(compiler):
    result = compiler.compile(layers(), "--mesh", "dp=2", "--microbatches", 3, input=X[:3])
    assert "note: 6 micro-batches of all data-parallel ranks, but 3 samples in the example inputs" in result.out
    report = cleave("simulate", "model.plan", "--json", cwd=compiler.folder).json()
    assert report["microbatches"] == 2
    busy = [device["busy_seconds"] for device in report["devices"]]
    assert busy[0] == pytest.approx(2 * busy[1])


def test_inspect_says_it(compiler):
    compiler.compile(layers(), "--mesh", "dp=2,pp=2", input=X)
    text = cleave("inspect", "model.plan", cwd=compiler.folder).out
    assert "pp=2 dp=2 tp=1, 4 devices" in text and "1 micro-batch a data-parallel rank" in text
    page = cleave("inspect", "model.plan", "--format", "html", cwd=compiler.folder).out
    assert "each batch in 2 parts" in page


# What cannot be split -------------------------------------------------------------------------------------------------------


class OfMean(nn.Module):
    def forward(self, x):
        return x - x.mean(0)


class Fixed(nn.Module):
    """Holds the traced batch in itself."""

    def forward(self, x):
        return x.reshape(8, 2, 3).sum(-1)


class Fades(nn.Module):
    """Keeps something from call to call."""

    def __init__(self):
        super().__init__()
        self.register_buffer("scale", torch.ones(6))

    def forward(self, x):
        self.scale = self.scale * 0.5
        return x * self.scale


@pytest.mark.parametrize("options, remedy", [
    ((), "use dp=1 in --mesh"), (("--microbatches", "auto"), "use dp=1 in --mesh"),
    (("--microbatches", "2"), "use dp=1 in --mesh, and --microbatches 1")])
def test_names_what_mixes_the_batch(options, remedy, compiler):
    error = compiler.refuse(OfMean(), "--mesh", "dp=2", *options, x=X)
    assert "aten.mean.dim reduces over dimension batch" in error and "dp" in error and error.endswith(remedy), error


def test_a_model_that_fixes_its_batch(compiler):
    error = compiler.refuse(torch.jit.trace(Fixed(), X), "--mesh", "dp=2", x=X)
    assert "the model fixes batch there" in error and "dp=1" in error, error


def test_state_is_refused(compiler):
    error = compiler.refuse(Fades(), "--mesh", "dp=2", x=X)
    assert 'cleave.read_state "scale" would pass from part to part of dimension batch' in error and error.endswith("use dp=1 in --mesh"), error


class Doubled(nn.Module):
    def forward(self, x):
        return x * 2


def test_inputs_without_a_batch(compiler):
    error = compiler.refuse(Doubled(), "--mesh", "dp=2", x=torch.tensor(1.0))
    assert "batch" in error and error.endswith("use dp=1 in --mesh"), error


@pytest.mark.parametrize("mesh, why", [
    ("dp=0", 'found "dp=0", expected auto alone, or pp=N, dp=N or tp=N, where N is auto or at least 1'),
    ("dp=-1", 'found "dp=-1"'),
    ("dp=2,dp=2", "dp is given twice"),
    ("dp=70000", "takes 70000 devices, expected at most 65536"),
    ("dp=auto", "found dp=auto, expected a number"),
])
def test_wrong_usage(mesh, why, compiler):
    compiler.save(layers(), {"input": X})
    error = refused(compiler.folder, "compile", "model.pt", "--inputs", "model.inputs.safetensors", "--mesh", mesh, "-o",
                    "model.plan", status=2)
    assert why in error


def test_as_many_devices_as_ranks(compiler):
    compiler.compile(layers(), "--mesh", "dp=2,pp=2", input=X)
    error = refused(compiler.folder, "run", "model.plan", "--inputs", "model.inputs.safetensors", "--devices", "cpu:0,cpu:1")
    assert "4" in error and "2" in error
