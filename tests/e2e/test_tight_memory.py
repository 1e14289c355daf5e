"""`--device-memory` where it is short: what is chosen, how much would do, and that what an error names does."""

import itertools
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from conftest import BIN
from test_mesh_search import DEVICE, INPUTS, OPEN, QUICK, SLOWER, configuration, put_machine, simulate


def entries_of(model, limits, *options):
    """What `simulate` says of each limit, of which the first one is enough for anything."""
    return simulate(model, "--device-memory", ",".join(map(str, limits)), *options)["limits"]


def limits_of(model, *options):
    """Such that the fastest plan has no room, down to half of what some plan takes."""
    most = max(device["peak_bytes"] for device in simulate(model, *options)["devices"])
    return [100 * most, most - 1, *(most * share // 16 for share in (14, 12, 10, 8, 6))]


def fitting(report, limit):
    """What is not refused keeps to the limit."""
    assert "error" in report or all(device["peak_bytes"] <= limit for device in report["devices"]), (report, limit)
    return "error" not in report


def one_by_one(model, machine, devices, limits):
    """For each limit the seconds of each configuration that keeps to it."""
    counts = [count for count in range(1, devices + 1) if devices % count == 0]
    found = [{} for _ in limits]
    for pp, tp, schedule, microbatches in itertools.product(counts, counts, ("gpipe", "interleaved"), (1, 2)):
        if pp * tp > devices or (pp == 1 and schedule == "interleaved"):
            continue
        mesh = f"pp={pp},tp={tp}"
        options = ("--machine", machine, "--devices", pp * tp, *OPEN, *configuration(mesh, schedule, microbatches))
        for limit, report, seconds in zip(limits, entries_of(model, limits, *options), found):
            if fitting(report, limit):
                seconds[mesh, schedule, microbatches] = report["seconds"]
    return found


@pytest.mark.parametrize("latency", [QUICK, SLOWER])
def test_nothing_that_has_room_takes_less(model, latency):
    machine = put_machine(model.parent, 4, latency)
    limits = limits_of(model, "--mesh", "auto", "--machine", machine)
    every = one_by_one(model, machine, 4, limits)
    chosen = set()
    for limit, report, seconds in zip(limits, entries_of(model, limits, "--mesh", "auto", "--machine", machine), every):
        assert ("error" in report) == (not seconds), (limit, report.get("error"), seconds)
        if not seconds:
            continue
        assert fitting(report, limit)
        first = report["candidates"][0]
        key = first["mesh"], first["schedule"], first["microbatches"]
        assert report["seconds"] == seconds[key] == min(seconds.values()), (limit, key, seconds)
        chosen.add(key)
    # Limits matter, where one device alone is fastest.
    assert len(chosen) > 1 or latency == QUICK


def put_heterogeneous_machine(folder, memory):
    machine = {"devices": [{"name": f"d{index}", **DEVICE, "memory_bytes": bytes_} for index, bytes_ in enumerate(memory)],
               "link": {"latency_seconds": QUICK, "bytes_per_second": 1e10}}
    (folder / "heterogeneous.json").write_text(json.dumps(machine))
    return "heterogeneous.json"


def report_of(model, *options):
    """Nothing where memory is short."""
    command = [BIN / "cleave", "simulate", model.name, *INPUTS, *options, "--json"]
    done = subprocess.run(list(map(str, command)), cwd=model.parent, capture_output=True, text=True)
    assert done.returncode in (0, 1)
    return None if done.returncode else json.loads(done.stdout)


@pytest.mark.parametrize("small", [0, 1], ids=["the first is small", "the second is small"])
@pytest.mark.parametrize("share", [13, 9, 5])
def test_nothing_takes_less_that_each_of_heterogeneous_devices_has_room_for(model, small, share):
    alone = simulate(model, "--devices", 1)["devices"][0]["peak_bytes"]
    memory = [100 * alone, 100 * alone]
    memory[small] = alone * share // 16
    machine = put_heterogeneous_machine(model.parent, memory)
    seconds = {}
    meshes = ("pp=1,tp=1", "pp=2,tp=1", "pp=1,tp=2")
    for mesh, schedule, microbatches in itertools.product(meshes, ("gpipe", "interleaved"), (1, 2)):
        if schedule == "interleaved" and "pp=2" not in mesh:
            continue
        options = ("--devices", 1) if mesh == "pp=1,tp=1" else ()
        report = report_of(model, "--machine", machine, *options, *OPEN, *configuration(mesh, schedule, microbatches))
        peaks = [device["peak_bytes"] for device in report["devices"]] if report else []
        if report and all(peak <= room for peak, room in zip(peaks, memory)):
            seconds[mesh, schedule, microbatches] = report["seconds"]
    report = report_of(model, "--machine", machine, "--mesh", "auto")
    assert report
    assert all(device["peak_bytes"] <= room for device, room in zip(report["devices"], memory))
    first = report["candidates"][0]
    key = first["mesh"], first["schedule"], first["microbatches"]
    assert report["seconds"] == seconds[key] == min(seconds.values())


def error_of(model, limit, *options):
    inputs = () if model.suffix == ".mlir" else INPUTS
    command = [BIN / "cleave", "simulate", model.name, *inputs, "--device-memory", limit, *options]
    done = subprocess.run(list(map(str, command)), cwd=model.parent, capture_output=True, text=True)
    assert done.returncode in (0, 1)
    return done.stderr if done.returncode else None


@pytest.mark.parametrize("devices, mesh, options", [
    (4, "auto", ()), (4, "pp=auto", ()), (4, "auto", ("--microbatches", 1)), (4, "pp=2,tp=2", ()), (4, "pp=4", ()),
    (2, "pp=2", ("--microbatches", 2)), (4, "pp=1,tp=4", ()), (2, "pp=2", ("--schedule", "interleaved")),
], ids=lambda value: " ".join(map(str, value)) if isinstance(value, tuple) else str(value))
def test_the_memory_that_an_error_names_is_enough_and_hardly_less_is(model, devices, mesh, options):
    options = ("--mesh", mesh, *options, "--machine", put_machine(model.parent, devices))
    why = error_of(model, 10_000, *options)
    enough = int(re.search(r"devices with memory for (\d+)", why)[1])
    assert "10000" in why
    assert error_of(model, enough, *options) is None
    again = error_of(model, enough * 98 // 100, *options)
    assert again and int(re.search(r"devices with memory for (\d+)", again)[1]) == enough


def put_llama(folder, sizes):
    script = Path(__file__).parents[1] / "bench" / "llama_ir.py"
    path = folder / "model.mlir"
    path.write_text(subprocess.run([sys.executable, script, *sizes.split()[1::2]], capture_output=True, text=True, check=True).stdout)
    return path


def test_the_same_memory_is_named_a_byte_below_it(tmp_path):
    """The mesh that takes least is estimated to fit then, with less in it than plans have, and is evaluated all the same."""
    model = put_llama(tmp_path, "layers 2 hidden 32 feed_forward 128 heads 4 kv_heads 2 sequence 16 vocabulary 200 batch 8")

    def named(limit):
        return int(re.search(r"devices with memory for (\d+)", error_of(model, f"{limit}B", "--mesh", "auto", "--machine", "cpu:4"))[1])

    enough = named(2000)
    assert named(enough - 1) == enough


@pytest.fixture
def grouped_queries(tmp_path):
    """Six heads that share two of keys and values: of four tensor-parallel ranks the second and the fourth hold most."""
    return put_llama(tmp_path, "layers 2 hidden 384 feed_forward 256 heads 6 kv_heads 2 sequence 16 vocabulary 128 batch 4")


@pytest.mark.parametrize("mesh", ["pp=1,tp=4", "pp=2,tp=4", "dp=2,tp=4"])
def test_the_memory_that_an_error_names_is_enough_for_all_tensor_ranks(grouped_queries, mesh):
    machine = put_machine(grouped_queries.parent, 8 if "p=2" in mesh else 4)
    options = ("--mesh", mesh, "--machine", machine)
    peaks = [device["peak_bytes"] for device in simulate(grouped_queries, *options)["devices"]]
    assert peaks[0] < max(peaks)
    enough = int(re.search(r"devices with memory for (\d+)", error_of(grouped_queries, 10_000, *options))[1])
    assert enough <= max(peaks)
    assert error_of(grouped_queries, enough, *options) is None
    assert f"devices with memory for {enough}" in error_of(grouped_queries, enough * 98 // 100, *options)


def test_no_plan_is_made_to_be_refused(model):
    """Making plans takes most of the time: what keeps to no limit is known before."""
    options = ("--mesh", "auto", "--machine", put_machine(model.parent, 4, SLOWER))
    most = max(device["peak_bytes"] for device in simulate(model, *options)["devices"])
    report = simulate(model, *options, "--device-memory", most * 3 // 4)
    reasons = [one["reason"] for one in report["candidates"]]
    assert not any("at its peak" in reason for reason in reasons)


# Branches ------------------------------------------------------------------------------------------------------------------
# The best cuts are none along program order, so that estimates know of no cut.

WIDTHS = {"a": 240, "b": 400, "c": 160}


def put_branches(folder):
    """Three layers beside each other."""
    gives = ", ".join(f"tensor<8x{width}xf32>" for width in WIDTHS.values())
    weights = "".join(f'  %{name} = cleave.param "{name}" {{role = "parameter"}} : tensor<{width}x256xf32>\n'
                      for name, width in WIDTHS.items())
    layers = "".join(f"  %r{name} = aten.linear(%x, %{name}, %none) : (tensor<8x256xf32>, tensor<{width}x256xf32>, none) -> "
                     f"tensor<8x{width}xf32>\n" for name, width in WIDTHS.items())
    (folder / "branches.mlir").write_text(
        f"func.func @forward(%x: tensor<8x256xf32>) -> ({gives}) {{\n  %none = cleave.constant(unit) : none\n{weights}{layers}"
        f"  return {', '.join('%r' + name for name in WIDTHS)} : {gives}\n}}\n")


def put_batched_branches(folder):
    """… in micro-batches, each layer summed, so that many of a few samples need little beside weights."""
    whole = 'tensor<?x{0}xf32, #cleave.layout<dims = ["batch", "{0}"]>>'
    total = 'tensor<?xf32, #cleave.layout<dims = ["batch"]>>'
    gives = ", ".join([total] * len(WIDTHS))
    lines = ["%none = cleave.constant(unit) : none", "%f = cleave.constant(false) : i1",
             "%d = cleave.constant([1]) : !cleave.list<i64>",
             *(f'%{name} = cleave.param "{name}" {{role = "parameter"}} : tensor<{width}x256xf32>'
               for name, width in WIDTHS.items())]
    for name, width in WIDTHS.items():
        made = whole.format(width)
        lines += [f"%r{name} = aten.linear(%x, %{name}, %none) : ({whole.format(256)}, tensor<{width}x256xf32>, none) -> {made}",
                  f"%s{name} = aten.sum.dim_IntList(%r{name}, %d, %f, %none) : ({made}, !cleave.list<i64>, i1, none) -> {total}"]
    (folder / "batched.mlir").write_text(
        f'func.func @forward(%x: {whole.format(256)} {{cleave.name = "x"}}) -> ({gives}) '
        "attributes {cleave.symbols = {batch = 64 : i64}} {\n  " + "\n  ".join(lines) +
        f"\n  return {', '.join('%s' + name for name in WIDTHS)} : {gives}\n}}\n")


@pytest.mark.parametrize("name, put", [("branches", put_branches), ("batched", put_batched_branches)])
def test_meshes_of_cuts_in_another_order(tmp_path, name, put):
    """A mesh that has a plan when it is given is chosen where it is the fastest, with the micro-batches that make it fit."""
    put(tmp_path)
    device = {"flops_per_second": 2e9, "memory_bytes_per_second": 1e10, "operator_seconds": 1e-6}
    (tmp_path / "machine.json").write_text(json.dumps({
        "devices": [{"name": f"d{index}", **device} for index in range(2)],
        "link": {"latency_seconds": 1e-3, "bytes_per_second": 1e10}}))

    def simulated(mesh, limit, status=0):
        command = [BIN / "cleave", "simulate", f"{name}.mlir", "--machine", "machine.json", "--json", "--schedule", "gpipe",
                   "--mesh", mesh, "--microbatches", "auto", "--device-memory", str(limit)]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == status, done.stderr
        return json.loads(done.stdout) if status == 0 else done.stderr

    given, chosen = simulated("pp=2", 440000), simulated("auto", 440000)
    assert chosen["seconds"] <= given["seconds"] and len(chosen["devices"]) == 2
    # What is named is enough, and a byte less is not.
    for mesh in ("pp=2", "auto"):
        least = int(re.search(r"with memory for (\d+) bytes \(--device-memory \1B\)$", simulated(mesh, 100000, status=1).strip())[1])
        assert least <= 440000
        simulated(mesh, least)
        simulated(mesh, least - 1, status=1)


class Skip(torch.nn.Module):
    """The first stage's values go to the last one, too, and wait there for what comes by the second."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.third, self.last = (
            torch.nn.Linear(*widths) for widths in ((16, 256), (256, 16), (16, 256), (256, 256)))

    def forward(self, x):
        early = self.first(x).relu()
        return self.last(self.third(self.second(early).relu()).relu()) + early


def test_values_that_wait_for_a_later_stage_have_room(tmp_path):
    torch.manual_seed(0)
    x = torch.randn(4, 512, 16)
    torch.jit.trace(Skip().eval(), x).save(tmp_path / "skip.pt")
    model = tmp_path / "skip.pt"
    options = ("--input", "x:f32[4,512,16]", "--dynamic", "x=batch,_,_", "--mesh", "pp=3", "--microbatches", 4, "--stage-before", "second",
               "--stage-before", "last")

    def say(limit):
        command = [BIN / "cleave", "simulate", model, *map(str, options), "--device-memory", f"{limit}B", "--json"]
        return subprocess.run(command, capture_output=True, text=True)

    enough = int(re.search(r"devices with memory for (\d+)", say(1).stderr)[1])
    peak = max(device["peak_bytes"] for device in json.loads(say(enough).stdout)["devices"])
    assert peak == enough
    assert f"devices with memory for {enough}" in say(enough - 1).stderr
