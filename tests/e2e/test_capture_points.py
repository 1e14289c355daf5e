"""Every module's result is a capture point of the plan, and the plan is what it would be without."""

import copy
import dataclasses
import re

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from capturing import recorded
from cleave_trace import files, tracing
from conftest import cleave

MESHES = {
    "stages": ("--mesh", "pp=2"),
    "ranks": ("--mesh", "tp=2"),
    "both": ("--mesh", "pp=2,tp=2"),
    "micro-batches": ("--mesh", "pp=2,dp=2", "--microbatches", "1"),
    "interleaved": ("--mesh", "pp=2", "--schedule", "interleaved", "--microbatches", "2"),
    "precision": ("--mesh", "pp=2", "--dtype", "bf16"),
}


def without_observes(folder):
    """The IR after each pass but for observes, by the file's name."""
    return {path.name: re.sub(r"^ *cleave\.observe .*\n", "", path.read_text(), flags=re.MULTILINE)
            for path in sorted(folder.glob("*.mlir"))}


def compiled(model, tmp_path, name, *options):
    """The IR after each pass, and the plan as JSON without what may differ; and its capture points."""
    cleave("compile", model.path, "--inputs", model.inputs, *options, "--emit-ir", tmp_path / name, "-o",
           tmp_path / f"{name}.plan")
    plan = cleave("inspect", tmp_path / f"{name}.plan", "--json").json()
    points = plan.pop("capture_points")
    for key in ("pass_pipeline", "pipeline", "root_checksum"):
        del plan[key]
    return without_observes(tmp_path / name), plan, points


@pytest.mark.parametrize("architecture, name", [*(("gpt2", name) for name in MESHES), ("t5", "both")])
def test_points_change_nothing_else(architecture, name, tiny_model, tmp_path):
    model, options = tiny_model(architecture), MESHES[name]
    program, plan, points = compiled(model, tmp_path, "with", *options)
    bare_program, bare_plan, none = compiled(model, tmp_path, "without", *options, "--no-capture-points")
    assert none == []
    assert plan == bare_plan
    assert program.keys() == bare_program.keys()
    for file in program:
        assert program[file] == bare_program[file], file
    assert len({point["path"] for point in points}) > 20


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(8, 12)
        self.drop = nn.Dropout(0.5)
        self.down = nn.Linear(12, 8)

    def forward(self, x):
        return x + self.down(self.drop(torch.relu(self.up(x))))


class Twice(nn.Module):
    def __init__(self):
        super().__init__()
        self.block = Block()
        self.head = nn.Linear(8, 8)

    def forward(self, x):
        return self.head(self.block(self.block(x)))


def build():
    torch.manual_seed(0)
    return Twice(), (torch.randn(4, 8),)


def test_calls_are_counted_and_points_are_writable(trace_model, tmp_path):
    model = trace_model(f"{__file__}:build")
    _, _, points = compiled(model, tmp_path, "with", "--mesh", "pp=2,tp=2")
    names = [(point["path"], point["call"]) for point in points]
    assert names == [(path, call) for call in (0, 1)
                     for path in ("block.up", "block.drop", "block.down", "block")] + [("head", 0)]
    assert all(point["writable"] for point in points)
    split = {point["path"]: point["split_dim"] for point in points}
    assert split["block.up"] == split["block.drop"] == 1
    assert split["block"] is None
    assert [point["shape"] for point in points[:4]] == [[4, 12], [4, 12], [4, 8], [4, 8]]


class Sized(nn.Module):
    """Returns a size, and a number made of sizes, among its tensors; what it keeps is none of them."""

    def __init__(self):
        super().__init__()
        self.up = nn.Linear(8, 8)

    def forward(self, x):
        y = self.up(x)
        self.kept = y * 2
        return x.shape[1], y, x.shape[1] * 2 + 1, y.tanh()


class Counts(nn.Module):
    """Returns numbers made of sizes in more steps than Python calls, and in as many ways as 2 to the power of 60."""

    def forward(self, x):
        steps, ways = x.shape[1], x.shape[1]
        for _ in range(1200):
            steps = steps + 1
        for _ in range(60):
            ways = ways - ways + ways
        return steps, x * 2, ways


@dataclasses.dataclass(frozen=True)
class Pair:
    first: torch.Tensor
    second: torch.Tensor


class Pairs(nn.Module):
    def forward(self, x):
        return Pair(x + 1, x.cos())


class Writes(nn.Module):
    """Writes to its argument and returns nothing."""

    def forward(self, x):
        x.mul_(2)


class Keeps(nn.Module):
    """Reads what modules keep or write: of the first, all that it returns, too; of the second, nothing."""

    def __init__(self):
        super().__init__()
        self.read, self.unread, self.writes, self.counts, self.pairs = Sized(), Sized(), Writes(), Counts(), Pairs()

    def forward(self, x):
        length, first, more, second = self.read(x)
        self.unread(x)
        x = first / length + second * more + self.read.kept + self.unread.kept
        self.writes(x)
        steps, x, ways = self.counts(x)
        pair = self.pairs(x * steps / ways)
        return pair.first.sigmoid() * pair.second


def test_points_are_what_modules_return(tmp_path):
    """Not numbers, which a trace has as tensors, nor what a module leaves elsewhere."""
    torch.manual_seed(0)
    module, x = Keeps().eval(), torch.randn(2, 3, 8)
    files.write(tracing.trace(copy.deepcopy(module), x), tmp_path / "model.pt")
    cleave("compile", "model.pt", "--inputs", "model.inputs.safetensors", "-o", "model.plan", cwd=tmp_path)
    cleave("run", "model.plan", "--inputs", "model.inputs.safetensors", "--capture", "*", "--outputs", "found.safetensors",
           cwd=tmp_path)
    found = load_file(tmp_path / "found.safetensors")
    expected = recorded(module, lambda: module(x.clone()))
    assert found.keys() - {"output"} == {"read", "read[1]", "read.up", "unread.up", "counts", "pairs", "pairs[1]"}
    for name in found:
        torch.testing.assert_close(found[name], module(x.clone()) if name == "output" else expected[name], rtol=1e-5, atol=1e-6)
