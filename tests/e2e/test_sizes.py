"""Models that behave in their own way at some sizes: the plan answers as they do, or there is none."""

import pytest
import torch
from torch import nn

from conftest import cleave

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
