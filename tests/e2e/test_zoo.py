"""The models of docs/coverage.md: a part of `make zoo`, and that the table is of these models."""

import sys

import pytest

from conftest import SOURCE, cleave

sys.path.insert(0, str(SOURCE / "tests/zoo"))
import zoo  # noqa: E402


def facts(row):
    """What is the same on every machine, and whichever idioms are found: name, what it has, sizes, calls without semantics."""
    cells = [cell.strip() for cell in row.split("|")[1:5]]
    known, calls = cells[3].split(" of ")
    return [*cells[:3], int(calls) - int(known)]


@pytest.mark.parametrize("name", [name for name, entry in zoo.ZOO.items() if entry.is_tested])
def test_answers_as_the_original(name, trace_model, tmp_path):
    model = trace_model(*zoo.ZOO[name].trace)
    found = zoo.compiled(name, model.path, lambda *arguments: cleave(*arguments).json(), tmp_path)
    assert facts(found.row(name)) == facts(zoo.rows()[name]), "docs/coverage.md is out of date: make zoo"


def test_table_has_every_model():
    assert list(zoo.rows()) == list(zoo.ZOO), "docs/coverage.md is out of date: make zoo"
