"""Stages of models whose best cut is no interval of program order, or is by what devices can hold."""

import json
import subprocess

import pytest
import torch
from torch import nn

from conftest import BIN, cleave

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


class WideEnd(nn.Module):
    """Convolutions take the time, products behind them have the weights."""

    def __init__(self):
        super().__init__()
        self.convs = nn.Sequential(*(nn.Conv2d(8, 8, 3, padding=1) for _ in range(6)))
        self.ends = nn.Sequential(*(nn.Linear(128, 128) for _ in range(6)))

    def forward(self, x):
        return self.ends(self.convs(x).mean(1).flatten(1)[:, :128])


@pytest.mark.parametrize("options", [(), ("--schedule", "interleaved")], ids=["gpipe", "interleaved"])
def test_what_fits_with_another_cut_is_cut_so(compiler, options):
    """The fastest cut has all products in one stage; from how much memory on there is a cut that fits."""
    torch.manual_seed(0)
    compiler.save(WideEnd(), {"x": torch.randn(2, 8, 24, 24)})

    def simulate(memory=None):
        device = {"flops_per_second": 1e11, "memory_bytes_per_second": 1e10, "operator_seconds": 2e-6}
        device |= {"memory_bytes": memory} if memory else {}
        machine = {"devices": [{"name": f"cpu:{rank}", **device} for rank in range(2)],
                   "link": {"latency_seconds": 1e-6, "bytes_per_second": 1e10}}
        (compiler.folder / "machine.json").write_text(json.dumps(machine))
        return subprocess.run([BIN / "cleave", "simulate", "model.pt", "--inputs", "model.inputs.safetensors", "--machine",
                               "machine.json", "--json", *options], cwd=compiler.folder, capture_output=True, text=True)

    def most(done):
        return max(device["peak_bytes"] for device in json.loads(done.stdout)["devices"])

    fastest, fits = most(simulate()), []
    for share in range(20, 105, 10):
        found = simulate(fastest * share // 100)
        fits.append(found.returncode == 0)
        assert most(found) <= fastest * share // 100 if fits[-1] else "; use " in found.stderr, found.stderr
    assert fits == sorted(fits) and not fits[0] and fits[-2], fits
    # What is proven is of those that have room.
    notes = ["".join(json.loads(simulate(memory).stdout)["notes"]) for memory in (None, 10 * fastest, fastest * 90 // 100)]
    assert [note.count("of all contiguous cuts whose weights fit the memory left for them none ") for note in notes] == [0, 0, 1], notes
