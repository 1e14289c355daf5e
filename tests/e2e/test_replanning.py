"""`--device-memory`: the memory that devices may use, and plans for several limits of one model that is read once."""

import json
import re
import subprocess

import pytest
from conftest import BIN, cleave, refused
from test_mesh_search import INPUTS, QUICK, SLOWER, put_machine, simulate


def sizes(limits):
    return ",".join(map(str, limits))


def planned(model, limits, *options):
    """What a list says of each limit; all but how long it took."""
    entries = simulate(model, "--device-memory", sizes(limits), *options)["limits"]
    assert [entry.pop("device_memory") for entry in entries] == list(limits)
    assert all(entry.pop("planning_seconds") >= 0 for entry in entries)
    return entries


def alone(model, limit, *options):
    """What a run with this limit says, or its error."""
    command = [BIN / "cleave", "simulate", model.name, *INPUTS, "--device-memory", limit, *options, "--json"]
    result = subprocess.run(list(map(str, command)), cwd=model.parent, capture_output=True, text=True)
    if result.returncode == 0:
        return json.loads(result.stdout)
    return {"error": result.stderr.strip().removeprefix("error: ")}


def limits_of(model, *options):
    """Limits down to less than anything needs, at and next to what changes the choice."""
    free = simulate(model, *options)
    most = max(device["peak_bytes"] for device in free["devices"])
    known = sorted({one["peak_bytes"] for one in free["candidates"] if one["peak_bytes"]}, reverse=True)
    steps = [most * part // 16 for part in (15, 13, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2)]
    return [10 * most, most, most - 1, *known[:6], *steps, 10_000, most]


@pytest.mark.parametrize("latency", [QUICK, SLOWER])
def test_a_list_says_what_single_runs_say(model, latency):
    options = ("--mesh", "auto", "--machine", put_machine(model.parent, 4, latency))
    limits = limits_of(model, *options)
    entries = planned(model, limits, *options)
    for limit, entry in zip(limits, entries):
        assert entry == alone(model, limit, *options), limit
    # Limits matter: others are chosen, and the least fits nothing.
    chosen = {(entry["candidates"][0]["mesh"], entry["seconds"]) for entry in entries if "error" not in entry}
    assert len(chosen) > 1
    assert "10000" in entries[-2]["error"] and "error" not in entries[-1]
    # Nothing of one limit is left for another: not even their order matters.
    assert planned(model, limits[::-1], *options) == entries[::-1]


def test_a_list_for_a_mesh_that_is_given(model):
    options = ("--mesh", "pp=2,tp=2", "--machine", put_machine(model.parent, 4))
    most = max(device["peak_bytes"] for device in simulate(model, *options)["devices"])
    limits = [10 * most, most, most - 1, most * 3 // 4, 10_000, 10 * most]
    entries = planned(model, limits, *options)
    assert entries == [alone(model, limit, *options) for limit in limits]
    assert entries[0] == entries[-1] and "error" in entries[-2]


@pytest.mark.parametrize("mesh", ["auto", "pp=2,dp=2"])
def test_a_list_for_training(model, mesh):
    options = ("--train", "--mesh", mesh, "--machine", put_machine(model.parent, 4))
    most = max(device["peak_bytes"] for device in simulate(model, *options)["devices"])
    limits = [most, most - 1, most * 3 // 4, most // 2, most // 3, 10_000, most]
    entries = planned(model, limits, *options)
    assert entries == [alone(model, limit, *options) for limit in limits]
    assert "error" in entries[-2] and entries[0] == entries[-1]


def test_it_takes_the_place_of_the_machines(model):
    folder = model.parent
    free = ("--mesh", "auto", "--machine", put_machine(folder, 4, SLOWER))
    needed = simulate(model, *free)["devices"][0]["peak_bytes"]
    given = simulate(model, *free, "--device-memory", needed - 1)
    put_machine(folder, 4, SLOWER, memory_bytes=needed - 1)
    assert simulate(model, *free) == given
    # Also where the machine says less, or nothing is said of the machine.
    assert simulate(model, *free, "--device-memory", needed)["devices"][0]["peak_bytes"] == needed
    assert "1000" in refused(folder, "simulate", model.name, *INPUTS, "--devices", 2, "--device-memory", 1000)


def test_a_plan_for_it(model):
    folder = model.parent
    options = (model.name, *INPUTS, "--mesh", "auto", "--machine", put_machine(folder, 4, SLOWER))
    needed = cleave("simulate", *options, "--json", cwd=folder).json()["devices"][0]["peak_bytes"]
    cleave("compile", *options, "--device-memory", needed - 1, "-o", "new.plan", cwd=folder)
    report = cleave("simulate", "new.plan", "--json", cwd=folder).json()
    expected = cleave("simulate", *options, "--device-memory", needed - 1, "--json", cwd=folder).json()
    assert report == {**expected, "notes": []}


def test_blocks_of_text(model):
    options = (model.name, *INPUTS, "--mesh", "auto", "--machine", put_machine(model.parent, 4))
    text = cleave("simulate", *options, "--device-memory", "1GB,10KB,1500KB", cwd=model.parent).out
    single = cleave("simulate", *options, "--device-memory", "1500KB", cwd=model.parent).out
    first, second, third = re.split("^--device-memory ", text, flags=re.MULTILINE)[1:]
    assert first.startswith("1 GB, planned in ") and "chosen" in first
    assert second.startswith("10 KB, planned in ") and "10000" in second and "chosen" not in second
    assert third.startswith("1500 KB, planned in ") and third.split("\n", 1)[1] == single


def test_nothing_fits_any(model):
    machine = put_machine(model.parent, 4)
    why = refused(model.parent, "simulate", model.name, *INPUTS, "--mesh", "auto", "--machine", machine, "--device-memory", "20KB,10KB")
    assert "20000" in why


@pytest.mark.parametrize("size, found", [("0", "0"), ("-1GB", "-1GB"), ("80QB", "80QB"), ("1.5GB", "1.5GB"), ("80GB,", ""),
                                         ("80GB,x", "x"), ("99999999999GB", "99999999999GB")])
def test_sizes_that_are_none(model, size, found):
    why = refused(model.parent, "simulate", model.name, *INPUTS, f"--device-memory={size}", status=2)
    assert f'found "{found}", expected bytes of at least 1, a whole number and its unit, as 80GB or 1500MB' in why


def test_wrong_usage(model, pristine_plan):
    folder = model.parent
    why = refused(folder, "compile", model.name, *INPUTS, "--device-memory", "2GB,1GB", "-o", "new.plan", status=2)
    assert "expected one size, as a plan is for one; cleave simulate takes several" in why
    why = refused(folder, "simulate", model.name, *INPUTS, "--device-memory", "2GB,1GB", "--trace", "t.json", status=2)
    assert "--trace: shows one plan" in why
    why = refused(folder, "simulate", pristine_plan, "--device-memory", "2GB,1GB", status=2)
    assert "--device-memory: is an option of compilation" in why
