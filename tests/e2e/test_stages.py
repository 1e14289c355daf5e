"""Stages of models whose best cut is no interval of program order."""

import pytest
import torch
from torch import nn

from conftest import cleave

X = torch.linspace(-1, 1, 64 * 512).reshape(64, 512)


class TwoTowers(nn.Module):
    """Of 3 + 1 + 1 and 3 + 2 + 2 parts of work, the second after the first in program order."""

    def __init__(self):
        super().__init__()
        self.first = nn.Sequential(nn.Linear(512, 1536), nn.Linear(1536, 170), nn.Linear(170, 1536))
        self.second = nn.Sequential(nn.Linear(512, 1536), nn.Linear(1536, 340), nn.Linear(340, 1536))

    def forward(self, x):
        return self.first(x), self.second(x.flip(1))


@pytest.fixture
def plan(compiler):
    torch.manual_seed(0)

    def compile(*options):
        result = compiler.compile(TwoTowers(), "--devices", 2, *options, x=X)
        return result, cleave("inspect", "model.plan", "--json", cwd=compiler.folder).json()
    return compile


def test_stages_take_parts_of_both_towers(plan):
    result, report = plan()
    assert [stage["module_paths"] for stage in report["stages"]] == \
        [["first.0", "second.0"], ["first.1", "first.2", "second.1", "second.2"]]
    assert report["balance"]["max_over_mean"] < 1.1
    assert "none is faster (exact: " in result.out, result.out


def test_stage_before_fixes_program_order(plan):
    result, report = plan("--stage-before", "second")
    assert [stage["module_paths"] for stage in report["stages"]] == [["first"], ["second"]]
    assert "none is faster (exact: " in result.out, result.out
