"""Idioms become one operator of ATen, with the original's results; where they may not, they stay as they are."""

import math
import shutil

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from conftest import cleave

torch.manual_seed(0)
X = torch.randn(2, 16, 32)
HEADS = torch.randn(2, 4, 16, 8)
MASK = torch.where(torch.ones(16, 16).tril() > 0, 0.0, torch.finfo(torch.float32).min)[None, None]
PADDING = torch.where(torch.arange(16) < 11, 0.0, torch.finfo(torch.float32).min)[None, None, None]
ANGLES = torch.outer(torch.arange(16.0), 1 / 10000 ** (torch.arange(0, 8, 2) / 8)).repeat(1, 2)[None, None]


def gelu_new(x):
    return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))))


def gelu_fast(x):
    return 0.5 * x * (1.0 + torch.tanh(x * 0.7978845608 * (1.0 + 0.044715 * x * x)))


class RmsNorm(nn.Module):
    """Llama's, with its casts."""

    def __init__(self, dtype=torch.float32):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(32).to(dtype))

    def forward(self, x):
        wide = x.to(torch.float32)
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
        return self.weight * wide.to(x.dtype)


def attention(q, k, v):
    weights = torch.softmax(torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(8), dim=-1)
    return torch.matmul(weights, v).transpose(1, 2).reshape(2, 16, 32)


def masked_attention(q, k, v, mask, padding):
    scores = torch.matmul(q, k.transpose(2, 3)) * 0.3 + mask + padding
    weights = nn.functional.softmax(scores, dim=-1, dtype=torch.float32).to(q.dtype)
    return torch.matmul(nn.functional.dropout(weights, 0.1, False), v)


def viewed_attention(q, k, v):
    """The result is taken as it lies: the kernel's is in another order."""
    return torch.matmul(torch.softmax(torch.matmul(q, k.transpose(-1, -2)), -1), v).view(8, 16, 8)


def reshaped_attention(q, k, v):
    """The same behind a reshape, which leaves the result as it lies, too."""
    return torch.matmul(torch.softmax(torch.matmul(q, k.transpose(-1, -2)), -1), v).reshape(2, 4, 16, 8).view(8, 128)


def causal_attention(q, k, v, padding):
    causal = torch.ones(16, 16, dtype=torch.bool).tril()[None, None]
    least = torch.full([], torch.finfo(torch.float32).min)
    scores = torch.where(causal, torch.matmul(q, k.transpose(-1, -2)), least) + padding
    return torch.matmul(torch.softmax(scores, -1), v).transpose(1, 2).contiguous()


def filled_attention(q, k, v, padding):
    scores = torch.matmul(q * 0.35, k.permute(0, 1, 3, 2))
    scores = scores.masked_fill(padding < 0, torch.finfo(torch.float32).min)
    return torch.matmul(torch.softmax(scores, 3), v).transpose(1, 2).contiguous()


def position_bias(q, k, v, bias):
    scores = torch.matmul(q, k.transpose(3, 2))
    scores += bias.permute(2, 0, 1)[None]
    return torch.matmul(nn.functional.softmax(scores.float(), dim=-1).type_as(scores), v).transpose(1, 2).contiguous()


def grouped_attention(q, k, v):
    many_k = k[:, :, None, :, :].expand(2, 2, 2, 16, 8).reshape(2, 4, 16, 8)
    many_v = v[:, :, None, :, :].expand(2, 2, 2, 16, 8).reshape(2, 4, 16, 8)
    weights = torch.softmax(torch.matmul(q, many_k.transpose(2, 3)) * 0.35, dim=-1)
    return torch.matmul(weights, many_v).transpose(1, 2).contiguous()


def rotary(x, cos, sin):
    return x * cos + torch.cat((-x[..., 4:], x[..., :4]), dim=-1) * sin


class FunctionModule(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *inputs):
        return self.function(*inputs)


def run(compiler, function, inputs, *options):
    """The plan's outputs, and the IR that it was made from."""
    module = function if isinstance(function, nn.Module) else FunctionModule(function)
    model = torch.jit.trace(module.eval(), inputs)
    names = [argument.name for argument in model.forward.schema.arguments[1:]]
    outputs = compiler.run(model, *options, "--emit-ir", "ir", **dict(zip(names, inputs)))
    return outputs, compiled(compiler.folder / "ir")


def compiled(folder):
    """The IR after the last pass, without locations."""
    return next(folder.glob("*-split-stages.mlir")).read_text()


HALVES = (HEADS, torch.randn(2, 2, 16, 8), torch.randn(2, 2, 16, 8))
ATTENTION = "aten.scaled_dot_product_attention("
CASES = {
    "gelu_new": (gelu_new, (X,), "aten.gelu(", "aten.tanh"),
    "gelu_fast": (gelu_fast, (X,), "aten.gelu(", "aten.tanh"),
    "rms_norm": (RmsNorm(), (X,), "aten.rms_norm(", "aten.rsqrt"),
    "rms_norm_half": (RmsNorm(torch.bfloat16), (X.bfloat16(),), "aten.rms_norm(", "aten.rsqrt"),
    "attention": (attention, (HEADS, HEADS + 1, HEADS * 2), ATTENTION, "aten.softmax"),
    "masked_attention": (masked_attention, (HEADS, HEADS + 1, HEADS * 2, MASK, PADDING), ATTENTION, "aten.softmax"),
    "viewed_attention": (viewed_attention, (HEADS, HEADS + 1, HEADS * 2), ATTENTION, "aten.softmax"),
    "reshaped_attention": (reshaped_attention, (HEADS, HEADS + 1, HEADS * 2), ATTENTION, "aten.softmax"),
    "causal_attention": (causal_attention, (HEADS, HEADS + 1, HEADS * 2, PADDING), ATTENTION, "aten.softmax"),
    "filled_attention": (filled_attention, (HEADS, HEADS + 1, HEADS * 2, PADDING), ATTENTION, "aten.softmax"),
    "position_bias": (position_bias, (HEADS, HEADS + 1, HEADS * 2, torch.randn(16, 16, 4)), ATTENTION, "aten.softmax"),
    "grouped_attention": (grouped_attention, HALVES, ATTENTION, "aten.expand"),
    "rotary": (rotary, (HEADS, ANGLES.cos(), ANGLES.sin()), "aten.addcmul(", "aten.add.Tensor"),
}


def largest_error(found, expected):
    return max((found[name].double() - expected[name].double()).abs().max().item() for name in expected)


@pytest.mark.parametrize("case", CASES)
def test_becomes_one_operator(case, compiler):
    module, inputs, one, none = CASES[case]
    expected, before = run(compiler, module, inputs, "--no-idioms")
    shutil.rmtree(compiler.folder / "ir")
    found, after = run(compiler, module, inputs)
    assert one not in before and none in before
    assert one in after and none not in after
    # The same to the last place but a few: values are about 1.
    assert largest_error(found, expected) <= 5e-6


def infinite_fill(q, k, v, padding):
    scores = torch.matmul(q, k.transpose(-1, -2)).masked_fill(padding < 0, float("-inf"))
    return torch.matmul(torch.softmax(scores, -1), v)


def weights_too(q, k, v):
    weights = torch.softmax(torch.matmul(q, k.transpose(-1, -2)), -1)
    return torch.matmul(weights, v), weights


def over_queries(q, k, v):
    return torch.matmul(torch.softmax(torch.matmul(q, k.transpose(-1, -2)), 2), v)


@pytest.mark.parametrize("function, inputs", [
    (infinite_fill, (HEADS, HEADS + 1, HEADS * 2, PADDING)),
    (weights_too, (HEADS, HEADS + 1, HEADS * 2)),
    (over_queries, (HEADS, HEADS + 1, HEADS * 2)),
    (attention, (HEADS.bfloat16(), HEADS.bfloat16(), HEADS.bfloat16())),
], ids=lambda value: getattr(value, "__name__", ""))
def test_stays(function, inputs, compiler):
    """compiler.run verifies the outputs."""
    _, after = run(compiler, function, inputs)
    assert ATTENTION not in after and "aten.softmax" in after


class Activation(nn.Module):
    """What its tanh gives is a module's output."""

    def __init__(self):
        super().__init__()
        self.tanh = nn.Tanh()

    def forward(self, x):
        return 0.5 * x * (1.0 + self.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))))


def build():
    return nn.Sequential(nn.Linear(32, 32), Activation()), (X,)


@pytest.mark.parametrize("pattern, is_kept", [("1.tanh", True), ("*", True), ("1", False)])
def test_declared_capture_points_end_idioms(pattern, is_kept, trace_model, tmp_path):
    model = trace_model(f"{__file__}:build")
    cleave("compile", model.path, "--inputs", model.inputs, "--capture-points", pattern, "--verify", "--emit-ir",
           tmp_path / "ir", "-o", tmp_path / "plan")
    after = compiled(tmp_path / "ir")
    assert ("aten.tanh" in after) == is_kept
    assert ("aten.gelu(" in after) != is_kept
    cleave("run", tmp_path / "plan", "--inputs", model.inputs, "--outputs", tmp_path / "outputs.safetensors")
    assert largest_error(load_file(tmp_path / "outputs.safetensors"), load_file(model.outputs)) <= 5e-6
