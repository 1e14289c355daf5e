"""Models that keep something from call to call, branch on data, raise: each plan is called as often as the original."""

import importlib.util
import pathlib
from typing import List, Optional, Tuple

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from conftest import cleave

X = torch.linspace(-1, 1, 24).reshape(4, 6)


def stream_of(*calls):
    """Inputs of several calls, one after the other in front."""
    return torch.stack([torch.as_tensor(call, dtype=torch.float32) for call in calls])


class Streams:
    """Compiles a module, with two devices or as the test says, and runs requests of one session."""

    def __init__(self, compiler):
        self.compiler = compiler

    def run(self, *options, **inputs):
        folder = self.compiler.folder
        save_file(inputs, folder / "stream.safetensors")
        cleave("run", "model.plan", "--inputs", "stream.safetensors", "--outputs", "outputs.safetensors", "--stream",
               "--check-types", *options, cwd=folder)
        return load_file(folder / "outputs.safetensors")

    def check(self, module, x, *options):
        """The plan's outputs are the original's, call by call."""
        scripted = module if isinstance(module, torch.jit.ScriptModule) else torch.jit.script(module)
        name = scripted.forward.schema.arguments[1].name
        self.compiler.compile(scripted, *options, **{name: x[0].clone()})
        with torch.no_grad():
            original = torch.jit.load(self.compiler.folder / "model.pt")
            expected = [original(call) for call in x.clone()]
        found = self.run(**{name: x})
        torch.testing.assert_close(found["output"], torch.stack(expected))
        return found["output"]


@pytest.fixture
def streams(compiler):
    return Streams(compiler)


CALLS = stream_of(X, X * 2, -X, X + 3, X * 0)


# What is kept


class Counts(nn.Module):
    """A buffer that is written in place."""

    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.tensor(3))

    def forward(self, x):
        self.count.add_(1)
        return x * self.count


class Sums(nn.Module):
    """An attribute that is set."""

    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.ones(4, 6))

    def forward(self, x):
        self.total = self.total * 0.5 + x
        return self.total


class Grows(nn.Module):
    """A state whose shape is another in each call."""

    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(0, 6))

    def forward(self, x):
        self.seen = torch.cat([self.seen, x])
        return self.seen.sum(0)


class Optionally(nn.Module):
    """Nothing at first."""
    last: Optional[torch.Tensor]

    def __init__(self):
        super().__init__()
        self.last = None

    def forward(self, x):
        last = self.last
        y = x if last is None else x - last
        self.last = x
        return y


class Numbers(nn.Module):
    """Integers, floats, truth values and words decide."""

    def __init__(self):
        super().__init__()
        self.calls = 0
        self.factor = 1.0
        self.flag = False
        self.word = "a"

    def forward(self, x):
        if self.calls > 2:
            self.calls = 0
            self.flag = not self.flag
            self.word = self.word + "b"
        self.calls += 1
        self.factor = self.factor * 1.5
        y = x * self.factor + len(self.word)
        return -y if self.flag else y


class Pair(nn.Module):
    """A tuple of tensors, as of an LSTM."""
    hidden: Tuple[torch.Tensor, torch.Tensor]

    def __init__(self):
        super().__init__()
        self.cell = nn.LSTMCell(6, 5)
        self.hidden = (torch.zeros(4, 5), torch.ones(4, 5))

    def forward(self, x):
        self.hidden = self.cell(x, self.hidden)
        return self.hidden[0]


class History(nn.Module):
    """A list of tensors, made anew."""
    last: List[torch.Tensor]

    def __init__(self):
        super().__init__()
        self.last = [torch.zeros(4, 6), torch.ones(4, 6)]

    def forward(self, x):
        self.last = [self.last[1], x]
        return self.last[0] + 2 * self.last[1]


class Ring(nn.Module):
    """One row of a buffer, written through a view."""

    def __init__(self):
        super().__init__()
        self.register_buffer("rows", torch.zeros(3, 6))
        self.at = 0

    def forward(self, x):
        self.rows[self.at] = x[0]
        self.at = (self.at + 1) % 3
        return self.rows * 1


class InBranches(nn.Module):
    """Set in branches that only data decides, one inside the other, and in a method that a branch calls."""

    def __init__(self):
        super().__init__()
        self.register_buffer("best", torch.zeros(4, 6))
        self.calls = 0

    def reset(self):
        self.best = torch.zeros(4, 6)
        self.calls = 0

    def forward(self, x):
        if bool(x.sum() > self.best.sum()):
            if bool(x.max() > 3.5):
                self.reset()
            else:
                self.best = x
                self.calls = self.calls + 1
        return self.best * 10 + self.calls


class InALoop(nn.Module):
    """Set in a loop whose number of iterations only data decides."""

    def __init__(self):
        super().__init__()
        self.register_buffer("h", torch.ones(6))
        self.steps = 0

    def forward(self, x):
        while bool(self.h.abs().max() > 0.1):
            self.h = self.h * 0.5
            self.steps = self.steps + 1
        self.h = self.h + x[0].abs()
        return self.h + self.steps


class TwoOfAKind(nn.Module):
    """Two modules of one class, each with a state of its own; one is called twice."""

    def __init__(self):
        super().__init__()
        self.first = Sums()
        self.second = Sums()

    def forward(self, x):
        return self.second(self.first(self.first(x)))


class Shared(nn.Module):
    """One module that hangs at two places."""

    def __init__(self):
        super().__init__()
        self.first = Sums()
        self.second = self.first

    def forward(self, x):
        return self.second(self.first(x) * 2)


class WritesARow(nn.Module):
    """A parameter, through a view, and a buffer whose tensor is set and written."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(2, 6), requires_grad=False)
        self.register_buffer("last", torch.zeros(6))

    def forward(self, x):
        self.weight[0].add_(1)
        self.last.mul_(2)
        self.last = self.last + x[0]
        return x + self.weight[0] + self.last


class SetsWhatNobodyReads(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("last", torch.zeros(4, 6))

    def forward(self, x):
        self.last = x
        return x + 1


MODULES = [Counts, Sums, Grows, Optionally, Numbers, Pair, History, Ring, InBranches, InALoop, TwoOfAKind, Shared,
           WritesARow]


@pytest.mark.parametrize("module", MODULES)
def test_kept_from_call_to_call(streams, module):
    outputs = streams.check(module().eval(), CALLS)
    assert len({output.numpy().tobytes() for output in outputs}) > 1


def test_what_nobody_reads_is_no_state(streams):
    streams.check(SetsWhatNobodyReads(), CALLS)
    assert cleave("inspect", "model.plan", "--json", cwd=streams.compiler.folder).json()["states"] == []


@pytest.mark.parametrize("how", ["trace", "script"])
def test_a_batch_norm_that_trains(streams, how):
    norm = nn.Sequential(nn.BatchNorm1d(6), nn.Tanh()).train()
    module = torch.jit.trace(norm, X, check_trace=False) if how == "trace" else torch.jit.script(norm)
    streams.check(module, CALLS)
    states = cleave("inspect", "model.plan", "--json", cwd=streams.compiler.folder).json()["states"]
    shapes = {state["name"]: state["shape"] for state in states}
    assert shapes["0.running_mean"] == shapes["0.running_var"] == [6]


# Stages


class Deep(nn.Module):
    """States at both ends, and work between them."""

    def __init__(self):
        super().__init__()
        self.first = Sums()
        self.layers = nn.Sequential(nn.Linear(6, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 6))
        self.last = Counts()

    def forward(self, x):
        return self.last(self.layers(self.first(x)))


@pytest.mark.parametrize("devices", [1, 2, 3])
def test_states_of_several_stages(streams, devices):
    streams.check(Deep().eval(), CALLS, "--devices", str(devices))
    plan = cleave("inspect", "model.plan", "--json", cwd=streams.compiler.folder).json()
    assert [state["name"] for state in plan["states"]] == ["first.total", "last.count"]
    assert [state["stage"] for state in plan["states"]] == [0, devices - 1]
    assert "kept from call to call" in cleave("inspect", "model.plan", cwd=streams.compiler.folder).out


def test_a_state_around_everything_cannot_be_cut(compiler):
    class Around(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("h", torch.zeros(4, 6))
            self.layer = nn.Linear(6, 6)

        def forward(self, x):
            self.h = self.layer(self.h + x).tanh()
            return self.h

    error = compiler.refuse(torch.jit.script(Around()), "--devices", "2", x=X)
    assert "state h keeps" in error and "--devices 1" in error, error


def test_micro_batches_are_refused_by_name(compiler):
    error = compiler.refuse(torch.jit.script(Counts()), "--devices", "1", "--microbatches", "2", x=X)
    assert 'cleave.state "count" would pass from part to part of dimension batch' in error, error
    report = compiler.compile(torch.jit.script(Counts()), "--microbatches", "auto", "--json", x=X).json()
    assert report["microbatches"] == 1


# Running


def test_repetitions_begin_with_the_state_that_was_saved(streams):
    streams.check(Counts(), CALLS, "--devices", "1")
    folder = streams.compiler.folder
    for options in [[], ["--repeat", "3"]]:
        cleave("run", "model.plan", "--inputs", "model.inputs.safetensors", "--outputs", "outputs.safetensors",
               *options, cwd=folder)
        torch.testing.assert_close(load_file(folder / "outputs.safetensors")["output"], X * 4)
        torch.testing.assert_close(streams.run(*options, x=CALLS)["output"][1], CALLS[1] * 5)


def test_verify_calls_twice(compiler):
    compiler.compile(torch.jit.script(Counts()), x=X)
    report = cleave("verify", "model.plan", "--model", "model.pt", "--json", cwd=compiler.folder).json()
    assert [output["call"] for output in report["outputs"]] == [1, 2] and report["ok"]
    assert "same output, call 2: " in cleave("verify", "model.plan", "--model", "model.pt", cwd=compiler.folder).out


def test_a_stream_of_a_model_without_state(streams):
    streams.check(nn.Linear(6, 3).eval().requires_grad_(False), CALLS, "--devices", "1")


@pytest.mark.parametrize("inputs, words", [
    ({"x": torch.zeros(())}, ["input x: found float32[], expected float32[4, 6] of each request of --stream", "3 dimensions"]),
    ({"x": X}, ["input x: found float32[4, 6], expected float32[4, 6] of each request of --stream along one more dimension "
                "in front; stack the requests, or leave --stream out"]),
    ({"x": CALLS[:0]}, ["input x: found float32[0, 4, 6]", "at least one request"]),
])
def test_a_stream_that_is_none(streams, inputs, words):
    streams.check(Counts(), CALLS)
    save_file(inputs, streams.compiler.folder / "bad.safetensors")
    error = cleave("run", "model.plan", "--inputs", "bad.safetensors", "--stream", status=1,
                   cwd=streams.compiler.folder).err
    assert error.count("\n") == 1 and all(word in error for word in words), error


# Raising


class Raises(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(()))

    def forward(self, x):
        self.count.add_(1)
        if bool(x.sum() > 100):
            raise ValueError("the sum is too large: {}".format(int(x.sum())))
        return x + self.count


class Wrapped(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Raises()

    def forward(self, x):
        return self.inner(x) * 2


def test_a_model_that_raises(compiler):
    compiler.compile(torch.jit.script(Wrapped()), x=X)
    save_file({"x": torch.full((4, 6), 10.0)}, compiler.folder / "large.safetensors")
    error = cleave("run", "model.plan", "--inputs", "large.safetensors", status=1, cwd=compiler.folder).err
    assert error == "error: rank 0 (stage 0): inner: the model raises: ValueError: the sum is too large: 240\n"
    error = cleave("verify", "model.plan", "--model", "model.pt", "--inputs", "large.safetensors", status=1,
                   cwd=compiler.folder).err
    assert "the original model raises: " in error and "the sum is too large: 240" in error, error


def test_a_model_that_raises_on_the_example_inputs(compiler):
    class Short(nn.Module):
        def forward(self, x):
            if x.size(0) < 5:
                raise ValueError("too short")
            return x

    error = compiler.refuse(Short(), x=X)
    assert 'raises "too short"' in error and "example inputs" in error, error


class RaisesAtASize(nn.Module):
    def forward(self, x):
        if x.size(0) > 1000:
            raise ValueError("too long")
        if x.size(0) == 0:
            y = x
        elif bool(x.sum() > 1000):
            raise RuntimeError("too large")
        else:
            y = torch.relu(x)
        return torch.tanh(y)


def test_types_are_those_of_the_branch_that_does_not_raise(compiler):
    compiler.compile(RaisesAtASize(), "--dynamic", "x=batch,6", "--devices", "2", x=X)
    plan = cleave("inspect", "model.plan", "--json", cwd=compiler.folder).json()
    assert plan["signatures"][0]["outputs"][0]["shape"] == ["batch", 6]


# Refused


class WritesAPart(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("table", torch.arange(6.0))
        self.register_buffer("part", self.table[:2])

    def forward(self, x):
        self.part.add_(1)
        return x + self.table


def test_a_buffer_that_shares_memory_is_refused(compiler):
    error = compiler.refuse(torch.jit.script(WritesAPart()), x=X)
    assert "buffer part" in error and "shares memory with table" in error, error


class WritesOneOfTwo(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("a", torch.zeros(6))
        self.register_buffer("b", torch.zeros(6))

    def forward(self, x):
        self.a.add_(1)
        y = x + self.a + self.b
        last = y[0] * 1
        self.a = last
        self.b = last
        return y


def test_attributes_that_are_one_tensor_are_refused(compiler):
    error = compiler.refuse(torch.jit.script(WritesOneOfTwo()), x=X)
    assert "writes attribute a in place" in error and "same tensor as b" in error, error


# A model that nobody here has written


@pytest.fixture(scope="module")
def silero():
    package = importlib.util.find_spec("silero_vad").submodule_search_locations[0]
    return pathlib.Path(package) / "data/silero_vad.jit"


def speech(seconds):
    """Vowels that begin and end, in noise, at 16 kHz: as chunks of 512 samples."""
    generator = torch.Generator().manual_seed(0)
    time = torch.arange(16000 * seconds) / 16000
    tone = sum(torch.sin(2 * torch.pi * 120 * k * time) / k for k in range(1, 30))
    open_mouth = (torch.sin(2 * torch.pi * 0.7 * time) > 0).float()
    signal = 0.1 * tone * open_mouth + 0.01 * torch.randn(time.shape, generator=generator)
    return signal[:len(signal) // 512 * 512].reshape(-1, 1, 512)


@pytest.mark.parametrize("devices", [1, 2])
def test_silero_vad_streams(silero, tmp_path, devices):
    cleave("compile", silero, "--input", "x:f32[1,512]", "--input", "sr=16000", "--devices", str(devices), "--verify",
           "-o", "vad.plan", cwd=tmp_path)
    chunks = speech(3)
    save_file({"x": chunks}, tmp_path / "speech.safetensors")
    cleave("run", "vad.plan", "--inputs", "speech.safetensors", "--outputs", "found.safetensors", "--stream",
           "--check-types", cwd=tmp_path)
    found = load_file(tmp_path / "found.safetensors")["output"]
    original = torch.jit.load(silero)
    with torch.no_grad():
        expected = torch.stack([original(chunk, 16000) for chunk in chunks])
    assert found.shape == expected.shape == (len(chunks), 1, 1)
    assert expected.max() - expected.min() > 0.01
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("samples, rate, words", [
    (500, 16000, "Input audio chunk is too short"),
    (600, 16000, "Provided number of samples is 600 (Supported values: 256 for 8000 sample rate, 512 for 16000)"),
    (512, 11025, "Supported sampling rates: [8000, 16000] (or multiply of 16000)"),
])
def test_silero_vad_says_what_it_does_not_take(silero, tmp_path, samples, rate, words):
    error = cleave("compile", silero, "--input", f"x:f32[1,{samples}]", "--input", f"sr={rate}", "-o", "vad.plan",
                   status=1, cwd=tmp_path).err
    assert error.count("\n") == 1 and words in error, error
