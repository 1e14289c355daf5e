"""In-place operators: made functional, with the original's results, or refused with operator and module path."""

from typing import List

import pytest
import torch
from torch import nn

from conftest import cleave

X = torch.linspace(-1, 1, 24).reshape(4, 6)


def add_(x):
    y = x + 1
    y.add_(x)
    return y * 2, y


def add_returns_the_tensor(x):
    y = x + 1
    z = y.add_(1)
    z.mul_(3)
    return y, z


def relu_and_operator(x):
    y = x * 2
    y.relu_()
    y += x
    y -= 3
    y *= y
    y /= 2
    return y


def to_an_input(x):
    x.mul_(2)
    return x + 1


def keeps_the_dtype(x):
    y = (x * 1).half()
    y.add_(x)
    z = x * 1
    z.mul_(x.double())
    w = x * 1
    w.gt_(x * x)
    v = (x * 10).long()
    v.logical_not_()
    return y, z, w, v


def slice_assignment(x):
    y = x * 1
    y[1:3] = x[:2]
    y[:, 2] = 7.0
    y[0, 1:5:2] += 1
    y[-1] = torch.ones(6)
    return y


def writes_seen_by_views(x):
    y = x * 1
    row, column, block = y[1], y[:, 2], y[1:3, 2:4]
    turned, flat = y.t(), y.view(-1)
    y.mul_(10)
    return row, column, block, turned, flat


def writes_through_views(x):
    y = x * 1
    y.t()[0].add_(100)
    y.view(-1)[3:5].mul_(-1)
    y.view(2, 2, 6).select(0, 1).fill_(5)
    y.unsqueeze(0).transpose(1, 2)[0, 1:3, 0].zero_()
    y.unsqueeze(1).squeeze(1)[0].neg_()
    y.diagonal().add_(1)
    return y


def views_of_views(x):
    y = x * 1
    a = y[1:]
    b = a[1:]
    c = b[:, 1:3]
    y.add_(1)
    first = c * 1
    c.mul_(2)
    return first, a, b, c, y


def sibling_views(x):
    y = x * 1
    a, b = y[:3], y[1:]
    a.add_(1)
    b.mul_(2)
    a[0].sub_(b[2])
    return a, b, y


def masks_and_indices(x):
    y = x * 1
    y.masked_fill_(y > 0.5, -5.0)
    y.index_put_([torch.tensor([0, 2])], torch.zeros(6))
    y[torch.tensor([1, 1]), torch.tensor([2, 3])] = 9.0
    y[y < -2] = 0.25
    y.scatter_(1, torch.zeros(4, 1, dtype=torch.long), 3.0)
    y.index_fill_(0, torch.tensor([3]), 1.5)
    y.clamp_(-1, 2)
    return y


def copies(x):
    y = torch.zeros(4, 6)
    y.copy_(x)
    y[0].copy_(x[1])
    z = torch.empty(4, 6, dtype=torch.float64)
    z.copy_(x)
    z[:2] = x[2:]
    return y, z


def writes_through_parts(x):
    y = x * 1
    left, right = y.chunk(2, dim=1)
    left.add_(1)
    right[0].mul_(3)
    left.mul_(right)
    head, tail = y.split([1, 3])
    tail[1:].sub_(head)
    a, b, c, d = y.unbind(0)
    c.copy_(a * 2)
    first, second, third = y.t().tensor_split(3)
    second.neg_()
    y.add_(1)
    return y, left, right, head, tail, c, d, second, third


def split_tensors_seen(x):
    y = x * 1
    left, right = y.chunk(2, dim=1)
    parts = y.split([1, 3])
    rows = y.unbind(0)
    y.add_(1)
    return left, right, parts[1], rows[2]


def aggregates_seen(x):
    y = x * 1
    items = [y, x]
    pair = (y, items)
    table = {"y": y}
    y.add_(1)
    return torch.cat(items), pair[0], table["y"], torch.stack(pair[1])


def written_after_it_was_returned_by_reshape(x):
    y = (x * 1).reshape(2, 12)
    y.add_(1)
    z = (x * 1).contiguous()
    z.mul_(2)
    w = x.to(torch.float32)
    v = x * 1
    v += x
    u = v.contiguous().type_as(x)
    u[1:] += 1
    return y, z, w, u


def through_permutations(x):
    y = (x * 1).reshape(2, 3, 4)
    y.permute(2, 0, -2).add_(torch.arange(8).reshape(4, 2, 1))
    y.permute(1, 2, 0)[0].mul_(3)
    return y


def operators_with_other_overloads(x):
    y = x * 10
    y.floor_divide_(torch.full((6,), 3.0))
    y.floor_divide_(2)
    return y


def in_an_expression(x):
    return (x * 2).add_(1).mul_(x).relu_().sub_(0.5)


def loop_of_views(x):
    y = torch.zeros(4, 6)
    for i in range(4):
        y[i] = x[3 - i] * i
        y[i, i:].add_(1)
    return y


def powers(x):
    y = x * 1
    return y.pow_(2).ldexp_(x.round())


FUNCTIONS = [powers, add_, add_returns_the_tensor, relu_and_operator, keeps_the_dtype, slice_assignment, writes_seen_by_views,
             writes_through_views, views_of_views, sibling_views, masks_and_indices, copies, split_tensors_seen, writes_through_parts,
             aggregates_seen, written_after_it_was_returned_by_reshape, through_permutations,
             operators_with_other_overloads, in_an_expression, loop_of_views]


class Calls(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_traced(compiler, function):
    compiler.compile(torch.jit.trace(Calls(function), X.clone(), check_trace=False, strict=False), x=X)


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_scripted(compiler, function):
    class Scripted(nn.Module):
        def __init__(self):
            super().__init__()
            self.call = torch.jit.script(function)

        def forward(self, x):
            return self.call(x)

    compiler.compile(torch.jit.script(Scripted()), x=X)


def test_an_input_is_written_for_the_program_alone(compiler):
    outputs = compiler.run(torch.jit.trace(Calls(to_an_input), X.clone(), check_trace=False), x=X)
    torch.testing.assert_close(outputs["output"], X * 2 + 1)


class ConvRelu(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        self.norm = nn.BatchNorm2d(4)
        self.relu = nn.ReLU(inplace=True)
        self.dropout = nn.Dropout(inplace=True)

    def forward(self, x):
        y = self.relu(self.norm(self.conv(x)))
        z = self.dropout(self.relu(self.conv(x)))
        z += y
        return self.relu(z), y


@pytest.mark.parametrize("how", ["trace", "script"])
def test_modules_that_work_in_place(compiler, how):
    module, x = ConvRelu().eval(), torch.linspace(-1, 1, 192).reshape(1, 3, 8, 8)
    compiler.compile(torch.jit.trace(module, x) if how == "trace" else torch.jit.script(module), "--devices", 2, x=x)


class LocalWrites(nn.Module):
    """In branches and loops whose conditions only running tells, of tensors that are made there."""

    def forward(self, x):
        total = x * 1
        if x.sum() > 0:
            y = x * 2
            y[0] = 1.0
            total = total + y
        else:
            y = x * 3
            y.relu_()
            total = y
        count = int(x.abs().sum())
        for i in range(count):
            z = x * i
            z[1:].add_(1)
            total = total + z
        return total


@pytest.mark.parametrize("sign", [1, -1])
def test_local_values_of_branches_and_loops(compiler, sign):
    compiler.compile(LocalWrites(), x=(X + 0.1) * sign)


class AfterBranches(nn.Module):
    """Views from before a branch, used inside it and behind it."""

    def forward(self, x):
        y = x * 1
        row = y[1]
        y.add_(1)
        if bool(x.sum() > 0):
            z = row * 2
        else:
            z = row * 3
        fresh = x * 5 if bool(x.sum() > 1) else x * 6
        fresh.add_(1)
        return z + row, fresh


def test_views_in_branches_and_behind(compiler):
    compiler.compile(AfterBranches(), x=X + 0.1)


class CarriedSum(nn.Module):
    def forward(self, x):
        total = torch.zeros(6)
        for i in range(int(x.abs().sum())):
            total += x[0] * i
        return total


def test_a_sum_that_a_loop_carries(compiler):
    compiler.compile(CarriedSum(), x=X)


# What is refused


class Writes(nn.Module):
    """A module whose part `inner` does the damage, so that its path is told."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return self.inner(x)


class WritesListAttribute(nn.Module):
    def __init__(self):
        super().__init__()
        self.seen: List[torch.Tensor] = [torch.zeros(6)]

    def forward(self, x):
        self.seen.append(x[0])
        return x + self.seen[-1]


class WritesThroughExpand(nn.Module):
    def forward(self, x):
        y = x[:1] * 1
        y.expand(4, 6).add_(1)
        return y


class WritesAMaybeView(nn.Module):
    def forward(self, x):
        y = x * 1
        y.reshape(2, 12).add_(1)
        return y


class UsesAMaybeView(nn.Module):
    def forward(self, x):
        y = x * 1
        z = y.contiguous()
        y.add_(1)
        return z


class WritesAnOut(nn.Module):
    def forward(self, x):
        y = torch.empty(4, 6)
        torch.add(x, x, out=y)
        return y


class WritesAListOut(nn.Module):
    def forward(self, x):
        y = torch.empty(8, 6)
        torch.cat([x, x], out=y)
        return y


class WritesAnOuter(nn.Module):
    def forward(self, x):
        y = x * 1
        if bool(x.sum() > 0):
            y.add_(1)
        return y


class WritesABranchResult(nn.Module):
    def forward(self, x):
        y = x * 1
        z = y if bool(x.sum() > 0) else x * 2
        z.add_(1)
        return y


class WritesAnItem(nn.Module):
    def forward(self, x):
        y = x * 1
        y.chunk(2, dim=1)[0].add_(1)
        return y


class WritesABroadcastTensor(nn.Module):
    def forward(self, x):
        y = x * 1
        a, b = torch.broadcast_tensors(y, x)
        a.add_(1)
        return y


class ChangesTheShape(nn.Module):
    def forward(self, x):
        y = x * 1
        y.unsqueeze_(0)
        return y


class AppendsToASharedList(nn.Module):
    def forward(self, x):
        items = [x]
        both = [items]
        items.append(x + 1)
        return torch.cat(both[0])


@pytest.mark.parametrize("module, words", [
    (WritesListAttribute, ["aten.append.t"]),
    (WritesThroughExpand, ["aten.add_", "aten.expand"]),
    (WritesAMaybeView, ["aten.add_", "aten.reshape"]),
    (UsesAMaybeView, ["aten.contiguous", "in place"]),
    (WritesAnOut, ["aten.add.out"]),
    (WritesAListOut, ["aten.cat.out"]),
    (WritesAnOuter, ["aten.add_", "outside"]),
    (WritesABranchResult, ["aten.add_", "branch"]),
    (WritesAnItem, ["aten.add_", "aten.__getitem__"]),
    (WritesABroadcastTensor, ["aten.add_", "aten.broadcast_tensors"]),
    (ChangesTheShape, ["aten.unsqueeze_"]),
    (AppendsToASharedList, ["aten.append.t"]),
], ids=lambda value: value.__name__ if isinstance(value, type) else "")
def test_refused(compiler, module, words):
    error = compiler.refuse(torch.jit.script(Writes(module()).eval()), x=X)
    assert all(word in error for word in ["model.pt: inner: ", *words]), error


class FunctionalNorm(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(6))
        self.register_buffer("variance", torch.ones(6))

    def forward(self, x):
        return nn.functional.batch_norm(x, self.mean, self.variance, training=True)


def test_statistics_that_an_operator_updates_unsaid(compiler):
    compiler.compile(torch.jit.script(Writes(FunctionalNorm())), x=X)
    states = cleave("inspect", "model.plan", "--json", cwd=compiler.folder).json()["states"]
    assert [state["name"] for state in states] == ["inner.mean", "inner.variance"]


def test_statistics_of_a_norm_that_has_no_other_form(compiler):
    module = Writes(nn.InstanceNorm1d(4, track_running_stats=True)).train()
    error = compiler.refuse(torch.jit.script(module), x=X[None])
    assert "inner: " in error and "aten.instance_norm" in error and "eval()" in error, error


def test_batch_norm_without_statistics(compiler):
    module = nn.BatchNorm1d(6, track_running_stats=False).eval()
    compiler.compile(torch.jit.script(module), input=X)
