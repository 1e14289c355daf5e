"""Plans whose batch goes through the stages in parts."""

import itertools
import json

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from conftest import TINY, cleave
from layers import X, layers, outputs_of


@pytest.mark.parametrize("name", TINY)
def test_schedules_give_the_same_bits(name, tiny_model, tmp_path):
    """And across numbers of micro-batches the same to 1e-6, since a product's blocking depends on its rows."""
    model = tiny_model(name)
    found = {}
    for devices, microbatches, schedule in itertools.product((1, 2), (1, 2), ("gpipe", "interleaved")):
        plan = tmp_path / f"{devices}.{microbatches}.{schedule}.plan"
        cleave("compile", model.path, "--inputs", model.inputs, "--devices", devices, "--microbatches", microbatches,
               "--schedule", schedule, "-o", plan)
        report = cleave("inspect", plan, "--json").json()
        assert report["microbatches"] == microbatches
        assert len(report["stages"]) == devices * (2 if schedule == "interleaved" else 1)
        assert [stage["devices"] for stage in report["stages"]] == \
            [[f"cpu:{stage % devices}"] for stage in range(len(report["stages"]))]
        found[devices, microbatches, schedule] = outputs_of(plan, model.inputs, tmp_path)
    for path, tensor in load_file(model.outputs).items():
        assert torch.allclose(found[1, 1, "gpipe"][path], tensor, atol=1e-5), path
    for (_, microbatches, _), outputs in found.items():
        for path, tensor in outputs.items():
            assert torch.equal(tensor, found[1, microbatches, "gpipe"][path]), path
            whole = found[1, 1, "gpipe"][path]
            assert (tensor - whole).abs().max() <= 1e-6 * whole.abs().max(), path


def test_large_products_give_the_same_bits(compiler):
    """Those that other kernels than libtorch's own compute."""
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(256, 512), nn.GELU(), nn.Linear(512, 256), nn.LayerNorm(256))
    x = torch.randn(8, 64, 256)
    found = [compiler.run(module, "--microbatches", "2", *more, input=x)["output"]
             for more in (("--devices", "1"), ("--devices", "2"), ("--devices", "2", "--schedule", "interleaved"))]
    assert all(torch.equal(outputs, found[0]) for outputs in found)


def test_memory_is_as_predicted(tiny_model, tmp_path):
    """Activations are those of a micro-batch, outputs those of the batch."""
    model = tiny_model("gpt2")
    cleave("compile", model.path, "--inputs", model.inputs, "--devices", 2, "--microbatches", 2, "-o", tmp_path / "a.plan")
    stages = cleave("inspect", tmp_path / "a.plan", "--json").json()["stages"]
    devices = cleave("run", tmp_path / "a.plan", "--inputs", model.inputs, "--json").json()["devices"]
    for stage, device in zip(stages, devices):
        assert device["peak_bytes"] == pytest.approx(stage["predicted_peak_bytes"], rel=0.05)


def test_batches_that_do_not_divide(compiler):
    compiler.compile(layers(), "--devices", "2", "--microbatches", "3", input=X)
    for batch in (8, 7, 2, 1):
        compiler.save(layers(), {"input": X[:batch]})
        outputs = outputs_of(compiler.folder / "model.plan", compiler.folder / "model.inputs.safetensors", compiler.folder)
        assert torch.allclose(outputs["output"], layers()(X[:batch]), atol=1e-6)


def test_the_batch_may_be_another_dimension(compiler):
    """The one that the user names so, here behind the sequence."""
    outputs = compiler.run(layers(), "--microbatches", "2", "--dynamic", "input=_,batch,_", input=X.reshape(2, 4, 6))
    assert torch.allclose(outputs["output"], layers()(X.reshape(2, 4, 6)), atol=1e-6)


class Contrast(nn.Module):
    """Every sample against every other, as CLIP does."""

    def forward(self, x):
        return x @ x.t()


class OfMean(nn.Module):
    def forward(self, x):
        return x - x.mean(0)


class PerSample(nn.Module):
    """Divides by the number of samples."""

    def forward(self, x):
        return x / x.size(0)


@pytest.mark.parametrize("module, why", [
    (Contrast(), "aten.matmul takes every pair of positions in dimension batch"),
    (OfMean(), "aten.mean.dim reduces over dimension batch"),
    (PerSample(), "computes with the size of dimension batch"),
])
def test_names_what_mixes_the_batch(module, why, compiler):
    error = compiler.refuse(module, "--microbatches", "2", x=X)
    assert why in error and error.endswith("use --microbatches 1"), error


def test_auto_leaves_the_batch_whole_where_it_must(compiler):
    for module in (Contrast(), OfMean(), PerSample()):
        result = compiler.compile(module, "--microbatches", "auto", x=X)
        assert "note: the batch is not split: aten." in result.out
        assert cleave("inspect", "model.plan", "--json", cwd=compiler.folder).json()["microbatches"] == 1


@pytest.mark.parametrize("layer", [nn.GRU(6, 5, num_layers=2, bidirectional=True), nn.LSTM(6, 5, batch_first=True), nn.RNN(6, 5)],
                         ids=lambda layer: type(layer).__name__)
def test_recurrent_layers_take_parts_of_the_batch(layer, compiler):
    layer = layer.eval()
    dynamic = "input=batch,_,_" if layer.batch_first else "input=_,batch,_"
    x = torch.randn(4, 4, 6)
    found = compiler.run(torch.jit.trace(layer, x), "--microbatches", "2", "--dynamic", dynamic, input=x)
    output, state = layer(x)
    leaves = [output, *(state if isinstance(state, tuple) else [state])]
    assert len(found) == len(leaves)
    for tensor, wanted in zip(found.values(), leaves):
        torch.testing.assert_close(tensor, wanted)


class Fixed(nn.Module):
    """Holds the traced batch in itself."""

    def forward(self, x):
        return x.reshape(8, 2, 3).sum(-1)


def test_a_fixed_batch_is_no_matter_of_dynamic(compiler):
    """The user has named no dimension; one who has is told to leave it out."""
    error = compiler.refuse(torch.jit.trace(Fixed(), X), "--microbatches", "2", x=X)
    assert "the model fixes batch there: use --microbatches 1 and dp=1, name the dimension that is the batch with --dynamic, or trace" in error, error
    error = compiler.refuse(torch.jit.trace(Fixed(), X), "--microbatches", "2", "--dynamic", "x=n,_", x=X)
    assert "the model fixes n there: name it at each input that has it, leave it out of --dynamic" in error, error


def test_more_microbatches_than_samples_are_noted(compiler):
    result = compiler.compile(layers(), "--microbatches", "9", input=X)
    assert "note: 9 micro-batches, but 8 samples in the example inputs: a batch with fewer samples than micro-batches " \
        "is split into single samples" in result.out
    assert "samples" not in compiler.compile(layers(), "--microbatches", "8", input=X).out


def test_auto_says_why_a_model_is_fixed(compiler):
    result = compiler.compile(torch.jit.trace(Fixed(), X), "--microbatches", "auto", x=X)
    assert "note: the batch is not split: " in result.out


@pytest.mark.parametrize("options, why", [
    (("--microbatches", "0"), "--microbatches"),
    (("--microbatches", "-2"), "--microbatches"),
    (("--microbatches", "many"), "--microbatches"),
    (("--schedule", "gpip"), "--schedule gpip: not a schedule; use gpipe, interleaved or auto"),
    (("--schedule", "1f1b"), "orders backward passes"),
])
def test_wrong_usage(options, why, tiny_model, tmp_path):
    model = tiny_model("gpt2")
    result = cleave("compile", model.path, "--inputs", model.inputs, *options, "-o", tmp_path / "a.plan", status=2)
    assert why in result.err and not (tmp_path / "a.plan").exists()


def test_trace_and_bubble(compiler):
    compiler.compile(layers(), "--devices", "2", "--microbatches", "4", input=X)
    report = cleave("run", "model.plan", "--inputs", "model.inputs.safetensors", "--trace", "trace.json", "--repeat", 3,
                    "--json", cwd=compiler.folder).json()
    assert 0 <= report["bubble"]["measured"] <= 1 and report["bubble"]["formula"] == pytest.approx(1 / 5)
    for device in report["devices"]:
        assert device["busy_seconds"] + device["idle_seconds"] == pytest.approx(3 * report["seconds"])
    events = json.loads((compiler.folder / "trace.json").read_text())["traceEvents"]
    rows = {event["tid"]: event["args"]["name"] for event in events if event["ph"] == "M"}
    assert rows == {0: "rank 0 (cpu:0)", 1: "rank 1 (cpu:1)"}
    done = [event for event in events if event["ph"] == "X"]
    assert len({event["args"]["request"] for event in done}) == 3
    forward = [event for event in done if event["args"]["action"] == "Forward"]
    assert len(forward) == 3 * 2 * 4
    assert {(event["args"]["stage"], event["args"]["microbatch"]) for event in forward} == \
        set(itertools.product(range(2), range(4)))
    assert all(event["args"]["module_paths"] and event["dur"] >= 0 for event in done)
    for row in rows:
        ends = 0
        for event in sorted((event for event in done if event["tid"] == row), key=lambda event: event["ts"]):
            assert event["ts"] >= ends - 1e-3, "actions of a rank follow one another"
            ends = event["ts"] + event["dur"]


def test_trace_is_no_input(compiler):
    compiler.compile(layers(), input=X)
    for name in ("model.inputs.safetensors", "model.plan/plan.fb"):
        result = cleave("run", "model.plan", "--inputs", "model.inputs.safetensors", "--trace", name, status=1,
                        cwd=compiler.folder)
        assert f"--trace {name}: is " in result.err


class Normed(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.utils.parametrizations.spectral_norm(nn.Linear(6, 6))
        self.second = nn.utils.parametrizations.weight_norm(nn.Linear(6, 6))

    def forward(self, x):
        return self.second(torch.tanh(self.first(x)))


def test_a_batch_passes_layers_with_normed_weights(compiler):
    torch.manual_seed(0)
    result = compiler.compile(torch.jit.trace(Normed().eval(), X), "--devices", 2, "--microbatches", 2, x=X)
    assert "the batch" not in result.out, result.out
