"""Mixtures of experts in parts of their batch: rows are sorted by expert and brought back, and each is made of its own sample."""

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from capturing import recorded
from conftest import MIXTRAL, cleave
from launching import run_ranks, same_bits

X = torch.linspace(-1, 1, 8 * 3 * 16).sin().reshape(8, 3, 16)


class Experts(nn.Module):
    """Two of four for each token. What follows changes one step of it."""
    count, choices = 4, 2

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.gate = nn.Linear(16, self.count)
        self.weights = nn.Parameter(torch.randn(self.count, 16, 16))
        self.biases = nn.Parameter(torch.randn(self.count, 16))

    def forward(self, x):
        tokens = x.reshape(-1, 16)
        chosen, experts = self.gate(tokens).softmax(-1).topk(self.choices)
        keys, order = self.sort(experts.reshape(-1))
        rows = tokens[order // self.choices]
        rows = torch._grouped_mm(rows, self.weights, self.ends(keys)) * chosen.reshape(-1)[order].unsqueeze(-1)
        rows = self.rows(rows, keys)
        return self.back(rows, order).reshape(-1, self.choices, 16).sum(1).view(x.shape)

    def sort(self, experts):
        return experts.sort()

    def ends(self, keys):
        return torch.histc(keys.float(), bins=self.count, min=0, max=self.count - 1).cumsum(0, dtype=torch.int32)

    def rows(self, rows, keys):
        return rows

    def back(self, rows, order):
        inverse = torch.empty_like(order)
        inverse[order] = torch.arange(order.numel())
        return rows[inverse]


class Placed(Experts):
    def back(self, rows, order):
        out = torch.empty_like(rows)
        out[order] = rows
        return out


class Biased(Experts):
    """Rows look up in what is there for each expert, and are taken apart along their width."""

    def rows(self, rows, keys):
        left, right = (rows + self.biases[keys]).chunk(2, dim=-1)
        return torch.cat([left * right.sigmoid(), left], -1)


class Argsorted(Experts):
    def sort(self, experts):
        order = experts.argsort()
        return experts[order], order

    def ends(self, keys):
        return torch.full((self.count,), 12, dtype=torch.int32).cumsum(0, dtype=torch.int32)


def outputs_of(module, x, compiler, *options):
    compiler.save(torch.jit.trace(module, X), {"x": x})
    plan, inputs = compiler.folder / "model.plan", compiler.folder / "model.inputs.safetensors"
    cleave("run", plan, "--inputs", inputs, "--outputs", compiler.folder / "outputs.safetensors", *options)
    return load_file(compiler.folder / "outputs.safetensors")["output"]


@pytest.mark.parametrize("options", [("--microbatches", 3), ("--mesh", "dp=2"), ("--mesh", "dp=2", "--microbatches", 2)])
@pytest.mark.parametrize("module", [Experts, Placed, Biased])
def test_parts_give_what_the_whole_gives(module, options, compiler):
    module = module().eval()
    compiler.compile(torch.jit.trace(module, X), *options, "--dynamic", "x=batch,_,_", "--verify", x=X)
    for batch in (8, 7, 4, 1):
        found = outputs_of(module, X[:batch], compiler)
        assert torch.allclose(found, module(X[:batch]), atol=1e-5), batch


@pytest.mark.parametrize("mesh", ["dp=2,pp=2", "dp=2,tp=2"])
def test_mixtral_in_processes(mesh, trace_model, tmp_path):
    model = trace_model("hf:mixtral", "--config", MIXTRAL, "--batch", 4, "--seq", 8)
    plan, local, outputs = (tmp_path / name for name in ("model.plan", "local.safetensors", "ranks.safetensors"))
    cleave("compile", model.path, "--inputs", model.inputs, "--mesh", mesh, "--verify", "-o", plan)
    cleave("run", plan, "--inputs", model.inputs, "--outputs", local)
    for name, tensor in load_file(model.outputs).items():
        assert torch.allclose(load_file(local)[name], tensor, atol=1e-5), name
    run_ranks(4, plan, "--inputs", model.inputs, "--outputs", outputs, "--check-types")
    assert same_bits(load_file(outputs), load_file(local))


class Activated(Experts):
    def __init__(self):
        super().__init__()
        self.activation = nn.Tanh()

    def rows(self, rows, keys):
        return self.activation(rows)


def activated():
    return Activated(), X


@pytest.mark.parametrize("options, points", [((), {"gate", "activation"}), (("--mesh", "dp=2"), {"gate"})])
def test_sorted_rows_of_parts_are_no_capture_points(options, points, trace_model, tmp_path):
    model, plan, outputs = trace_model(f"{__file__}:activated"), tmp_path / "model.plan", tmp_path / "values.safetensors"
    cleave("compile", model.path, "--inputs", model.inputs, *options, "-o", plan)
    cleave("run", plan, "--inputs", model.inputs, "--outputs", outputs, "--capture", "*")
    found, module = load_file(outputs), Activated()
    expected = recorded(module, lambda: module(X))
    assert found.keys() - {"output"} == points
    for name in points:
        assert torch.allclose(found[name], expected[name], atol=1e-5), name


# What mixes samples ---------------------------------------------------------------------------------------------------------


class InOrder(Experts):
    """Rows stay in the order of experts."""

    def back(self, rows, order):
        return rows


class BroughtElsewhere(Experts):
    """As if they had not been sorted by expert."""

    def back(self, rows, order):
        return rows[order]


class Neighbours(Experts):
    """Pairs of rows that are neighbours among those of an expert."""

    def rows(self, rows, keys):
        return rows.reshape(-1, 2, 16).flip(1).reshape(-1, 16)


class Accumulated(Experts):
    """What an expert has had before counts."""

    def rows(self, rows, keys):
        return rows.cumsum(0)


class Weighed(Experts):
    """Each expert's part of all rows."""

    def rows(self, rows, keys):
        counts = torch.histc(keys.float(), bins=self.count, min=0, max=self.count - 1)
        return rows * counts[keys].unsqueeze(-1)


class Positions(Experts):
    """The place of a row among all is data."""

    def rows(self, rows, keys):
        return rows + torch.arange(rows.shape[0]).unsqueeze(-1)


class FewerBins(Experts):
    """Rows of the last expert are counted with those of the one before."""

    def ends(self, keys):
        counts = torch.histc(keys.float(), bins=self.count - 1, min=0, max=self.count - 2)
        return torch.cat([counts, torch.zeros(1)]).cumsum(0, dtype=torch.int32)


class Descending(Experts):
    def sort(self, experts):
        return experts.sort(descending=True)


class OfOtherTokens(Experts):
    """One choice of three is looked up as if it were one of two."""
    choices = 3

    def forward(self, x):
        tokens = x.reshape(-1, 16)
        experts = self.gate(tokens).topk(self.choices)[1]
        keys, order = self.sort(experts.reshape(-1))
        rows = tokens[order // (self.choices + 1)]
        return self.back(rows, order).reshape(-1, self.choices, 16).sum(1).view(x.shape)


class ByRowAndExpert(Experts):
    """Written at the places of rows are numbers in the batch's order: a second index is no value."""

    def forward(self, x):
        chosen, experts = self.gate(x.reshape(-1, 16)).topk(self.choices)
        keys, order = self.sort(experts.reshape(-1))
        out = torch.zeros(order.numel(), self.count)
        out[order, keys] = chosen.reshape(-1)
        return out.reshape(-1, self.choices, self.count).sum(1).view(x.shape[0], x.shape[1], self.count)


@torch.jit.script
def larger(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    of = {"first": first, "second": second}
    if bool(torch.ones(1).sum() > 2):
        return of["first"].max()
    return of["second"].max()


class InABranch(Experts):
    """How many rows there are of an expert reaches data by a dictionary, and a branch."""

    def rows(self, rows, keys):
        counts = torch.histc(keys.float(), bins=self.count, min=0, max=self.count - 1)
        return rows * larger(counts, counts.cumsum(0))


class OneByte(Experts):
    """Of 300 rows some have numbers of others."""

    def back(self, rows, order):
        inverse = torch.empty_like(order)
        inverse[order.to(torch.uint8).long()] = torch.arange(order.numel())
        return rows[inverse]


class CountedInHalf(Experts):
    """Half precision counts to 2048."""

    def ends(self, keys):
        counts = torch.histc(keys.float(), bins=self.count, min=0, max=self.count - 1)
        return counts.half().cumsum(0, dtype=torch.int32)


@pytest.mark.parametrize("module, why", [
    (ByRowAndExpert, "aten.sort needs the whole of dimension batch"),
    (InABranch, "cleave.if is control flow on dimension batch"),
    (OneByte, "aten.sort needs the whole of dimension batch"),
    (CountedInHalf, "aten.sort needs the whole of dimension batch"),
    (InOrder, "aten.sort needs the whole of dimension batch"),
    (BroughtElsewhere, "aten.sort needs the whole of dimension batch"),
    (Neighbours, "aten.sort needs the whole of dimension batch"),
    (Accumulated, "aten.cumsum goes in order along dimension batch"),
    (Weighed, "aten.sort needs the whole of dimension batch"),
    (Positions, "aten.sort needs the whole of dimension batch"),
    (FewerBins, "aten.histc has no rule for dimension batch"),
    (Descending, "aten.histc has no rule for dimension batch"),
    (Argsorted, "aten._grouped_mm needs the whole of dimension batch"),
    (OfOtherTokens, "aten.sort needs the whole of dimension batch"),
])
def test_refuses_what_mixes_samples(module, why, compiler):
    error = compiler.refuse(torch.jit.trace(module().eval(), X), "--microbatches", 2, x=X)
    assert why in error and error.endswith("use --microbatches 1"), error
