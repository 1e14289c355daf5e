"""What thousands of requests through several processes leave behind: all their outputs, and no memory.

MANY_REQUESTS=10000 runs so many, TRACED_REQUESTS=100000 so many with a trace.
"""

import collections
import json
import os
import sys

import pytest

from conftest import cleave, execute
from launching import Processes
from small import COMPILE, RUN, small  # noqa: F401

COUNT = int(os.environ.get("MANY_REQUESTS", 2000))
TRACED = int(os.environ.get("TRACED_REQUESTS", 8000))
THREADS = 4

# Runs a command, and writes the most kilobytes that it had in memory to a file.
PEAK = """
import resource, subprocess, sys
status = subprocess.call(sys.argv[2:])
open(sys.argv[1], "w").write(str(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss))
sys.exit(status)
"""


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


@pytest.mark.parametrize("size", [1, 2])
def test_a_trace_takes_no_memory(small, tmp_path, size):
    """However long it is: by process, at a tenth of the requests and at all of them."""
    files = small.copy(tmp_path / "run")
    cleave(*COMPILE, cwd=files.folder)

    def peaks(count):
        with Processes(size, *RUN[1:], "--repeat", count, cwd=files.folder,
                       before=lambda rank: (sys.executable, "-c", PEAK, files.folder / f"peak{rank}")) as processes:
            ended = processes.end(timeout=900)
        assert all(end.status == 0 and not end.err for end in ended.values()), ended
        return [int((files.folder / f"peak{rank}").read_text()) for rank in range(size)]

    few, many = peaks(TRACED // 10), peaks(TRACED)
    assert all(late <= 1.02 * early for early, late in zip(few, many)), (few, many)
    events = [event for event in json.loads((files.folder / "t.json").read_text())["traceEvents"] if event["ph"] == "X"]
    requests = collections.Counter(event["args"]["request"] for event in events)
    assert len(requests) == TRACED == max(requests) - min(requests) + 1 and set(requests.values()) == {4}
