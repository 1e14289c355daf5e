"""Gradients of operations whose backward pass is not known as IR: plans run them under PyTorch's autograd."""

import json

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from conftest import cleave
from test_gradients import check, gradients_of, run


class Repeats(nn.Module):
    """Rows repeat as often as the inputs say, so that all sizes from there on depend on data."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(8, 6), nn.Linear(6, 5)

    def forward(self, x, lengths):
        hidden = torch.repeat_interleave(torch.tanh(self.first(x)), lengths, dim=0)
        return {"loss": self.second(hidden).square().mean()}


class Masks(Repeats):
    """Boolean indexing, and detached factors."""

    def forward(self, x, lengths):
        hidden = torch.tanh(self.first(x))
        chosen = self.second(hidden[lengths > 1])
        return {"loss": (chosen * hidden.detach().mean() + chosen.detach()).square().sum() / 7}


class Branches(Repeats):
    """A branch and a loop on data, with weights inside."""

    def forward(self, x, lengths):
        hidden = torch.tanh(self.first(x))
        if bool((x.sum() > 0).item()):
            hidden = hidden * 2
            result = self.second(hidden)
        else:
            result = self.second(-hidden) * 3
        for _ in range(int(lengths.max().item())):
            result = torch.sin(result) + result
        return {"loss": result.square().mean()}


class CumulativeProducts(Repeats):
    """The formula of a product along a named dimension differs between sizes."""

    def forward(self, x, lengths):
        return {"loss": self.second(torch.cumprod(self.first(x), 0)).mean() + 0 * lengths.sum()}


class SharedSizes(Repeats):
    """Computes with a size in a branch on data as outside of it."""

    def forward(self, x, lengths):
        hidden = torch.tanh(self.first(x)).view(2 * x.size(0), 3)
        if bool((x.sum() > 0).item()):
            hidden = hidden * hidden.cos().view(2 * x.size(0), 3)
        return {"loss": hidden.square().mean()}


INPUTS = {"x": torch.linspace(-1, 1, 32).view(4, 8).sin(), "lengths": torch.tensor([1, 3, 0, 2])}


def saved(module_class, folder, scripted=False):
    torch.manual_seed(3)
    module = module_class().train()
    save_file(INPUTS, folder / "model.inputs.safetensors")
    script = torch.jit.script(module) if scripted else torch.jit.trace(module, tuple(INPUTS.values()), strict=False)
    script.save(folder / "model.pt")
    return module


def compiled(folder, *options, **more):
    return cleave("compile", "model.pt", "--inputs", "model.inputs.safetensors", *options, "-o", "model.plan", cwd=folder, **more)


@pytest.mark.parametrize("module_class", (Repeats, Masks, Branches))
def test_data_dependent_operations(module_class, tmp_path):
    module = saved(module_class, tmp_path, scripted=module_class is Branches)
    said = compiled(tmp_path, "--gradients")
    assert "come from PyTorch's autograd" in said.out
    for inputs in (INPUTS, {"x": -INPUTS["x"] + 0.1, "lengths": torch.tensor([2, 2, 5, 0])}):
        found = run(tmp_path, inputs)
        loss = module(**inputs)["loss"]
        assert found["output.loss"] == pytest.approx(loss.item(), rel=1e-5)
        check(found, gradients_of(module, loss))


def test_formulas_that_differ_between_sizes(tmp_path):
    module = saved(CumulativeProducts, tmp_path)
    compiled(tmp_path, "--gradients", "--dynamic", "x=rows,_")
    for rows in (4, 3, 1):
        inputs = {**INPUTS, "x": INPUTS["x"][:rows]}
        check(run(tmp_path, inputs), gradients_of(module, module(**inputs)["loss"]))


def test_sizes_inside_and_outside_of_a_branch(tmp_path):
    module = saved(SharedSizes, tmp_path, scripted=True)
    compiled(tmp_path, "--gradients", "--dynamic", "x=rows,_")
    for rows in (4, 3):
        for sign in (1, -1):
            inputs = {**INPUTS, "x": sign * (INPUTS["x"][:rows] + 0.1)}
            found, expected = run(tmp_path, inputs), gradients_of(module, module(**inputs)["loss"])
            check(found, {name: gradient for name, gradient in expected.items() if gradient is not None})


@pytest.mark.parametrize("module_class", (Repeats, Branches))
def test_trains(module_class, tmp_path):
    module = saved(module_class, tmp_path, scripted=module_class is Branches)
    compiled(tmp_path, "--train", "--optimizer", "sgd(momentum=0.9)", "--clip-norm", "1")
    found = json.loads(cleave("train", "model.plan", "--data", "model.inputs.safetensors", "--steps", 5, "--lr", 0.1, "--json",
                              "--output", "trained.safetensors", cwd=tmp_path).out)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9)
    for loss_of_plan in found["losses"]:
        optimizer.zero_grad()
        loss = module(**INPUTS)["loss"]
        loss.backward()
        nn.utils.clip_grad_norm_(module.parameters(), 1)
        optimizer.step()
        assert loss_of_plan == pytest.approx(loss.item(), rel=1e-5)
    for name, weight in load_file(tmp_path / "trained.safetensors").items():
        assert torch.allclose(weight, module.state_dict()[name], rtol=1e-4, atol=1e-6), name


class NextAfter(Repeats):
    """Has no derivative."""

    def forward(self, x, lengths):
        return {"loss": torch.nextafter(self.first(x), self.first(x) + 1).mean()}


def test_without_a_derivative_is_refused(tmp_path):
    saved(NextAfter, tmp_path)
    refused = compiled(tmp_path, "--gradients", status=1)
    assert "aten.nextafter has no gradient" in refused.err and "derivative" in refused.err


class PerRow(Repeats):
    """A loss for each row that is chosen."""

    def forward(self, x, lengths):
        return {"loss": self.second(self.first(x)[lengths > 1]).sum(1)}


def test_a_loss_of_several_numbers_fails_at_run_time(tmp_path):
    saved(PerRow, tmp_path)
    compiled(tmp_path, "--train")
    refused = cleave("train", "model.plan", "--data", "model.inputs.safetensors", "--steps", 1, "--lr", 0.1, cwd=tmp_path, status=1)
    assert "shape '[]' is invalid for input of size 2" in refused.err
