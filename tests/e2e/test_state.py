"""Models that keep something from call to call: each plan is called as often as the original."""

from typing import List, Optional, Tuple

import pytest
import torch
from torch import nn

from conftest import cleave
from streams import CALLS, Counts, X


# What is kept


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
    assert "state h keeps" in error and "--mesh pp=1" in error, error


def test_micro_batches_are_refused_by_name(compiler):
    error = compiler.refuse(torch.jit.script(Counts()), "--devices", "1", "--microbatches", "2", x=X)
    assert 'cleave.read_state "count" would pass from part to part of dimension batch' in error, error
    report = compiler.compile(torch.jit.script(Counts()), "--microbatches", "auto", "--json", x=X).json()
    assert report["microbatches"] == 1


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
