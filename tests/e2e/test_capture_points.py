"""Every module's result is a capture point of the plan, and the plan is what it would be without."""

import re

import pytest
import torch
from torch import nn

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
