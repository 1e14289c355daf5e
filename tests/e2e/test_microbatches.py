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


class RepeatedHeads(nn.Module):
    """Keys for several query heads each, of a fused projection that is unbound."""

    def __init__(self):
        super().__init__()
        self.q, self.kv = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x):
        batch, length, _ = x.shape
        q = self.q(x).view(batch, length, 4, 2).transpose(1, 2)
        k, v = self.kv(x).view(batch, length, 2, 2, 2).permute(2, 0, 3, 1, 4).unbind(0)
        # A trace holds the first number as a tensor.
        k, v = k.repeat_interleave(q.size(1) // k.size(1), dim=1), v.repeat_interleave(2, dim=-3)
        return ((q @ k.transpose(-1, -2)).softmax(-1) @ v).transpose(1, 2).flatten(2)


class FromZeros(nn.Module):
    """A recurrent layer, batch first, whose state is made with the batch."""

    def __init__(self, layer):
        super().__init__()
        self.layer, self.top = layer(8, 5, num_layers=2, batch_first=True), nn.Linear(5, 3)

    def forward(self, x):
        zeros = torch.zeros(2, x.size(0), 5)
        state = (zeros, torch.zeros(2, x.size(0), 5)) if isinstance(self.layer, nn.LSTM) else zeros
        return self.top(self.layer(x, state)[0][:, -1]), self.top(self.layer(x)[0])


class ComplexRotary(nn.Module):
    def forward(self, x):
        pairs = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2))
        angles = torch.outer(torch.arange(x.size(1)), torch.tensor([1.0, 0.1, 0.01, 0.001]))
        return torch.view_as_real(pairs * torch.polar(torch.ones_like(angles), angles)).flatten(-2)


class Fourier(nn.Module):
    def forward(self, x):
        spectrum = torch.fft.rfft(x, n=16)
        correlated = torch.fft.irfft(spectrum * torch.conj(torch.fft.rfft(x.flip(-1), n=16)), n=16)
        plane = torch.fft.irfft2(torch.fft.rfft2(x, dim=(1, 2)), s=(6, 8), dim=(1, 2))
        mixed = torch.fft.fftshift(torch.fft.fft(torch.fft.fft(x), dim=1), dim=1).real
        return correlated, plane, mixed + torch.fft.fftn(x, dim=(1, 2)).imag + torch.fft.fft2(x).abs()


class Spectrogram(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("window", torch.hann_window(8))

    def forward(self, x):
        spectrum = torch.stft(x.flatten(1), 8, 2, 8, self.window, return_complex=True)
        return torch.istft(spectrum * spectrum.abs().sigmoid(), 8, 2, 8, self.window, length=48), spectrum.abs()


class Shuffles(nn.Module):
    def forward(self, x):
        image = x.reshape(-1, 8, 2, 3)
        small = nn.functional.pixel_unshuffle(nn.functional.pixel_shuffle(image, 2), 2)
        return small + torch.channel_shuffle(image, 2)


class Windows(nn.Module):
    def forward(self, x):
        image = x.reshape(-1, 2, 4, 6)
        columns = nn.functional.unfold(image, 2, stride=2)
        return nn.functional.fold(columns.softmax(-1), (4, 6), 2, stride=2), image.unfold(2, 2, 2).unfold(3, 3, 3).mean(-1)


class Buckets(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("edges", torch.linspace(-2, 2, 9))
        self.table = nn.Embedding(10, 3)

    def forward(self, x):
        own = torch.searchsorted(x.sort(-1)[0], x.contiguous(), right=True)
        return self.table(torch.bucketize(x, self.edges)), self.table(torch.searchsorted(self.edges, x)) + own.unsqueeze(-1)


@pytest.mark.parametrize("module", [
    RepeatedHeads(), FromZeros(nn.LSTM), FromZeros(nn.GRU), FromZeros(nn.RNN), ComplexRotary(), Fourier(), Spectrogram(), Shuffles(),
    Windows(), Buckets(),
], ids=lambda module: type(getattr(module, "layer", module)).__name__)
def test_samples_that_do_not_mix_are_split(module, compiler):
    torch.manual_seed(0)
    x = torch.randn(4, 6, 8)
    with torch.no_grad():
        traced, wanted = torch.jit.trace(module.eval(), x, check_trace=False), module(x)
    found = compiler.run(traced, "--microbatches", "2", x=x)
    outputs = [found[name] for name in sorted(found)]
    for tensor, expected in zip(outputs, wanted if isinstance(wanted, tuple) else [wanted], strict=True):
        torch.testing.assert_close(tensor, expected, atol=1e-5, rtol=1e-4)
    assert cleave("inspect", "model.plan", "--json", cwd=compiler.folder).json()["microbatches"] == 2


class MixesByFourier(nn.Module):
    def forward(self, x):
        return torch.fft.fft(x, dim=0).real


def test_transforms_over_the_batch_mix_it(compiler):
    error = compiler.refuse(torch.jit.trace(MixesByFourier(), X), "--microbatches", "2", x=X)
    assert "aten.fft_fft needs the whole of dimension batch" in error, error


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
