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
    assert "not compared at" not in result.out
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
    assert "note: height must be a multiple of 4: the TorchScript model runs at no other size" in result.out
    report = cleave("verify", "model.plan", "--model", "model.pt", "--json", cwd=compiler.folder).json()
    assert [output.get("sizes") for output in report["outputs"]] == \
        [None, "batch=2, height=20, width=20", "batch=1, height=4, width=4", "batch=3, height=24, width=24"]
    symbols = cleave("inspect", "model.plan", "--json", cwd=compiler.folder).json()["signatures"][0]["symbols"]
    assert {symbol["name"]: symbol["divisible_by"] for symbol in symbols} == {"batch": 1, "height": 4, "width": 4}
    assert all((symbol["multiple"], symbol["least"]) == (symbol["divisible_by"], symbol["min"]) for symbol in symbols)
    save_file({"x": x[:, :, :10].contiguous()}, compiler.folder / "x.safetensors")
    error = cleave("run", "model.plan", "--inputs", "x.safetensors", status=1, cwd=compiler.folder).err
    assert "height must be a multiple of 4; the model runs at no other size" in error


class Table(nn.Module):
    """Positions up to 8, as a parameter."""

    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(torch.linspace(0, 1, 8))

    def forward(self, x):
        return x + self.table[:x.size(1)]


def test_sizes_below_a_kernel_are_not_tried(compiler):
    """A convolution of 8 positions, or of 3 that are 3 apart, takes no fewer."""
    module = nn.Sequential(nn.Conv1d(2, 3, 8), nn.ReLU(), nn.Conv1d(3, 2, 3, dilation=3)).eval()
    for length in (14, 17, 40):
        x = torch.linspace(-1, 1, 8 * length).reshape(4, 2, length)
        result = compiler.compile(torch.jit.trace(module, x), "--dynamic", "input=batch,_,length", input=x)
        assert "note: length was tried from 14: with the other sizes as traced, the TorchScript model fails at 13" \
            in result.out
        assert "not compared" not in result.out
        report = cleave("verify", "model.plan", "--model", "model.pt", "--json", cwd=compiler.folder).json()
        assert report["ok"] and "batch=1, length=14" in [output.get("sizes") for output in report["outputs"]]
        symbols = cleave("inspect", "model.plan", "--json", cwd=compiler.folder).json()["signatures"][0]["symbols"]
        assert {symbol["name"]: symbol["min"] for symbol in symbols} == {"batch": 1, "length": 14}


def test_verify_of_sizes_without_values_takes_no_file(compiler):
    """The file beside the model is of other sizes."""
    compiler.save(nn.Linear(6, 3), {"input": torch.zeros(4, 6)})
    cleave("compile", "model.pt", "--input", "input:f32[3,6]", "--verify", "-o", "model.plan", cwd=compiler.folder)


class Relative(nn.Module):
    """Positions from n down to -n, as relative attention numbers them."""

    def forward(self, x):
        n = x.size(0)
        return x.sum() * torch.arange(n, -n, -1.0)


def test_numbers_from_sizes_may_be_negative(compiler):
    x = torch.linspace(-1, 1, 24).reshape(4, 6)
    compiler.compile(torch.jit.trace(Relative(), x), "--dynamic", "x=n,_", x=x)
    assert cleave("verify", "model.plan", "--model", "model.pt", "--json", cwd=compiler.folder).json()["ok"]


def test_sizes_beyond_a_table_are_not_tried(compiler):
    for length in (6, 8):
        x = torch.linspace(-1, 1, 4 * length).reshape(4, length)
        result = compiler.compile(Table(), "--dynamic", "x=batch,length", x=x)
        assert "note: length was tried up to 8: " in result.out and "not compared" not in result.out, result.out


def test_a_batch_with_a_least_size_is_not_split(compiler):
    class Differences(nn.Module):
        def forward(self, x):
            return nn.functional.avg_pool2d(x, [3, 1], stride=[1, 1], padding=[1, 0])[2:]

    reason = compiler.refuse(Differences(), "--dynamic", "x=batch,_,_", "--microbatches", 2, x=torch.ones(8, 4, 5))
    assert "batch" in reason


class Pools(nn.Module):
    """Sides come out rounded down, and up."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 4, 3, padding=1, stride=2)
        self.last = nn.Conv2d(4, 2, 1)

    def forward(self, x):
        y = nn.functional.max_pool2d(self.first(x), 2, ceil_mode=True)
        z = nn.functional.interpolate(x, scale_factor=1.5, mode="bilinear")
        return self.last(y), z, nn.functional.adaptive_avg_pool2d(y, (3, 2)), nn.functional.avg_pool2d(x, 3, 1)


def test_a_batch_is_split_where_sides_are_rounded(compiler):
    x = torch.linspace(-1, 1, 4 * 3 * 20 * 26).reshape(4, 3, 20, 26)
    module = torch.jit.trace(Pools().eval(), x)
    compiler.compile(module, "--dynamic", "x=batch,_,height,width", "--devices", 2, "--microbatches", 2, x=x)
    for shape in ((4, 3, 21, 27), (7, 3, 9, 50), (2, 3, 64, 33), (1, 3, 47, 8)):
        x = torch.randn(shape, generator=torch.Generator().manual_seed(0))
        save_file({"x": x}, compiler.folder / "x.safetensors")
        cleave("run", "model.plan", "--inputs", "x.safetensors", "--outputs", "y.safetensors", "--check-types",
               cwd=compiler.folder)
        found = load_file(compiler.folder / "y.safetensors")
        for i, value in enumerate(module(x)):
            torch.testing.assert_close(found[f"output.{i}"], value, rtol=1e-5, atol=1e-5)


def test_a_batch_beside_unknown_sizes_says_so(compiler):
    class Doubled(nn.Module):
        def forward(self, x):
            return nn.functional.interpolate(nn.functional.max_pool1d(x, 2), scale_factor=2.0)

    error = compiler.refuse(Doubled(), "--dynamic", "x=batch,_,length", "--microbatches", 2, x=torch.ones(4, 3, 10))
    assert "aten.upsample_nearest1d.vec has sizes for which no formula of the named ones was found, beside dimension batch" \
        in error


class Positions(nn.Module):
    """A table of 64 positions, of which the input's length is taken."""

    def __init__(self, first):
        super().__init__()
        self.table = nn.Parameter(torch.randn(64, 6))
        self.first = first
        self.layers = nn.Sequential(nn.Linear(6, 8), nn.Linear(8, 6))

    def forward(self, x):
        return self.layers((x + self.table[: x.shape[1]])[: self.first])


def test_a_batch_beside_a_table_of_positions_is_split(compiler):
    """The model fails beyond the table's 64 positions, so that the slice has the input's length wherever it runs."""
    module = torch.jit.script(Positions(1 << 40).eval())
    compiler.compile(module, "--dynamic", "x=batch,length,_", "--devices", 2, "--microbatches", 2, x=torch.randn(4, 8, 6))
    for shape in ((4, 64, 6), (3, 1, 6), (7, 33, 6)):
        save_file({"x": torch.randn(shape)}, compiler.folder / "x.safetensors")
        cleave("run", "model.plan", "--inputs", "x.safetensors", "--outputs", "y.safetensors", "--check-types", cwd=compiler.folder)
        x = load_file(compiler.folder / "x.safetensors")["x"]
        torch.testing.assert_close(load_file(compiler.folder / "y.safetensors")["output"], module(x), rtol=1e-5, atol=1e-5)


def test_a_batch_that_is_cut_off_beside_a_table_of_positions_stays_whole(compiler):
    """Batch and length are tried at large sizes one by one, where the model fails with both."""
    module = torch.jit.script(Positions(50).eval())
    error = compiler.refuse(module, "--dynamic", "x=batch,length,_", "--microbatches", 2, x=torch.randn(4, 8, 6))
    assert "batch" in error


class Truncated(nn.Module):
    """The mean of the first 20 of at most 50 positions, between sizes at which it is tried at first."""

    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(torch.randn(50, 6))

    def forward(self, x):
        first = (x + self.table[: x.shape[1]])[:, :20]
        return first.sum(1) / first.shape[1]


def test_sizes_between_those_that_are_tried(compiler):
    module = torch.jit.script(Truncated().eval())
    compiler.compile(module, "--dynamic", "x=batch,length,_", x=torch.randn(4, 8, 6))
    for length in (1, 8, 20, 21, 40, 50):
        x = torch.randn(3, length, 6)
        save_file({"x": x}, compiler.folder / "x.safetensors")
        cleave("run", "model.plan", "--inputs", "x.safetensors", "--outputs", "y.safetensors", cwd=compiler.folder)
        torch.testing.assert_close(load_file(compiler.folder / "y.safetensors")["output"], module(x), rtol=1e-5, atol=1e-5)


def test_a_random_size_is_left_unknown(compiler):
    """Nothing is said about a tensor of a length that only running tells."""
    compiler.save(torch.jit.script(RandomShape()), {"x": X})
    cleave("compile", "model.pt", "--inputs", "model.inputs.safetensors", "--dynamic", "x=rows,columns", "-o", "model.plan",
           cwd=compiler.folder)
    for _ in range(5):
        cleave("run", "model.plan", "--inputs", "model.inputs.safetensors", "--check-types", cwd=compiler.folder)
    notes = cleave("inspect", "model.plan", "--json", cwd=compiler.folder).json()["notes"]
    assert any(note["kind"] == "unknown-type" for note in notes), notes
