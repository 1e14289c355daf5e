"""What tests of cleave-trace share."""

import pytest
import torch

from conftest import SOURCE, everything_below
from cleave_trace import cli


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
