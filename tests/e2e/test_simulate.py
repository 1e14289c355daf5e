"""`cleave simulate`: the forecast of a plan's schedule, and of what a model would become."""

import json

import pytest
from conftest import cleave, everything_below, refused

INPUTS = "model.inputs.safetensors"
# Pipelines of a tiny GPT-2 with 4 layers and a batch of 2.
SHAPES = [("--devices", 1), ("--devices", 2), ("--devices", 4, "--microbatches", 2),
          ("--devices", 2, "--microbatches", 5), ("--devices", 2, "--microbatches", 2, "--schedule", "interleaved"), ("--mesh", "pp=2,tp=2", "--microbatches", 2)]
each_shape = pytest.mark.parametrize("options", SHAPES, ids=lambda options: " ".join(map(str, options)))


def actions_of(trace, request=0):
    """What each row does, in order."""
    events = [event for event in json.loads(trace.read_text())["traceEvents"] if event["ph"] == "X"]
    rows = {}
    for event in events:
        if event["args"]["request"] == request:
            rows.setdefault(event["tid"], []).append((event["name"], event["cat"], event["args"]["module_paths"]))
    return rows


@each_shape
def test_a_run_does_what_was_forecast(model, options):
    folder = model.parent
    cleave("compile", model.name, "--inputs", INPUTS, *options, "-o", "new.plan", cwd=folder)
    cleave("simulate", "new.plan", "--trace", "forecast.json", cwd=folder)
    cleave("run", "new.plan", "--inputs", INPUTS, "--trace", "run.json", cwd=folder)
    # Requests before were warm-up, and those that had the devices to themselves.
    last = max(event["args"].get("request", 0) for event in json.loads((folder / "run.json").read_text())["traceEvents"])
    assert actions_of(folder / "forecast.json") == actions_of(folder / "run.json", last)
    forecast, run = (json.loads((folder / name).read_text())["traceEvents"] for name in ("forecast.json", "run.json"))
    assert [event for event in forecast if event["ph"] == "M"] == [event for event in run if event["ph"] == "M"]


@each_shape
def test_a_model_is_simulated_as_its_plan(model, options):
    folder = model.parent
    before = everything_below(folder)
    whole = cleave("simulate", model.name, "--inputs", INPUTS, *options, "--json", cwd=folder).json()
    assert everything_below(folder) == before
    cleave("compile", model.name, "--inputs", INPUTS, *options, "-o", "new.plan", cwd=folder)
    found = cleave("simulate", "new.plan", "--json", cwd=folder).json()
    assert {**whole, "notes": []} == found


def test_numbers(model):
    folder = model.parent
    report = cleave("simulate", model.name, "--inputs", INPUTS, "--devices", 2, "--microbatches", 2, "--json",
                    cwd=folder).json()
    assert report["schedule"] == "gpipe" and report["microbatches"] == 2
    (transfer,) = report["transfers"]
    # One sample of 16 positions of 32 float32 numbers, and perhaps masks.
    assert (transfer["from"], transfer["to"]) == (0, 1) and transfer["bytes"] >= 16 * 32 * 4
    # cpu:2 sends 10 GB/s after 5 us; a send waits for its receive.
    first, second = (stage["seconds"] for stage in report["stages"])
    sent = 5e-6 + transfer["bytes"] / 10e9
    assert report["seconds"] == pytest.approx(first + sent + max(first, second) + sent + second, rel=1e-9)
    for device, stage in zip(report["devices"], report["stages"]):
        assert device["busy_seconds"] == pytest.approx(2 * stage["seconds"])
        assert device["busy_seconds"] + device["idle_seconds"] == pytest.approx(report["seconds"])
        assert device["bubble"] == pytest.approx(device["idle_seconds"] / report["seconds"])
        assert device["peak_bytes"] == device["weight_bytes"] + stage["activation_bytes"]
    assert [device["stages"] for device in report["devices"]] == [[0], [1]]
    idle = sum(device["idle_seconds"] for device in report["devices"])
    assert report["bubble"] == pytest.approx(idle / (2 * report["seconds"]))


@each_shape
def test_memory_over_time(model, options):
    folder = model.parent
    report = cleave("simulate", model.name, "--inputs", INPUTS, *options, "--trace", "forecast.json", "--json", cwd=folder).json()
    events = json.loads((folder / "forecast.json").read_text())["traceEvents"]
    for rank, device in enumerate(report["devices"]):
        steps = device["memory"]
        assert max(step["bytes"] for step in steps) == device["peak_bytes"]
        assert min(step["bytes"] for step in steps) == steps[-1]["bytes"] == device["weight_bytes"]
        times = [step["seconds"] for step in steps]
        assert times[0] == 0 and times == sorted(times) and times[-1] <= report["seconds"]
        name = f"memory of rank {rank} ({device['name']})"
        counter = [(event["ts"], event["args"]["bytes"]) for event in events if event["ph"] == "C" and event["name"] == name]
        assert [bytes for _, bytes in counter] == [step["bytes"] for step in steps]
        assert [ts for ts, _ in counter] == pytest.approx([1e6 * time for time in times])
    assert {event["ph"] for event in events} == {"C", "M", "X"}


def test_table(plan):
    lines = cleave("simulate", plan.name, cwd=plan.parent).out.splitlines()
    assert lines[0].startswith("model.plan: gpipe, 1 micro-batch, ") and lines[0].endswith(" ms a step")
    assert lines[2].split() == "device stages busy ms idle ms bubble % weights MB peak MB".split()
    assert [line.split()[0] for line in lines[3:]] == ["cpu:0", "cpu:1", "total"]


def test_a_machine_of_ones_own(model):
    folder = model.parent
    device = {"name": "a", "flops_per_second": 1e9, "memory_bytes_per_second": 1e9, "operator_seconds": 1}
    link = {"latency_seconds": 100, "bytes_per_second": 1e9}
    (folder / "slow.json").write_text(json.dumps({"devices": [device, {**device, "name": "b"}], "link": link}))
    options = (model.name, "--inputs", INPUTS, "--machine", "slow.json")
    report = cleave("simulate", *options, "--json", cwd=folder).json()
    assert len(report["devices"]) == 2 and report["seconds"] > 100 + len(report["stages"])
    cleave("compile", *options, "-o", "new.plan", cwd=folder)
    assert cleave("simulate", "new.plan", "--machine", "slow.json", "--schedule", "auto", "--json", cwd=folder).json() == {
        **report, "notes": []}
    assert [device["name"] for device in report["devices"]] == ["a", "b"]
    assert [stage["devices"] for stage in cleave("inspect", "new.plan", "--json", cwd=folder).json()["stages"]] == [["a"], ["b"]]
    # What the file says counts, and not its name.
    (folder / "slow.json").rename(folder / "other.json")
    cleave("simulate", "new.plan", "--machine", "other.json", cwd=folder)
    (folder / "slow.json").write_text(json.dumps({"devices": [device], "link": link}))
    assert "--machine slow.json: new.plan was compiled for another machine of this name" in refused(
        folder, "simulate", "new.plan", "--machine", "slow.json")


def test_devices_are_called_as_the_machine_calls_them(model):
    options = (model.name, "--inputs", INPUTS, "--machine", "h100:2")
    report = cleave("simulate", *options, "--trace", "forecast.json", "--json", cwd=model.parent).json()
    assert [device["name"] for device in report["devices"]] == ["cuda:0", "cuda:1"]
    assert "cuda:1" in (model.parent / "forecast.json").read_text()


# What cannot be simulated ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options, why", [
    (("--microbatches", 8), "--microbatches 8: model.plan was compiled for 1, and has predictions for that alone; simulate its model"),
    (("--schedule", "interleaved"), "--schedule interleaved: model.plan was compiled for gpipe"),
    (("--machine", "cpu:4"), "--machine cpu:4: model.plan was compiled for cpu:2"),
    (("--trace", "model.plan/t.json"), "--trace model.plan/t.json: is in the plan model.plan"),
    (("--trace", "no/t.json"), "no/t.json"),
])
def test_plans_are_what_they_are(plan, options, why):
    assert why in refused(plan.parent, "simulate", plan.name, *options)


@pytest.mark.parametrize("options, why", [
    (("--schedule", "1f1b"), "--schedule 1f1b: orders backward passes, which plans without --train or --gradients do not have"),
    (("--schedule", "zb-h1"), "--schedule zb-h1: orders backward passes"),
    (("--schedule", "gpip"), "--schedule gpip: not a schedule"),
    (("--dtype", "bf16"), "--dtype: is an option of compilation, and model.plan is compiled already; give its model instead"),
    (("--devices", 2), "--devices: is an option of compilation"),
])
def test_wrong_usage(plan, options, why):
    message = refused(plan.parent, "simulate", plan.name, *options, status=2)
    assert why in message and "see cleave simulate --help" in message


def test_schedules_with_backward_passes_are_refused_without_training(model):
    message = refused(model.parent, "simulate", model.name, "--inputs", INPUTS, "--schedule", "1f1b", status=2)
    assert "--schedule 1f1b: orders backward passes, which plans without --train or --gradients do not have" in message


def test_not_a_model(model):
    folder = model.parent
    (folder / "empty").mkdir()
    assert "no.pt" in refused(folder, "simulate", "no.pt")
    assert "plan.fb" in refused(folder, "simulate", "empty")
    assert INPUTS in refused(folder, "simulate", INPUTS)
    assert "--trace model.pt: is the model" in refused(folder, "simulate", model.name, "--inputs", INPUTS, "--trace", "model.pt")


@pytest.mark.parametrize("at", [0, 100, 2000])
def test_damaged_plans(plan, at):
    path = plan / "plan.fb"
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)
    assert "plan.fb" in refused(plan.parent, "simulate", plan.name)
