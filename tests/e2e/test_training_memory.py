"""Training over meshes where memory is short: what errors name is enough, and what is chosen is the fastest."""

import re
import subprocess

import pytest
from conftest import BIN, cleave
from test_simulate_training import INPUTS, put_machine


def least_of(folder, limit, *options):
    """What an error names that a limit leads to; nothing where there is a forecast."""
    done = subprocess.run(list(map(str, [BIN / "cleave", "simulate", *options, "--train", "--device-memory", limit])), cwd=folder,
                          capture_output=True, text=True)
    assert done.returncode in (0, 1)
    if done.returncode == 0:
        return None
    found = re.search(r"takes least memory of what was evaluated, (\d+) bytes on a device that has (\d+); use more devices", done.stderr)
    assert found and int(found[2]) == limit, done.stderr
    return int(found[1])


@pytest.mark.parametrize("mesh", ["tp=2", "pp=2,tp=2", "dp=2,tp=2", "auto"])
def test_the_memory_that_an_error_names_is_enough_for_tensor_ranks(model, mesh):
    """Weights that would stay whole where they alone have room are split where training has none."""
    options = (model.name, "--inputs", INPUTS, "--mesh", mesh, *(("--devices", 4) if mesh == "auto" else ()))
    enough = least_of(model.parent, 1000, *options)
    assert least_of(model.parent, enough, *options) is None
    for share in (30, 60, 90, 97):
        assert least_of(model.parent, enough * share // 100, *options) == enough


def put_linears(folder, inputs, layers, outputs):
    """
    inputs: rows and columns by name.
    layers: by name, what it reads (an input or another layer) and its columns.
    """
    shapes, lines = dict(inputs), ["%none = cleave.constant(unit) : none"]

    def typed(shape):
        return f"tensor<{shape[0]}x{shape[1]}xf32>"

    for name, (source, columns) in layers.items():
        read, weight, made = shapes[source], (columns, shapes[source][1]), (shapes[source][0], columns)
        shapes[name] = made
        lines += [f'%w{name} = cleave.param "{name}" {{role = "parameter"}} : {typed(weight)}',
                  f"%{name} = aten.linear(%{source}, %w{name}, %none) : ({typed(read)}, {typed(weight)}, none) -> {typed(made)}"]
    takes = ", ".join(f"%{name}: {typed(shape)}" for name, shape in inputs.items())
    gives = ", ".join(typed(shapes[name]) for name in outputs)
    lines.append(f"return {', '.join('%' + name for name in outputs)} : {gives}")
    (folder / "model.mlir").write_text(f"func.func @forward({takes}) -> ({gives}) {{\n  " + "\n  ".join(lines) + "\n}\n")


def test_a_slower_cut_where_the_fastest_takes_more(tmp_path):
    """The fastest one has both large weights in one stage, which program order does not."""
    put_linears(tmp_path, {"x": (64, 1024), "y": (2048, 256)}, {"a": ("x", 1024), "b": ("y", 256), "c": ("x", 1024)}, "abc")
    options = ("model.mlir", "--mesh", "pp=2", "--machine", put_machine(tmp_path, 2, memory_bytes_per_second=1e13))
    fastest = cleave("simulate", *options, "--train", "--json", cwd=tmp_path).json()
    enough = least_of(tmp_path, 1000, *options)
    slower = cleave("simulate", *options, "--train", "--device-memory", enough, "--json", cwd=tmp_path).json()
    most, least = (max(device["peak_bytes"] for device in report["devices"]) for report in (fastest, slower))
    assert least == enough < 0.7 * most and slower["seconds"] > fastest["seconds"]
    assert least_of(tmp_path, enough - 1, *options) == enough


def test_no_mesh_that_is_given_is_faster_within_a_limit(tmp_path):
    """Weights that stay whole where the forward pass has room are split where training has none, also beside a slower mesh."""
    put_linears(tmp_path, {"x": (4, 1024), "y": (8192, 256)}, {"a": ("x", 1024), "c": ("a", 1024), "b": ("y", 256)}, "cb")
    put_machine(tmp_path, 2, link={"latency_seconds": 1e-3})

    def seconds(mesh, limit):
        return cleave("simulate", "model.mlir", "--train", "--machine", "machine.json", "--mesh", mesh, "--devices", 2, "--zero", 0,
                      "--recompute", "none", "--device-memory", limit, "--json", cwd=tmp_path).json()["seconds"]

    assert seconds("auto", "36MB") <= seconds("tp=2", "36MB") < 0.7 * seconds("pp=2", "36MB")


def test_a_step_is_as_fast_as_was_estimated(tmp_path):
    """Of two chains, the slowest stage is the fastest with one operator of each, which wait for each other then."""
    put_linears(tmp_path, {"x": (64, 512)}, {"a": ("x", 1024), "b": ("a", 256), "c": ("x", 512), "d": ("c", 512)}, "bd")
    put_machine(tmp_path, 2)
    report = cleave("simulate", "model.mlir", "--train", "--machine", "machine.json", "--mesh", "pp=2,tp=1,dp=auto", "--microbatches", 1,
                    "--json", cwd=tmp_path).json()
    assert report["seconds"] <= report["candidates"][0]["seconds"] * (1 + 1e-9)
