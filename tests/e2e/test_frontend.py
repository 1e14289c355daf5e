"""What a traced or scripted model may do: each is compiled, run as a plan, and compared with the original."""

import warnings
from typing import Dict, List, NamedTuple, Optional, Tuple

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from conftest import cleave

X = torch.linspace(-1, 1, 24).reshape(4, 6)


def traced(module, *inputs, **options):
    return torch.jit.trace(module.eval(), inputs, check_trace=False, **options)


# Nested inputs and outputs


class Nested(nn.Module):
    def forward(self, x, pair: Tuple[torch.Tensor, Tuple[torch.Tensor, torch.Tensor]], items: List[torch.Tensor],
                table: Dict[str, torch.Tensor], more: Optional[torch.Tensor] = None):
        total = x + pair[0] + pair[1][0] * pair[1][1]
        for item in items:
            total = total + item
        total = total * table["a"] - table["b"]
        if more is not None:
            total = total + more
        return {"sum": total, "parts": x * 2}, [total, x], (pair[1][0], (total.mean(), None))


NESTED = {"x": X, "pair.0": X + 1, "pair.1.0": X + 2, "pair.1.1": X + 3, "items.0": X * 2, "items.1": X * 3,
          "table.a": X * 4, "table.b": X * 5}


def test_tuples_lists_dicts_and_none_in_and_out(compiler):
    outputs = compiler.run(Nested(), **NESTED)
    assert sorted(outputs) == ["output.0.parts", "output.0.sum", "output.1.0", "output.1.1", "output.2.0",
                               "output.2.1.0"]
    torch.testing.assert_close(outputs["output.1.1"], X)


def test_an_optional_input_that_is_there(compiler):
    outputs = compiler.run(Nested(), **NESTED, more=X * 100)
    without = compiler.run(Nested(), **NESTED)
    torch.testing.assert_close(outputs["output.0.sum"], without["output.0.sum"] + X * 100)


class ListOut(nn.Module):
    def forward(self, x):
        parts: List[torch.Tensor] = []
        for i in range(3):
            parts.append(x * i)
        named: Dict[str, torch.Tensor] = {}
        named["first"] = parts[0]
        named["last"] = parts[-1]
        return parts, named


class Point(NamedTuple):
    x: torch.Tensor
    y: torch.Tensor


class NamedTupleOut(nn.Module):
    def forward(self, x):
        return Point(x + 1, x - 1)


class TupleOfTuples(nn.Module):
    def forward(self, x):
        return ((x, (x + 1,)), [[x], [x + 2, x + 3]])


class Scalars(nn.Module):
    def forward(self, x, count: int, factor: float, flag: bool, word: str, offset: int = 5,
                sizes: Optional[List[int]] = None, mode: Optional[str] = None):
        y = x * factor + count + offset
        if flag:
            y = -y
        if word == "relu":
            y = torch.relu(y)
        if mode is not None:
            y = y + 1000
        return y


def test_scalars_are_fixed_at_compile_time(compiler):
    outputs = compiler.run(Scalars(), "--input", "count=3", "--input", "factor=0.5", "--input", "flag=true",
                           "--input", "word=relu", x=X)
    torch.testing.assert_close(outputs["output"], torch.relu(-(X * 0.5 + 8)))


def test_default_and_optional_scalars_can_be_given(compiler):
    outputs = compiler.run(Scalars(), "--input", "count=3", "--input", "factor=2", "--input", "flag=False",
                           "--input", "word=", "--input", "offset=-7", "--input", "mode=x", x=X)
    torch.testing.assert_close(outputs["output"], X * 2 - 4 + 1000)


@pytest.mark.parametrize("option, words", [
    ("count=three", ["input count", '"three"', "an integer"]),
    ("factor=half", ["input factor", "a number"]),
    ("flag=1", ["input flag", "true or false"]),
    ("x=5", ["input x"]),
    ("nobody=5", ["input nobody", "is no input of forward", "factor"]),
])
def test_a_scalar_that_does_not_fit(compiler, option, words):
    given = {"count": "3", "factor": "0.5", "flag": "true", "word": "a"}
    name, value = option.split("=")
    given[name] = value
    options = [word for name, value in given.items() for word in ("--input", f"{name}={value}")]
    error = compiler.refuse(Scalars(), *options, x=X) if name != "x" else compiler.refuse(Scalars(), *options)
    assert all(word in error for word in words), error


def test_a_missing_scalar(compiler):
    error = compiler.refuse(Scalars(), "--input", "count=3", x=X)
    assert "input factor: is missing" in error and "float" in error


# Weights


class Tied(nn.Module):
    """The same tensor under two paths, and other views of the same storage."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(6, 4)
        self.head = nn.Linear(4, 6, bias=False)
        self.head.weight = self.embed.weight
        table = torch.arange(24.0).reshape(6, 4)
        self.register_buffer("table", table)
        self.register_buffer("flipped", table.t())
        self.register_buffer("row", table[2])
        self.register_buffer("every_other", table[::2, 1:3])
        self.register_buffer("same", table)

    def forward(self, x):
        y = self.head(self.embed((x.abs() * 5).long()))
        return y @ self.table + self.row, self.flipped * 2, self.every_other + 1, self.same - 1


class NonContiguous(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(6, 5, generator=torch.Generator().manual_seed(0)).t())
        self.conv = nn.Conv2d(2, 3, 2).to(memory_format=torch.channels_last)
        self.expanded = nn.Parameter(torch.arange(6.0).expand(4, 6))

    def forward(self, x):
        y = x * self.expanded
        return nn.functional.linear(y, self.weight), self.conv(x.reshape(1, 2, 3, 4))


class OddNames(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(6, 6), nn.Sequential(nn.Linear(6, 6), nn.ReLU())])
        self.table = nn.ModuleDict({"a b": nn.Linear(6, 6), "forward_": nn.Tanh(), "a-b/c": nn.Linear(6, 6)})
        self.scales = nn.ParameterList([nn.Parameter(torch.ones(6)), nn.Parameter(torch.full((6,), 2.0))])

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        for layer in self.table.values():
            x = layer(x)
        for scale in self.scales:
            x = x * scale
        return x


class Dtypes(nn.Module):
    ALL = [torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16,
           torch.float32, torch.float64, torch.complex64]

    def __init__(self):
        super().__init__()
        for dtype in self.ALL:
            self.register_buffer("b_" + str(dtype).split(".")[1], torch.arange(6).to(dtype))

    def forward(self, x):
        return (self.b_bool, self.b_uint8 + 1, self.b_int8 + 1, self.b_int16 + 1, self.b_int32 + 1, self.b_int64 + 1,
                self.b_float16 + 1, self.b_bfloat16 + 1, self.b_float32 + x, self.b_float64 + 1, self.b_complex64 * 2)


class NoWeights(nn.Module):
    def forward(self, x):
        return torch.softmax(x, -1)


class SmallTensors(nn.Module):
    """0-d and empty tensors as weights, constants, intermediates and results."""

    def __init__(self):
        super().__init__()
        self.register_buffer("scalar", torch.tensor(3.0))
        self.register_buffer("count", torch.tensor(2))
        self.register_buffer("empty", torch.empty(0, 6))
        self.register_buffer("other_empty", torch.empty(0))

    def forward(self, x):
        return torch.cat([x, self.empty]) * self.scalar + self.count, self.empty, self.scalar, self.other_empty.sum()


class ReturnsItself(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))

    def forward(self, x):
        y = x + 1
        return x, self.weight, torch.ones(2), y, y, (y, x), self.weight.t()


class TensorListAttribute(nn.Module):
    def __init__(self):
        super().__init__()
        self.items: List[torch.Tensor] = [torch.ones(6), torch.full((6,), 2.0)]
        self.numbers: List[int] = [1, 2, 3]
        self.table: Dict[str, int] = {"a": 4}
        self.named: Dict[str, torch.Tensor] = {"w": torch.full((6,), 3.0)}

    def forward(self, x):
        for item in self.items:
            x = x * item
        for number in self.numbers:
            x = x + number
        return x + self.table["a"] + self.named["w"]


MODELS = [ListOut, NamedTupleOut, TupleOfTuples, Tied, NonContiguous, OddNames, Dtypes, NoWeights, SmallTensors,
          ReturnsItself, TensorListAttribute]


@pytest.mark.parametrize("module", MODELS, ids=lambda module: module.__name__)
def test_scripted(compiler, module):
    compiler.compile(module(), x=X[0] if module is Dtypes else X)


@pytest.mark.parametrize("module", [NamedTupleOut, NonContiguous, OddNames, Dtypes, NoWeights, SmallTensors,
                                    TensorListAttribute], ids=lambda module: module.__name__)
def test_traced(compiler, module):
    x = X[0] if module is Dtypes else X
    compiler.compile(traced(module(), x, strict=False), x=x)


def test_tied_weights_are_stored_once(compiler):
    module = nn.Sequential(nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 6))
    module[2].weight = module[0].weight
    compiler.compile(module, input=X)
    stored = load_file(compiler.folder / "model.plan/rank-000.safetensors")
    assert sorted(stored) == ["0.bias", "0.weight", "2.bias"]


def test_input_and_output_dtypes(compiler):
    class EachTimesTwo(nn.Module):
        def forward(self, a, b, c, d, e, f, g, h, i, j):
            return a, b * 2, c * 2, d * 2, e * 2, f * 2, g * 2, h * 2, i * 2, j * 2

    dtypes = [dtype for dtype in Dtypes.ALL if dtype not in (torch.float32, torch.int64)]
    values = {name: torch.arange(6).to(dtype) for name, dtype in zip("abcdefghi", dtypes)}
    outputs = compiler.run(EachTimesTwo(), **values, j=torch.tensor(3))
    assert [outputs[f"output.{i}"].dtype for i in range(9)] == dtypes


def test_a_complex_input_on_the_command_line(compiler):
    compiler.save(NoWeights(), {})
    cleave("compile", "model.pt", "--input", "x:c64[4,6]", "-o", "model.plan", cwd=compiler.folder)


# Modules and functions


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(6, 6), nn.ReLU())

    def helper(self, x, scale: float = 2.0):
        return self.inner(x) * scale

    def forward(self, x):
        return self.helper(x) + self.helper(x, 3.0)


class Shared(nn.Module):
    def __init__(self):
        super().__init__()
        self.block = Block()
        self.again = self.block

    def forward(self, x):
        return self.again(self.block(self.block(x)))


def test_calls_of_a_shared_module_are_numbered(compiler):
    compiler.compile(Shared(), "--capture-points", "*", "--emit-ir", "ir", x=X)
    text = next(compiler.folder.glob("ir/*strip-boundaries.mlir")).read_text()
    for path in ["block", "block#2", "again", "block.inner.0", "block.inner#2.1", "block#2.inner.0"]:
        assert f'"{path}"' in text, path


@torch.jit.script
def shifted(x, by: int = 1):
    return x + by


class Functions(nn.Module):
    def forward(self, x):
        return shifted(x) * shifted(x, 3) + shifted(shifted(x), by=2)


def test_functions_with_defaults(compiler):
    compiler.compile(Functions(), x=X)


# Numbers that a trace holds as tensors


class Numbers(nn.Module):
    def forward(self, x):
        return x * 100.0, x.to(torch.int32) + 1, x > 2.5


def test_a_number_does_not_widen_the_integers_that_it_meets(compiler):
    x = torch.arange(6)
    outputs = compiler.run(traced(Numbers(), x), x=x)
    assert [outputs[f"output.{i}"].dtype for i in range(3)] == [torch.float32, torch.int32, torch.bool]
    torch.testing.assert_close(outputs["output.0"], x * 100.0)


# Operators that only compute types from data


class Quotients(nn.Module):
    def forward(self, x, y):
        return x // y + 1, torch.remainder(7, y), x % y


def test_integers_are_divided(compiler):
    x, y = torch.tensor([-7, -6, 7, 6, -1, 0]), torch.tensor([3, -4, -3, 4, -1, 5])
    outputs = compiler.run(Quotients(), x=x, y=y)
    torch.testing.assert_close(outputs["output.0"], x // y + 1)


# Long literals


@pytest.mark.parametrize("item, count, total", [("{0}", 20_000, 20_000 * 19_999 // 2), ("[{0}, 1]", 4000, 4000 * 4001 // 2)],
                         ids=["numbers", "pairs"])
def test_a_long_literal(item, count, total, compiler):
    """Compiling pairs takes minutes where each of them has all of them looked at. The original's interpreter takes as long, so
    nothing is verified."""
    items = ", ".join(item.format(i) for i in range(count))
    module = torch.jit.script(type("Literal", (nn.Module, ), {})())
    module.define(f"def forward(self, x):\n    return x + torch.tensor([{items}]).sum()\n")
    compiler.save(module, {"x": torch.zeros(1, dtype=torch.int64)})
    cleave("compile", "model.pt", "--inputs", "model.inputs.safetensors", "--time-limit", 60, "-o", "model.plan",
           cwd=compiler.folder)
    cleave("run", "model.plan", "--inputs", "model.inputs.safetensors", "--outputs", "outputs.safetensors",
           cwd=compiler.folder)
    assert load_file(compiler.folder / "outputs.safetensors")["output"].tolist() == [total]


# What a model says while it runs


class Talkative(nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            warnings.warn("positive")
        print("the input is", x)
        return x + 1


def test_plans_are_silent(compiler):
    outputs = compiler.run(Talkative(), x=X.abs())
    torch.testing.assert_close(outputs["output"], X.abs() + 1)


# Layers that PyTorch fuses when nothing is to be trained


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

    def forward(self, x, padding: Optional[torch.Tensor] = None):
        return self.layers(x.transpose(1, 2), src_key_padding_mask=padding)


@torch.no_grad()
@pytest.mark.parametrize("lengths", [None, [5, 3, 4]])
def test_fused_encoder_layers(lengths, compiler):
    """What torch.jit.trace sees of nn.TransformerEncoder; cleave-trace has it unfused."""
    inputs = {"x": torch.randn(3, 16, 5)}
    if lengths:
        inputs["padding"] = torch.arange(5) >= torch.tensor(lengths)[:, None]
    program = traced(Encoder(), *inputs.values())
    assert "aten::_transformer_encoder_layer_fwd" in str(program.inlined_graph)
    compiler.run(program, "--devices", 2, **inputs)


class Conjugated(nn.Module):
    """Two buffers in one memory: as it is, and read as its conjugate; and one that is read as negative."""

    def __init__(self):
        super().__init__()
        self.register_buffer("whole", torch.complex(torch.arange(4.0), torch.ones(4)))
        self.register_buffer("conjugate", self.whole.conj())
        self.register_buffer("negative", torch.complex(torch.ones(4), torch.arange(4.0)).conj().imag)

    def forward(self, x):
        return torch.view_as_real(x * self.whole), torch.view_as_real(x * self.conjugate), x * self.negative


def test_buffers_that_are_read_otherwise(compiler):
    compiler.compile(Conjugated(), x=torch.ones(3, 4))
