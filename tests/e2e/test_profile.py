"""`cleave profile`: the file holds what was measured, and compile takes it. Never how fast anything is."""

import json
import os
import pathlib
import subprocess
import time

import pytest
import torch
from conftest import BIN, cleave, everything_below, refused

COLLECTIVES = ["all_gather", "all_reduce", "all_to_all", "broadcast", "reduce_scatter"]


@pytest.fixture(scope="module")
def machine(tmp_path_factory):
    """A machine of two devices, measured for a moment."""
    path = tmp_path_factory.mktemp("machine") / "machine.json"
    cleave("profile", "--quick", "--rounds", 2, "--devices", "cpu:0,cpu:1", "-o", path)
    return path


def rates_in(value):
    """All rates of the tables below, with their places."""
    for key, inner in value.items():
        if key in ("flops_per_second", "bytes_per_second") and isinstance(inner, list):
            yield key, inner
        elif isinstance(inner, dict):
            yield from ((f"{key}.{place}", rates) for place, rates in rates_in(inner))


def test_what_is_measured(machine):
    found = json.loads(machine.read_text())
    assert [device["name"] for device in found["devices"]] == ["cpu:0", "cpu:1"]
    assert set(found["products"]) == {"matrix", "pointwise", "convolution", "strided", "attention"}
    assert set(found["products"]["matrix"]) == {"float32", "bfloat16"}
    assert {"aten.gelu", "aten.layer_norm"} < set(found["operators"])
    assert sorted(found["collectives"]) == COLLECTIVES
    assert {entry["ranks"] for entry in found["collectives"].values()} == {2}
    assert sum(device["memory_bytes"] for device in found["devices"]) <= os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    tables = dict(rates_in(found))
    assert all(rate > 0 for rates in tables.values() for rate in rates) and len(tables) > 20
    assert found["devices"][0]["flops_per_second"] == max(tables["products.matrix.float32.flops_per_second"])


def test_one_device_has_no_one_to_exchange_with(tmp_path):
    report = cleave("profile", "--quick", "--json", "-o", tmp_path / "machine.json")
    found = json.loads((tmp_path / "machine.json").read_text())
    assert report.json() == found and not report.err
    assert [device["name"] for device in found["devices"]] == ["cpu:0"] and "collectives" not in found


class Pointwise(torch.nn.Module):
    """Which libtorch multiplies in place on one thread, and copies into blocks on more."""
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(*[torch.nn.Conv2d(64, 64, 1) for _ in range(3)])

    def forward(self, x):
        return self.layers(x)


def test_peaks_are_those_of_the_threads(compiler):
    peaks = {}
    for threads in (1, 2):
        environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
        cleave("profile", "--quick", "-o", "one.json", cwd=compiler.folder, env=environment)
        assert json.loads((compiler.folder / "one.json").read_text())["devices"][0]["threads"] == threads
        compiler.compile(Pointwise(), "--machine", "one.json", x=torch.rand(4, 64, 64, 64))
        [expected] = cleave("simulate", "model.plan", "--json", cwd=compiler.folder).json()["devices"]
        [found] = cleave("run", "model.plan", "--inputs", "model.inputs.safetensors", "--json", cwd=compiler.folder,
                         env=environment).json()["devices"]
        assert 0.98 * found["peak_bytes"] <= expected["peak_bytes"] <= 1.05 * found["peak_bytes"]
        peaks[threads] = found["peak_bytes"]
    assert peaks[2] > 1.3 * peaks[1]


def test_only_devices_have_threads(tmp_path):
    """Those of OpenMP wait asleep, which takes longer, where a process has more of them than cores."""
    def most_threads(threads):
        process = subprocess.Popen([BIN / "cleave", "profile", "--quick", "-o", "machine.json"], cwd=tmp_path,
                                   env={**os.environ, "OMP_NUM_THREADS": str(threads)}, stdout=subprocess.DEVNULL)
        most = 0
        while process.poll() is None:
            most = max(most, len([*pathlib.Path(f"/proc/{process.pid}/task").iterdir()]))
            time.sleep(0.01)
        assert process.returncode == 0
        return most

    assert most_threads(3) == most_threads(1) + 2


@pytest.mark.parametrize("mesh", ["pp=2", "tp=2"])
def test_compile_predicts_by_it(model, machine, mesh):
    def seconds(name):
        cleave("compile", model.name, "--inputs", "model.inputs.safetensors", "--machine", name, "--mesh", mesh, "-o",
               "new.plan", cwd=model.parent)
        return [stage["predicted_seconds"] for stage in cleave("inspect", "new.plan", "--json", cwd=model.parent).json()["stages"]]

    measured = seconds(machine)
    assert all(each > 0 for each in measured) and measured != seconds("cpu:2")
    # The same kernels at half the rate, and everything else free, take twice as long.
    found = json.loads(machine.read_text())
    for factor in (1, 2):
        for device in found["devices"]:
            device["operator_seconds"] = 0
        found["link"] = {"latency_seconds": 0, "bytes_per_second": 1e21}
        for kind in found["collectives"].values():
            kind["latency_seconds"] = 0
        for _, rates in rates_in(found):
            rates[:] = [rate / 2 for rate in rates]
        (model.parent / f"by{factor}.json").write_text(json.dumps(found))
    assert seconds("by2.json") == pytest.approx([2 * each for each in seconds("by1.json")], rel=1e-6)


@pytest.mark.parametrize("arguments, status, message", [
    ((), 2, "--output is required"),
    (("-o", ""), 2, "found an empty name"),
    (("-o", "a.json", "--rounds", "0"), 2, "--rounds: found \"0\", expected a whole number from 1 to 1000"),
    (("-o", "a.json", "--devices", "gpu:0"), 2, "did you mean cpu:0?"),
    (("-o", "a.json", "--devices", "cpu:1,cpu:0,cpu:1"), 2, "--devices cpu:1,cpu:0,cpu:1: cpu:1 is given twice; give each once"),
    (("-o", "a.json", "--devices", "cuda:99"), 1, "device cuda:99: "),
    (("-o", "a.json", "--devices", "cuda"), 2, "did you mean cuda:0"),
    (("-o", "no/such/folder/a.json"), 1, "no/such/folder"),
    (("-o", "folder"), 1, "no regular file"),
    (("-o", "a.json", "a.plan"), 2, "a.plan: one more argument than it takes"),
], ids=lambda value: " ".join(value) if isinstance(value, tuple) else "")
def test_what_is_refused(tmp_path, arguments, status, message):
    (tmp_path / "folder").mkdir()
    assert message in refused(tmp_path, "profile", "--quick", *arguments, status=status)


def test_an_older_file_stays_until_there_is_another(tmp_path):
    (tmp_path / "machine.json").write_text("old")
    refused(tmp_path, "profile", "--devices", "cuda:99", "-o", "machine.json")
    assert [*everything_below(tmp_path)] == ["machine.json"] and (tmp_path / "machine.json").read_text() == "old"
