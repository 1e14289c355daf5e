"""Branches, loops and lists of models: each is compiled, run as a plan, and compared with the original."""

from typing import Dict, List, Optional

import pytest
import torch
from torch import nn

X = torch.linspace(-1, 1, 24).reshape(4, 6)


def traced(module, *inputs):
    return torch.jit.trace(module.eval(), inputs, check_trace=False)


class Pruned(nn.Module):
    """Branches on attributes and on what training is, known when compiling; the other side could not be compiled."""

    def __init__(self):
        super().__init__()
        self.depth = 2
        self.wide: Optional[torch.Tensor] = None
        self.register_buffer("count", torch.zeros(1))

    def forward(self, x, mask: Optional[torch.Tensor] = None):
        if self.training:
            self.count.add_(1)
        if self.depth > 1 and self.wide is None:
            x = x * 2
        else:
            self.count.mul_(2)
        if mask is not None:
            x = x * mask
        return x if self.depth == 2 else -x


def test_branches_on_constants_are_pruned(compiler):
    compiler.compile(Pruned(), "--emit-ir", "ir", x=X)
    assert "cleave.if" not in next(compiler.folder.glob("ir/01-*.mlir")).read_text()


class DataDependent(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(6, 6), nn.Linear(6, 6)

    def forward(self, x):
        y = self.first(x)
        if bool(y.sum() > 0):
            y = self.second(y)
            if bool(y[0, 0] > 0):
                y = torch.relu(y)
        else:
            y = y - 1
        count = 0
        while bool(y.abs().max() < 50):
            y = y * 2 + self.first(x)
            count += 1
        total = torch.zeros(4, 6)
        for i in range(count):
            if i == 2:
                continue
            total = total + y * i
            if bool(total.max() > 1000):
                break
        return torch.relu(total), y, torch.tensor(count)


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("devices", [1, 2])
def test_conditions_that_depend_on_data(compiler, sign, devices):
    torch.manual_seed(0)
    compiler.compile(DataDependent(), "--devices", devices, x=X * sign)


class Lists(nn.Module):
    """Lists that are filled in branches and in loops, of known and unknown length."""

    def forward(self, x):
        rows: List[torch.Tensor] = []
        for i in range(x.size(0)):
            rows.append(x[i] * i)
        known: List[torch.Tensor] = [x[0]]
        for i in range(3):
            known.append(x[i])
            known += [x[i] * 2]
        known[0] = x[3]
        last = known.pop()
        known.insert(0, last)
        known.reverse()
        chosen = [x]
        if bool(x.sum() > 0):
            chosen.append(x * 2)
            rows.append(x[0])
        else:
            chosen.extend([x * 3, x * 4])
        table: Dict[str, torch.Tensor] = {}
        for i, name in enumerate(["a", "b"]):
            table[name] = x * i
        table["a"] = table["b"] + 1
        return torch.stack(rows), torch.stack(known), torch.cat(chosen), table["a"], table


@pytest.mark.parametrize("devices", [1, 2])
@pytest.mark.parametrize("sign", [1, -1])
def test_lists_that_are_filled(compiler, sign, devices):
    compiler.compile(Lists(), "--devices", devices, x=(X + 0.1) * sign)


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.LSTMCell(6, 5)
        self.lstm = nn.LSTM(6, 5, 2, batch_first=True, bidirectional=True)

    def forward(self, x):
        state = (torch.zeros(2, 5), torch.zeros(2, 5))
        outputs: List[torch.Tensor] = []
        for step in x.unbind(1):
            state = self.cell(step, state)
            outputs.append(state[0])
        return torch.stack(outputs, 1), self.lstm(x)


@pytest.mark.parametrize("how", ["traced", "scripted"])
def test_a_recurrent_network(compiler, how):
    x = torch.linspace(-1, 1, 48).reshape(2, 4, 6)
    compiler.compile(traced(Recurrent(), x) if how == "traced" else Recurrent(), "--devices", 2, x=x)


def test_a_deep_and_long_model(compiler):
    class Deep(nn.Module):
        def __init__(self, depth):
            super().__init__()
            self.inner = Deep(depth - 1) if depth else nn.Linear(6, 6)

        def forward(self, x):
            for i in range(20):
                x = x + i
            return self.inner(x) * 0.5

    compiler.compile(traced(Deep(60), X), x=X)
