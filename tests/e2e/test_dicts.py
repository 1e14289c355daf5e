"""Dictionaries as inputs and outputs: their keys, and the names that these give."""

from typing import Dict

import torch
from torch import nn

X = torch.linspace(-1, 1, 24).reshape(4, 6)


class Numbered(nn.Module):
    def forward(self, table: Dict[int, torch.Tensor]) -> Dict[int, torch.Tensor]:
        return {1: table[3] + table[-2], 20: table[3] * 2}


def test_dicts_may_have_integers_as_keys(compiler):
    outputs = compiler.run(Numbered(), **{"table.3": X, "table.-2": X * 5})
    assert sorted(outputs) == ["output.1", "output.20"]
    torch.testing.assert_close(outputs["output.1"], X * 6)
    assert "input table.a: found \"a\" as key of a Dict[int, Tensor], expected an integer" in \
        compiler.refuse(Numbered(), **{"table.3": X, "table.a": X + 1})


def test_an_integer_has_one_name(compiler):
    """1 and 01 would be one key."""
    error = compiler.refuse(Numbered(), **{"table.3": X, "table.-2": X + 1, "table.03": X + 2})
    assert 'input table.03: found "03" as key' in error, error


class TwiceNamed(nn.Module):
    def forward(self, x):
        return {"a": {"b.c": x + 1}, "a.b": {"c": x * 2}}


def test_two_outputs_of_one_name_are_refused(compiler):
    error = compiler.refuse(TwiceNamed(), x=X)
    assert error.endswith("output output.a.b.c: two tensors have this name; give one of their keys another"), error
