"""Models that behave in their own way at some sizes: the plan answers as they do, or there is none."""

import subprocess

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from conftest import BIN, cleave

X = torch.linspace(-1, 1, 24).reshape(4, 6)


class UpToEight(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(8, 3)

    def forward(self, x):
        return x + self.table(torch.arange(x.size(1))).sum(1)


def test_verify_tries_1_and_larger_sizes(compiler):
    result = compiler.compile(torch.jit.script(nn.Linear(6, 3)), "--dynamic", "input=batch,_", input=X)
    assert "note" not in result.out
    report = cleave("verify", "model.plan", "--model", "model.pt", "--json", cwd=compiler.folder).json()
    assert [output.get("sizes") for output in report["outputs"]] == [None, "batch=5", "batch=1", "batch=6"]


def test_verify_skips_sizes_that_the_original_refuses(compiler):
    result = compiler.compile(UpToEight(), "--dynamic", "x=_,length", x=X)
    assert "not compared" not in result.out
    x = torch.linspace(-1, 1, 28).reshape(4, 7)
    result = compiler.compile(UpToEight(), "--dynamic", "x=_,length", x=x)
    assert "note: not compared at length=9: the original model raises: " in result.out, result.out
    report = cleave("verify", "model.plan", "--model", "model.pt", "--json", cwd=compiler.folder).json()
    assert report["ok"] and len(report["skipped_sizes"]) == 1 and len(report["outputs"]) == 3


# What edges decide. Each is traced at (4, 6) and named in one or both dimensions; a plan must answer as the original does
# at every size, so it is compared at many, or the compilation must be refused with the size or the operator.


class OneColumn(nn.Module):
    def forward(self, x):
        if x.size(1) == 1:
            return x * 100
        return x + 1


class Long(nn.Module):
    def forward(self, x):
        if x.size(1) > 512:
            return x[:, :512] * 2
        return x + 1


class AtMost512(nn.Module):
    def forward(self, x):
        return x[:, :min(x.size(1), 512)].cumsum(1)


class OneRow(nn.Module):
    def forward(self, x):
        if x.size(0) == 1:
            return x.squeeze(0).unsqueeze(0) - 1
        return x + 1


class SqueezedRow(nn.Module):
    def forward(self, x):
        return x.squeeze(0) * 2


class RandomShape(nn.Module):
    def forward(self, x):
        length = int(torch.randint(2, 9, (1,)).item())
        return x.sum() + torch.zeros(length).sum()


class Where(nn.Module):
    def forward(self, x):
        rows = torch.where(x > 0)[0]
        return rows.float().sum() + rows.size(0), torch.index_select(x, 0, rows)


class Break(nn.Module):
    def forward(self, x):
        total = torch.zeros(x.size(1))
        for i in range(x.size(0)):
            total = total + x[i]
            if bool(total.sum() > 1):
                break
        return total


class TensorIf(nn.Module):
    def forward(self, x):
        if bool(x.sum() > 0):
            return x * 2
        return x[:, :1] - 1


class Halves(nn.Module):
    def forward(self, x):
        return x[:, :x.size(1) // 2], x[:, x.size(1) // 2:] * 2


SIZES = [(1, 1), (1, 6), (4, 1), (2, 3), (5, 511), (3, 513), (2, 1030), (130, 2)]


def answers(module, x):
    with torch.no_grad():
        found = module(x)
    return list(found) if isinstance(found, tuple) else [found]


@pytest.mark.parametrize("module", [OneColumn, Long, AtMost512, OneRow, SqueezedRow, Where, Break, TensorIf, Halves])
def test_right_or_refused_at_every_size(compiler, module):
    """Right at every size that runs; where the plan does not take a size, it says so."""
    scripted = torch.jit.script(module().eval())
    compiler.save(scripted, {"x": X})
    options = ("--inputs", "model.inputs.safetensors", "--dynamic", "x=rows,columns", "--devices", 1, "-o", "model.plan")
    done = subprocess.run([BIN / "cleave", "compile", "model.pt", *map(str, options)], cwd=compiler.folder,
                          capture_output=True, text=True)
    if done.returncode:
        lines = done.stderr.splitlines()
        assert done.returncode == 1 and len(lines) == 1 and ("rows" in lines[0] or "columns" in lines[0]), lines
        return
    for number, (rows, columns) in enumerate(SIZES):
        # Sums are positive and negative by turns, for those who look.
        x = torch.randn(rows, columns, generator=torch.Generator().manual_seed(number)) + (-1) ** number
        save_file({"x": x}, compiler.folder / "x.safetensors")
        cleave("run", "model.plan", "--inputs", "x.safetensors", "--outputs", "y.safetensors", "--check-types",
               cwd=compiler.folder)
        found = [value for _, value in sorted(load_file(compiler.folder / "y.safetensors").items())]
        expected = answers(scripted, x)
        assert len(found) == len(expected)
        for value, other in zip(found, expected):
            assert value.shape == other.shape, (rows, columns)
            torch.testing.assert_close(value, other, rtol=1e-5, atol=1e-4)


class Steps(nn.Module):
    """Halves twice and comes back, as a U-Net does: sides are multiples of 4."""

    def forward(self, x):
        small = nn.functional.max_pool2d(nn.functional.max_pool2d(x, 2), 2)
        return x + nn.functional.interpolate(small, scale_factor=4.0)


def test_sizes_may_be_multiples(compiler):
    x = torch.linspace(-1, 1, 512).reshape(1, 2, 16, 16)
    result = compiler.compile(torch.jit.trace(Steps(), x), "--dynamic", "x=batch,_,height,width", "--devices", 2, x=x)
    assert "note: height must be a multiple of 4: the model itself runs at no other size" in result.out
    report = cleave("verify", "model.plan", "--model", "model.pt", "--json", cwd=compiler.folder).json()
    assert [output.get("sizes") for output in report["outputs"]] == \
        [None, "batch=2, height=20, width=20", "batch=1, height=4, width=4", "batch=3, height=24, width=24"]
    symbols = cleave("inspect", "model.plan", "--json", cwd=compiler.folder).json()["signatures"][0]["symbols"]
    assert {symbol["name"]: symbol["multiple"] for symbol in symbols} == {"batch": 1, "height": 4, "width": 4}
    save_file({"x": x[:, :, :10].contiguous()}, compiler.folder / "x.safetensors")
    error = cleave("run", "model.plan", "--inputs", "x.safetensors", status=1, cwd=compiler.folder).err
    assert "height must be a multiple of 4; the model runs at no other size" in error


def test_a_random_size_is_left_unknown(compiler):
    """Nothing is said about a tensor of a length that only running tells."""
    compiler.save(torch.jit.script(RandomShape()), {"x": X})
    cleave("compile", "model.pt", "--inputs", "model.inputs.safetensors", "--dynamic", "x=rows,columns", "-o", "model.plan",
           cwd=compiler.folder)
    for _ in range(5):
        cleave("run", "model.plan", "--inputs", "model.inputs.safetensors", "--check-types", cwd=compiler.folder)
    notes = cleave("inspect", "model.plan", "--json", cwd=compiler.folder).json()["notes"]
    assert any(note["kind"] == "unknown-type" for note in notes), notes
