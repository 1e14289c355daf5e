"""Machines whose devices, or links between them, are not alike."""

import json
import re
import shutil

import pytest
from conftest import cleave, compile_refused, contents, refused
from test_mesh_search import INPUTS, one_by_one, simulate

FAST = {"flops_per_second": 2e9, "memory_bytes_per_second": 1e10, "operator_seconds": 1e-6}
SLOW = {"flops_per_second": 2e9 / 3, "memory_bytes_per_second": 1e10 / 3, "operator_seconds": 3e-6}
LINK = {"latency_seconds": 1e-6, "bytes_per_second": 1e10}


def put_machine(folder, devices, **more):
    """The name of a machine file."""
    named = [{"name": f"d{index}", **device} for index, device in enumerate(devices)]
    (folder / "machine.json").write_text(json.dumps({"devices": named, "link": LINK} | more))
    return "machine.json"


def link(source, target, **more):
    return {"from": f"d{source}", "to": f"d{target}", **LINK, **more}


# Time -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", [(FAST, SLOW), (SLOW, FAST)], ids=["fast first", "slow first"])
def test_a_device_three_times_slower_gets_a_quarter(model, order):
    report = simulate(model, "--machine", put_machine(model.parent, order))
    seconds = [stage["seconds"] for stage in report["stages"]]
    work = [own / (3 if device is SLOW else 1) for own, device in zip(seconds, order)]
    assert work[order.index(SLOW)] / sum(work) == pytest.approx(0.25, abs=0.05)
    # Both are as long at work, as far as operators can be dealt out.
    assert min(seconds) > 0.8 * max(seconds)


def test_kinds_are_what_their_devices_are(model):
    options = ("--machine", "machine.json", "--mesh", "pp=2,tp=2")
    put_machine(model.parent, (FAST, FAST, SLOW, SLOW))
    plain = simulate(model, *options)
    put_machine(model.parent, ({"kind": "a"}, {"kind": "a"}, {"kind": "b"}, {"kind": "b"}), kinds={"a": FAST, "b": SLOW})
    assert simulate(model, *options) == plain


def test_kinds_and_links_that_say_the_same_change_nothing(model):
    """A plan for devices that are alike is the same, byte for byte, however the file says that they are."""
    def made(devices, **more):
        put_machine(model.parent, devices, **more)
        cleave("compile", model.name, *INPUTS, "--machine", "machine.json", "--mesh", "pp=2,tp=2", "-o", "new.plan", cwd=model.parent)
        plan = contents(model.parent / "new.plan")
        shutil.rmtree(model.parent / "new.plan")
        return plan

    plain = made([FAST] * 4)
    assert made([FAST, {"kind": "a"}, {"kind": "b"}, {"kind": "a"}], kinds={"a": FAST, "b": FAST}) == plain
    assert made([FAST] * 4, links=[link(a, b) for a in range(4) for b in range(a)]) == plain
    assert made([FAST] * 4, links=[link(0, 2, latency_seconds=1e-3)]) != plain


def test_a_kind_has_tables_of_its_own(model):
    """A device that is slow at products alone, which no factor says."""
    table = {"count": [1], "rows": [1], "columns": [1], "depth": [1], "flops_per_second": [1e8]}
    weak = {**FAST, "products": {"matrix": {"float32": table}}}
    report = simulate(model, "--machine", put_machine(model.parent, ({"kind": "a"}, {"kind": "b"}), kinds={"a": FAST, "b": weak}))
    first, second = report["stages"]
    alike = simulate(model, "--machine", put_machine(model.parent, (FAST, FAST)))["stages"]
    assert first["seconds"] > 1.3 * alike[0]["seconds"]
    # Far less than its half of the model, which weak devices share evenly.
    even = simulate(model, "--machine", put_machine(model.parent, ({"kind": "b"}, {"kind": "b"}), kinds={"b": weak}))["stages"]
    assert max(first["seconds"], second["seconds"]) < 0.25 * even[1]["seconds"]


def test_a_tensor_group_goes_at_the_pace_of_its_slowest(model):
    options = ("--machine", "machine.json", "--mesh", "tp=2")
    seconds = {}
    for name, devices in {"fast": (FAST, FAST), "mixed": (FAST, SLOW), "slow": (SLOW, SLOW)}.items():
        put_machine(model.parent, devices)
        seconds[name] = simulate(model, *options)["seconds"]
    assert seconds["mixed"] == seconds["slow"] > 2 * seconds["fast"]


@pytest.mark.parametrize("devices, links", [((FAST, SLOW), []), ((SLOW, FAST, FAST), [link(0, 2, latency_seconds=1e-3)]),
                                            ((FAST, FAST, SLOW), [link(1, 2, bytes_per_second=1e6)])])
def test_nothing_takes_less_in_the_order_of_the_file(model, devices, links):
    machine = put_machine(model.parent, devices, links=links)
    report = simulate(model, "--mesh", "auto", "--machine", machine)
    chosen = report["candidates"][0]
    every = one_by_one(model, machine, len(devices))
    assert report["seconds"] == every[chosen["mesh"], chosen["schedule"], chosen["microbatches"]] == min(every.values())


def test_training(model):
    options = ("--train", "--mesh", "pp=2,dp=2", "--microbatches", 1, "--machine", "machine.json")
    seconds = {}
    for name, devices in {"fast": [FAST] * 4, "one": [FAST, FAST, FAST, SLOW], "stage": [FAST, FAST, SLOW, SLOW]}.items():
        put_machine(model.parent, devices)
        seconds[name] = simulate(model, *options)["seconds"]
    # A stage is as slow as the slowest of the pipelines side by side.
    assert seconds["one"] == seconds["stage"] > 1.2 * seconds["fast"]
    put_machine(model.parent, [FAST] * 4, links=[link(2, 3, latency_seconds=1)])
    # Gradients of the second stage are summed over that link, in two steps.
    assert simulate(model, *options)["seconds"] > 2


def seconds_with(model, links, devices, *options):
    put_machine(model.parent, [FAST] * devices, links=links)
    return simulate(model, "--machine", "machine.json", *options)["seconds"]


def test_gradients_are_summed_over_links_of_their_own(model):
    """With pp, dp and tp each takes the links between its ranks, and none those between others."""
    options = ("--train", "--mesh", "dp=2,tp=2", "--microbatches", 1)
    alike = seconds_with(model, [], 4, *options)
    for source, target, waits in [(0, 3, False), (1, 2, False), (0, 2, True), (2, 3, True)]:
        found = seconds_with(model, [link(source, target, latency_seconds=1)], 4, *options)
        assert found > 2 if waits else found == alike, (source, target)
    options = ("--train", "--mesh", "pp=2,dp=2,tp=2", "--microbatches", 1)
    alike = seconds_with(model, [], 8, *options)
    for source, target, waits in [(0, 5, False), (4, 7, False), (0, 4, True), (5, 7, True)]:
        found = seconds_with(model, [link(source, target, latency_seconds=1)], 8, *options)
        assert found > 2 if waits else found == alike, (source, target)


def test_the_room_for_weights_is_that_of_all_pipelines(model):
    """Weights of which a part would do stay whole only where each pipeline has room for them."""
    def least(*memory):
        put_machine(model.parent, [{**FAST, "memory_bytes": bytes_} for bytes_ in memory], link={**LINK, "latency_seconds": 1e-3})
        line = refused(model.parent, "simulate", model.name, *INPUTS, "--train", "--mesh", "dp=2,tp=2", "--microbatches", 1,
                       "--machine", "machine.json")
        return re.search(r"takes least memory of what was evaluated, (\d+) bytes", line)[1]

    few, many = 10**4, 10**9
    assert least(many, many, few, few) == least(few, few, few, few)


# Links ----------------------------------------------------------------------------------------------------------------


def test_a_slow_link_is_counted_and_moves_the_cut(model):
    options = ("--machine", "machine.json", "--mesh", "pp=4")
    put_machine(model.parent, [FAST] * 4)
    alike = simulate(model, *options)
    # So slow that what is behind it gets little else to do.
    wait = 0.5 * max(stage["seconds"] for stage in alike["stages"])
    put_machine(model.parent, [FAST] * 4, links=[link(1, 2, latency_seconds=wait)])
    found = simulate(model, *options)
    assert found["stages"][2]["seconds"] < 0.8 * alike["stages"][2]["seconds"]
    # One micro-batch passes all stages and what is between them.
    between = [one["bytes"] for one in found["transfers"] if one["to"] == one["from"] + 1]
    sent = sum(LINK["latency_seconds"] + bytes_ / LINK["bytes_per_second"] for bytes_ in between)
    passes = sum(stage["seconds"] for stage in found["stages"])
    assert found["seconds"] >= passes + sent + 0.99 * wait
    # Others are as they were, and so is the way back of a pipeline.
    put_machine(model.parent, [FAST] * 4, links=[link(2, 1, latency_seconds=wait), link(1, 2)])
    assert simulate(model, *options) == alike


def test_a_plan_knows_the_links(model):
    put_machine(model.parent, [FAST, SLOW, FAST, FAST], links=[link(0, 2, latency_seconds=0.01), link(1, 3, latency_seconds=0.02)])
    options = ("--machine", "machine.json", "--mesh", "pp=2,tp=2", "--microbatches", 2)
    whole = simulate(model, *options)
    cleave("compile", model.name, *INPUTS, *options, "-o", "new.plan", cwd=model.parent)
    assert cleave("simulate", "new.plan", "--json", cwd=model.parent).json() == {**whole, "notes": []}
    # Two sends of each position, one behind the other, of which the slower is waited for.
    assert whole["seconds"] > 0.04


def test_tensor_ranks_wait_for_each_other(model):
    """Behind the slow link of one of them, the other one's is waited for, too."""
    options = ("--mesh", "pp=3,tp=2", "--microbatches", 1)
    alike = seconds_with(model, [], 6, *options)
    found = seconds_with(model, [link(0, 2, latency_seconds=1), link(3, 5, latency_seconds=1)], 6, *options)
    assert found == pytest.approx(2 + alike, rel=0.1)
    # As slow as if both positions had these links.
    both = [link(a, b, latency_seconds=1) for a, b in ((0, 2), (1, 3), (2, 4), (3, 5))]
    assert found == pytest.approx(seconds_with(model, both, 6, *options))


def test_links_that_say_nothing_new(model):
    """What was measured of groups is taken, whether or not the file says of links what it says of all."""
    entry = {"latency_seconds": 1e-2, "ranks": 2, "bytes": [1], "bytes_per_second": [1e8]}
    more = {"nodes": {"devices": 2, "latency_seconds": 1e-5, "bytes_per_second": 1e9},
            "collectives": {"all_reduce": entry, "all_gather": entry, "reduce_scatter": entry}}
    options = ("--machine", "machine.json", "--mesh", "pp=2,tp=2")
    put_machine(model.parent, [FAST] * 4, **more)
    plain = simulate(model, *options)
    assert plain["seconds"] > 2e-2
    put_machine(model.parent, [FAST] * 4, links=[link(0, 1), link(2, 3)], **more)
    assert simulate(model, *options) == plain


def balance(report):
    return next(note for note in report["notes"] if "the slowest stage" in note)


def test_what_is_known_of_a_cut(model):
    """A link that skips a stage prices what the cutter does not: its answer is neither exact nor a bound for others."""
    options = ("--machine", "machine.json", "--mesh", "pp=3")
    put_machine(model.parent, [FAST] * 3)
    assert "(exact: " in balance(simulate(model, *options))
    put_machine(model.parent, [FAST] * 3, links=[link(0, 2, latency_seconds=1e-3)])
    report = simulate(model, *options)
    text = balance(report)
    found = re.search(r"none below ([\d.]+) (\w+), [\d.]+ % less, is faster \(not proven: links between stages differ\)$", text)
    assert found, text
    work = sum(stage["seconds"] for stage in report["stages"]) / 3
    assert float(found[1]) * {"s": 1, "ms": 1e-3, "us": 1e-6}[found[2]] <= 1.01 * work
    # Between two there is one link.
    put_machine(model.parent, [FAST] * 2, links=[link(0, 1, latency_seconds=1e-3)])
    assert "(exact: " in balance(simulate(model, "--machine", "machine.json"))


def test_links_of_devices_that_are_not_used(model):
    options = ("--machine", "machine.json", "--devices", 2, "--mesh", "tp=2")
    put_machine(model.parent, [FAST] * 4)
    alike = simulate(model, *options)
    put_machine(model.parent, [FAST] * 4, links=[link(2, 3, latency_seconds=1)])
    assert simulate(model, *options) == alike


# Memory ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ways", [("--mesh", "pp=2"), ("--schedule", "interleaved"), ("--mesh", "tp=2")], ids=" ".join)
def test_the_least_memory_of_a_small_device(model, ways):
    """The error names what the small device needs, with which the same command works."""
    def machine(bytes_):
        put_machine(model.parent, ({**FAST, "memory_bytes": 10**9}, {**FAST, "memory_bytes": bytes_}))

    machine(1000)
    line = compile_refused(model, "--machine", "machine.json", *ways)
    found = re.search(r"rank 1 takes (\d+) bytes at its peak, its device has 1000; .* devices with memory for (\d+) bytes$", line)
    assert found and found[1] == found[2], line
    least = int(found[1])
    machine(least)
    plan = simulate(model, "--machine", "machine.json", *ways)
    assert plan["devices"][1]["peak_bytes"] <= least
    if "tp=2" not in ways:
        # Far less than an even cut has.
        even = simulate(model, "--machine", put_machine(model.parent, (FAST, FAST)), *ways)
        assert least < 0.6 * even["devices"][1]["peak_bytes"]


def test_a_small_device_holds_less(model):
    even = simulate(model, "--machine", put_machine(model.parent, (FAST, FAST)))
    room = even["devices"][1]["peak_bytes"] // 2
    found = simulate(model, "--machine", put_machine(model.parent, (FAST, {**FAST, "memory_bytes": room})))
    assert found["devices"][1]["peak_bytes"] <= room < found["devices"][0]["peak_bytes"]


def test_the_search_counts_each_device_by_itself(model):
    """Alone the first device has no room, and of two meshes the one that the second has room for is chosen."""
    tp = simulate(model, "--mesh", "tp=2", "--machine", put_machine(model.parent, (FAST, FAST)))
    room = min(device["peak_bytes"] for device in tp["devices"]) // 2
    machine = put_machine(model.parent, (FAST, {**FAST, "memory_bytes": room}))
    report = simulate(model, "--mesh", "pp=auto,tp=auto", "--machine", machine)
    reasons = {one["mesh"]: one["reason"] for one in report["candidates"]}
    assert report["candidates"][0]["mesh"] != "pp=1,tp=2"
    assert str(room) in reasons["pp=1,tp=2"]


# Bad input ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("devices, more, message", [
    ((FAST, FAST), {"links": [link(0, 7)]}, 'links[0].to: found "d7", expected the name of a device'),
    ((FAST, FAST), {"links": [link(1, 1)]}, 'links[0]: goes from "d1" to itself; give two devices'),
    ((FAST, FAST), {"links": [link(0, 1), link(0, 1)]}, 'links[1]: goes from "d0" to "d1", as links[0] does; give each direction once'),
    ((FAST, FAST), {"links": [link(0, 1, bytes_per_second=-1)]}, "links[0].bytes_per_second: found -1, expected a number from 1 to 1e+21"),
    ((FAST, FAST), {"links": [{"from": "d0", "to": "d1"}]}, 'links[0]: the key "latency_seconds" is missing'),
    ((FAST, {"kind": "b"}), {"kinds": {"a": FAST}}, 'devices[1].kind: found "b", expected one of "kinds": a'),
    ((FAST, {"kind": "a"}), {"kinds": {"a": {**FAST, "flops_per_second": 1e30}}},
     "kinds.a.flops_per_second: found 1e+30, expected a number from 1 to 1e+21"),
    ((FAST, SLOW), {"memory": {"bytes": [1], "bytes_per_second": [1e9]}},
     "devices[1]: its figures differ from those of devices[0], but the file's tables are those of both; give each a kind"),
    (({"kind": "a"}, {"kind": "b"}), {"kinds": {name: {**figures, "memory": {"bytes": [1], "bytes_per_second": [1e9]}}
                                                for name, figures in (("a", FAST), ("b", SLOW))}},
     "kinds.b: its figures differ from those of a, but its tables are the same; give each kind tables of its own"),
], ids=lambda value: "")
def test_what_a_file_must_not_say(model, devices, more, message):
    line = compile_refused(model, "--machine", put_machine(model.parent, devices, **more))
    assert line.startswith("error: ") and "machine.json: " + message in line


def test_a_mesh_of_fewer_devices_than_there_are(model):
    """Which ones is asked where they are not alike."""
    different = [([FAST, FAST, SLOW], {}), ([FAST, FAST, {**FAST, "memory_bytes": 10**9}], {}), ([FAST, FAST, {**FAST, "threads": 2}], {}),
                 ([FAST] * 3, {"links": [link(1, 2, latency_seconds=1e-3)]})]
    for devices, more in different:
        options = ("simulate", model.name, *INPUTS, "--machine", put_machine(model.parent, devices, **more), "--mesh", "pp=2")
        line = refused(model.parent, *options, status=2)
        assert ("--mesh pp=2: takes 2 devices, but there are 3, which are not alike; give --devices 2 for the first of them, in the "
                "order of machine.json") in line
        cleave(*options, "--devices", 2, cwd=model.parent)


@pytest.mark.parametrize("options, message", [
    (("--devices", 3), "--devices 3: machine machine.json has 2"),
    (("--mesh", "pp=3"), "--mesh pp=3: takes 3 devices, but there are 2; take 2 at most, or a machine that has more"),
    (("--mesh", "pp=2,tp=2"), "--mesh pp=2,tp=2: takes 4 devices, but there are 2; take 2 at most, or a machine that has more"),
], ids=lambda value: "")
def test_more_ranks_than_devices(model, options, message):
    line = refused(model.parent, "simulate", model.name, *INPUTS, "--machine", put_machine(model.parent, (FAST, SLOW)), *options,
                   status=2 if "--mesh" in options else 1)
    assert message in line
