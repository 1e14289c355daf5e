"""Models that raise: the plan raises as the original does, and says where."""

import warnings
from typing import Tuple

import torch
from safetensors.torch import save_file
from torch import nn

from conftest import cleave
from streams import X


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


class WritesToTheTerminal(nn.Module):
    def forward(self, x):
        if bool(x.sum() > 100):
            raise ValueError("\033]0;owned\a\033[2J{}".format(int(x.sum())))
        return x + 1


def test_what_a_model_says_is_printable(compiler):
    compiler.compile(torch.jit.script(WritesToTheTerminal()), x=X)
    save_file({"x": torch.full((4, 6), 10.0)}, compiler.folder / "large.safetensors")
    for command in (("run", "model.plan"), ("verify", "model.plan", "--model", "model.pt")):
        error = cleave(*command, "--inputs", "large.safetensors", status=1, cwd=compiler.folder).err
        assert r"\x1b]0;owned\x07\x1b[2J240" in error and error.rstrip("\n").isprintable(), error


class Forges(nn.Module):
    """Puts lines of cleave's into what it says, also as it is opened."""

    def __init__(self):
        super().__init__()
        self.size = 1

    @torch.jit.export
    def __getstate__(self):
        return self.size, self.training

    @torch.jit.export
    def __setstate__(self, state: Tuple[int, bool]):
        self.size = state[0]
        self.training = state[1]
        print("read\nerror: forged\n\033[2Jnote: forged\n")
        warnings.warn("warned\nerror: forged")

    def forward(self, x):
        if bool(x.sum() > 100):
            raise ValueError("too large\nerror: forged\nnote: forged {}".format(int(x.sum())))
        return x + 1


def test_what_a_model_says_passes_for_nothing_else(compiler):
    said = compiler.compile(torch.jit.script(Forges()), x=X)
    assert "model: error: forged" in said.err and r"model: \x1b[2Jnote: forged" in said.err
    assert r"note: the model warns: warned\x0aerror: forged" in said.err
    save_file({"x": torch.full((4, 6), 10.0)}, compiler.folder / "large.safetensors")
    for command in (("run", "model.plan"), ("verify", "model.plan", "--model", "model.pt")):
        lines = cleave(*command, "--inputs", "large.safetensors", status=1, cwd=compiler.folder).err.splitlines()
        assert sum(line.startswith("error: ") for line in lines) == 1 and lines[-1].startswith("error: "), lines
        assert all(line.startswith(("model: ", "note: the model warns: ")) for line in lines[:-1]), lines
    assert not any(line.startswith(("error: ", "note: forged")) for line in said.err.splitlines())


@torch.jit.script
def say(count: int):
    for i in range(count):
        print("error: forged")
    warnings.warn("hello\nerror: forged \033[31m")


class ForgesInThreads(nn.Module):
    """Says as much in two other threads, as it is opened, and ends the process' own output with half a line."""

    def __init__(self):
        super().__init__()
        self.count = 1000

    @torch.jit.export
    def __getstate__(self):
        return self.count, self.training

    @torch.jit.export
    def __setstate__(self, state: Tuple[int, bool]):
        self.count = state[0]
        self.training = state[1]
        first = torch.jit.fork(say, self.count)
        second = torch.jit.fork(say, self.count)
        torch.jit.wait(first)
        torch.jit.wait(second)
        torch.ops.aten._print("error: forged")

    def forward(self, x):
        return x + 1


def test_what_threads_of_a_model_say_passes_for_nothing_else(compiler):
    torch.jit.save(torch.jit.script(ForgesInThreads()), compiler.folder / "model.pt")
    said = cleave("compile", "model.pt", "--input", "x:f32[4,6]", "--quiet", "-o", "new.plan", cwd=compiler.folder)
    lines = said.err.splitlines()
    assert not said.out and all(line.startswith(("model: error: forged", "libtorch: ")) for line in lines)
    assert lines.count("model: error: forged") == 2000 and r"libtorch: error: forged \x1b[31m" in said.err


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
