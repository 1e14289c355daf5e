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


class Iterates(nn.Module):
    """Over keys, values and items, of a dict that it makes and changes, one that it is given, and one that it holds."""

    held: Dict[str, torch.Tensor]

    def __init__(self):
        super().__init__()
        self.held = {"one": torch.ones(6), "two": torch.full((6,), 2.0)}

    def forward(self, given: Dict[str, torch.Tensor]):
        made = {"first": given["a"]}
        made["second"] = given["b"] * 2
        total = torch.zeros(4, 6)
        for key, value in made.items():
            total = total * 2 + value * len(key)
        for key in given:
            total = total * 3 + given[key]
        for value in self.held.values():
            total = total * 5 + value
        return total


def test_dicts_are_iterated(compiler):
    module = Iterates()
    outputs = compiler.run(module, **{"given.a": X, "given.b": X + 1})
    torch.testing.assert_close(outputs["output"], module({"a": X, "b": X + 1}))


class OfUnknownKeys(nn.Module):
    def forward(self, x):
        table = {"x": x}
        for i in range(int(x.abs().sum())):
            table[str(i)] = x * 2
        for value in table.values():
            x = x + value
        return x


def test_a_dict_of_unknown_keys_is_named_with_its_line(compiler):
    error = compiler.refuse(nn.Sequential(OfUnknownKeys()), input=X)
    assert error.startswith("error: model.pt: 0: aten._set_item.str changes a list or dict of which only running tells "
                            "the content, in line "), error
    assert "table[torch.str(i)] = " in error or "torch._set_item(table, " in error, error
