"""What tests of cleave-trace share."""

import pytest
import torch
from torch import nn

from conftest import SOURCE, everything_below
from cleave_trace import cli, tracing
from cleave_trace.witnesses import collect


@pytest.fixture
def module_file(tmp_path):
    path = tmp_path / "my_module.py"
    path.write_text((SOURCE / "tests/e2e/traced_modules.py").read_text())
    return path


def trace(*arguments):
    """Runs cleave-trace within this process and returns its exit status."""
    return cli.main([*map(str, arguments)])


def call(model, tensors):
    """What a loaded model answers to flat arguments, by path."""
    found = model(**tensors)
    if isinstance(found, torch.Tensor):
        return {"output": found}
    return {f"output.{key}": value for key, value in found.items()}


def assert_same_bits(found, expected):
    assert found.keys() == expected.keys()
    for path, value in expected.items():
        assert torch.equal(found[path], value), path


def refused(folder, capsys, *arguments, message):
    """Asserts exit status 1, one line that begins with `error: ` and holds `message`, and nothing written."""
    before = everything_below(folder)
    output = () if "-o" in arguments else ("-o", folder / "refused.pt")
    assert trace(*arguments, *output) == 1
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1 and lines[0].startswith("error: ") and message in lines[0], lines
    assert everything_below(folder) == before


def witnesses(module, *example, **options):
    """(Witnesses, {input.dimension: its group}) of a module, traced here."""
    torch.manual_seed(0)
    found = collect.collect(tracing.trace(module.eval(), example), **options)
    return found, {f"{path}.{dim}": group for group in found.dimensions for path, dim in group.dims}


def sizes(module, *example, **options):
    found, groups = witnesses(module, *example, **options)
    assert not any("were not all compared" in note for note in found.notes), found.notes
    return {name: (group.min, group.max, group.divisible_by) for name, group in groups.items()}


def module(forward, **parts):
    """A module with this forward and these submodules, buffers or attributes."""
    made = type(forward.__name__, (nn.Module,), {"forward": forward})()
    for name, value in parts.items():
        made.register_buffer(name, value) if isinstance(value, torch.Tensor) else setattr(made, name, value)
    return made
