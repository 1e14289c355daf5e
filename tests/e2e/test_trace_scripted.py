"""cleave-trace passes scripted modules on as they are, with what they keep from call to call."""

import shlex

import pytest
import torch
from safetensors.torch import load_file

from conftest import execute
from cleave_trace import cli

MODULES = """
import torch
from torch import nn

class Scaled(nn.Module):
    def forward(self, x, count: int, flag: bool, pair: tuple[torch.Tensor, float], word: str = "a b"):
        return x * pair[1] + count + pair[0] if flag else x

class Counts(nn.Module):
    \"\"\"A buffer written in place.\"\"\"
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.tensor(3))

    def forward(self, x):
        self.count.add_(1)
        return x * self.count

class Sums(nn.Module):
    \"\"\"A buffer that is set, and a number.\"\"\"
    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.ones(4))
        self.calls = 0

    def forward(self, x):
        self.total = self.total * 0.5 + x
        self.calls += 1
        return {"y": self.total * self.calls}

class InPlace(nn.Module):
    def forward(self, x):
        return x.add_(1)

class Silent(nn.Module):
    def forward(self, x):
        return 3

scaled = lambda: (torch.jit.script(Scaled()), (torch.ones(2), 3, True, (torch.ones(2), 2.0), "c d"))
counts = lambda: (torch.jit.script(Counts()), torch.ones(4))
sums = lambda: (torch.jit.script(Sums()), torch.ones(4))
norm = lambda: (torch.jit.script(nn.BatchNorm1d(4, momentum=0.5)), torch.ones(3, 4))
in_place = lambda: (torch.jit.script(InPlace()), torch.ones(4))
silent = lambda: (torch.jit.script(Silent()), torch.ones(4))
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "modules.py").write_text(MODULES)
    return tmp_path


def trace(folder, name):
    return cli.main([f"{folder / 'modules.py'}:{name}", "-o", str(folder / "m.pt")])


def compiled_as_traced(folder, *more):
    execute("cleave", "compile", "m.pt", "--inputs", "m.inputs.safetensors", *more, "-o", "m.plan", cwd=folder)
    execute("cleave", "run", "m.plan", "--inputs", "m.inputs.safetensors", "--outputs", "found.safetensors", cwd=folder)
    found, expected = load_file(folder / "found.safetensors"), load_file(folder / "m.outputs.safetensors")
    assert found.keys() == expected.keys() and all(torch.equal(found[name], expected[name]) for name in found)
    return expected


def test_scalar_arguments_stay_open(folder, capsys):
    assert trace(folder, "scaled") == 0
    line = capsys.readouterr().out.splitlines()[-1]
    assert line == "compile it with --input count=3 --input flag=true --input pair.1=2.0 --input 'word=c d'"
    compiled_as_traced(folder, *shlex.split(line)[3:])


@pytest.mark.parametrize("name, value", [("counts", 4.0), ("sums", 1.5), ("in_place", 2.0)])
def test_state_is_as_it_was_saved(folder, name, value):
    assert trace(folder, name) == 0
    assert torch.equal(load_file(folder / "m.inputs.safetensors").popitem()[1], torch.ones(4))
    expected = compiled_as_traced(folder, "--verify")
    assert torch.equal(expected.popitem()[1], torch.full((4,), value))
    if name == "counts":
        assert torch.jit.load(folder / "m.pt").count == 3


def test_a_module_without_tensors_to_give_is_refused(folder, capsys):
    assert trace(folder, "silent") == 1
    assert "forward returns no tensor" in capsys.readouterr().err
