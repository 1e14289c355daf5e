"""What a compilation says of calls that it could not run, and of models that cannot run at all."""

import pytest
import torch
from torch import nn

from conftest import cleave

X = torch.linspace(-1, 1, 24).reshape(4, 6)


class FailsInOneBranch(nn.Module):
    def forward(self, x):
        if bool(x.sum() > 1000):
            return x.view(3, 5)
        return x


def test_a_call_that_always_fails_is_noted(compiler):
    result = compiler.compile(FailsInOneBranch(), x=X)
    assert "aten.view in the model itself fails at the traced sizes, whatever the inputs hold (shape '[3, 5]' is invalid " \
        f"for input of size {X.numel()}); a request that comes there ends with that error" in result.out, result.out


class Draws(nn.Module):
    def forward(self, x):
        return x + torch.randn_like(x)


def test_random_numbers_are_noted(compiler):
    compiler.save(Draws(), {"x": X})
    result = cleave("compile", "model.pt", "--inputs", "model.inputs.safetensors", "-o", "model.plan", cwd=compiler.folder)
    assert "note: aten.randn_like in the model itself draws random numbers: every run gives others" in result.out, result.out


SAYS_SO = "and the model draws random numbers (aten.{}), others in every run, so that no two runs are the same; trace it without " \
    "them (dropout: after .eval()), or use it unverified"


@pytest.mark.parametrize("module, name, where", [
    (Draws(), "x", "randn_like in the model itself"),
    (nn.Sequential(nn.Linear(6, 6), nn.Dropout(0.5)).train(), "input", "dropout in 1"),
], ids=["function", "dropout"])
def test_why_random_numbers_differ_from_the_original(module, name, where, compiler):
    error = compiler.refuse(torch.jit.trace(module, X, check_trace=False), "--verify", **{name: X})
    assert SAYS_SO.format(where) + "; no plan was written" in error, error
    cleave("compile", "model.pt", "--inputs", "model.inputs.safetensors", "-o", "model.plan", cwd=compiler.folder)
    done = cleave("verify", "model.plan", "--model", "model.pt", cwd=compiler.folder, status=1)
    assert done.err.rstrip().endswith(SAYS_SO.format(where)), done.err


class DrawsASize(nn.Module):
    def forward(self, x):
        return x.flatten()[torch.rand(24) > 0.5]


def test_random_sizes_are_told_as_such(compiler):
    """Also where values cannot be compared at all."""
    error = compiler.refuse(torch.jit.trace(DrawsASize(), X, check_trace=False), "--verify", x=X)
    assert SAYS_SO.format("rand in the model itself") in error, error


class Unheard(nn.Module):
    def forward(self, x):
        return torch.cdist(x, x).bincount() if x.size(0) > 1000 else torch.bincount(x[0].long())


def test_notes_do_not_quote_libtorchs_advice(compiler):
    compiler.save(Unheard(), {"x": X.abs()})
    result = cleave("compile", "model.pt", "--inputs", "model.inputs.safetensors", "-o", "model.plan",
                    cwd=compiler.folder)
    assert "only known when running (libtorch has no kernel for it that needs no data)" in result.out, result.out
    assert "PT2" not in result.out and "Meta" not in result.out


class RaisesEitherWay(nn.Module):
    def forward(self, x):
        if bool(x.sum() > 0):
            raise ValueError("too much")
        else:
            raise ValueError("too little")
        return x


class FailsEitherWay(nn.Module):
    def forward(self, x):
        if bool(x.sum() > 0):
            y = x.view(3, 5)
        else:
            y = x.view(5, 3)
        return y


def test_a_model_that_cannot_run_is_refused(compiler):
    assert "the model raises whichever way it takes; give inputs that it takes" in \
        compiler.refuse(RaisesEitherWay(), x=X)
    assert "fails on the example inputs (shape '[3, 5]' is invalid for input of size 24), and every other branch fails " \
        "as well" in compiler.refuse(FailsEitherWay(), x=X)


class Repeats(nn.Module):
    """A cell that is called before a loop and in it."""

    def __init__(self):
        super().__init__()
        self.cell = nn.LSTMCell(16, 16)

    def forward(self, x):
        h, c = self.cell(x[:, 0], (torch.zeros(x.size(0), 16), torch.zeros(x.size(0), 16)))
        for step in range(1, x.size(1)):
            h, c = self.cell(x[:, step], (h, c))
        return h


def test_what_is_said_of_several_calls_is_said_once(compiler):
    x = torch.randn(2, 3, 16)
    notes = [line for line in compiler.compile(torch.jit.script(Repeats()), "--mesh", "tp=2", x=x).out.splitlines()
             if line.startswith("note: ")]
    assert any("cell.weight_ih" in line for line in notes), notes
    assert len(set(notes)) == len(notes), notes
