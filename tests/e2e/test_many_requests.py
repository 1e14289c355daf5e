"""What thousands of requests through several processes leave behind: all their outputs, and no memory.

MANY_REQUESTS=10000 runs so many.
"""

import json
import os

import pytest

from conftest import cleave, execute
from launching import Processes

COUNT = int(os.environ.get("MANY_REQUESTS", 2000))
THREADS = 4


@pytest.fixture
def plan_and_inputs(tiny_model, tmp_path):
    def compile_plan(mesh):
        model, plan = tiny_model("gpt2"), tmp_path / "model.plan"
        cleave("compile", model.path, "--inputs", model.inputs, "--mesh", mesh, "-o", plan)
        return plan, model.inputs

    return compile_plan


def one_process(plan, inputs, *more):
    return json.loads(execute("manyRequests", plan, inputs, COUNT, *more, env={**os.environ, "OMP_NUM_THREADS": "1"}).out)


def several(size, plan, inputs, *more):
    with Processes(size, plan, inputs, COUNT, *more, program=("manyRequests",)) as processes:
        ended = processes.end(timeout=900)
    assert all(end.status == 0 and not end.err for end in ended.values()), ended
    return {rank: json.loads(end.out) for rank, end in ended.items()}


@pytest.mark.parametrize("mesh", ["pp=2", "tp=2"])
def test_nothing_is_lost_and_memory_is_flat(mesh, plan_and_inputs):
    plan, inputs = plan_and_inputs(mesh)
    expected, reports = one_process(plan, inputs), several(2, plan, inputs)
    assert {report["digest"] for report in reports.values()} == {0, expected["digest"]} if mesh == "pp=2" else \
        reports[0]["digest"] == expected["digest"], (expected, reports)
    for report in reports.values():
        assert report["at_end"] <= 1.01 * report["after_thousand"], reports


@pytest.mark.parametrize("mesh", ["pp=2", "tp=2", "pp=2,tp=2", "dp=2", "dp=2,pp=2"])
def test_one_leads_and_calls_from_several_threads(mesh, plan_and_inputs):
    """The others do what process 0 starts, and it gets all outputs."""
    plan, inputs = plan_and_inputs(mesh)
    reports = several(4 if "," in mesh else 2, plan, inputs, THREADS)
    assert reports[0]["digest"] == one_process(plan, inputs, THREADS)["digest"], reports
    for report in reports.values():
        # Of processes that serve, no thousand is counted.
        assert not report["after_thousand"] or report["at_end"] <= 1.01 * report["after_thousand"], reports
