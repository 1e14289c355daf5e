"""Modules that decide in Python: a part of `make witnesses`."""

import sys

import pytest

from conftest import SOURCE

sys.path.insert(0, str(SOURCE / "tests/zoo"))
import python_decisions  # noqa: E402


@pytest.mark.parametrize("name", sorted(python_decisions.DECISIONS)[::4])
def test_traces_keep_what_witnesses_promise(name):
    result = python_decisions.check(name, *python_decisions.traced(name)[1:])
    assert not result.wrong
    assert result.refused or result.compared >= python_decisions.VALUES
