"""`--mesh auto`: the mesh that is expected to take least time, why the others lost, and IR as a model."""

import itertools
import json

import pytest
from conftest import cleave, contents, refused

INPUTS = ("--inputs", "model.inputs.safetensors")
# On which products take long, sums little, and messages what a test says.
DEVICE = {"flops_per_second": 2e9, "memory_bytes_per_second": 1e10, "operator_seconds": 1e-6}
QUICK, SLOW, SLOWER = 1e-6, 4e-5, 2e-4


# A search leaves the batch open, and so are those it is compared with.
OPEN = ("--dynamic", "input_ids=batch,_")


def put_machine(folder, devices, latency=QUICK, **more):
    """The name of a machine file; all its devices have `more`."""
    machine = {"devices": [{"name": f"d{index}", **DEVICE, **more} for index in range(devices)],
               "link": {"latency_seconds": latency, "bytes_per_second": 1e10}}
    (folder / "machine.json").write_text(json.dumps(machine))
    return "machine.json"


def simulate(model, *options):
    inputs = () if model.suffix == ".mlir" else INPUTS
    return cleave("simulate", model.name, *inputs, *options, "--json", cwd=model.parent).json()


def configuration(mesh, schedule, microbatches):
    return ("--mesh", mesh, "--schedule", schedule, "--microbatches", microbatches)


def devices_of(mesh):
    pp, tp = (int(axis.partition("=")[2]) for axis in mesh.split(","))
    return pp * tp


def one_by_one(model, machine, devices):
    """Seconds of each configuration, by what a search says of it."""
    counts = [count for count in range(1, devices + 1) if devices % count == 0]
    found = {}
    for pp, tp, schedule, microbatches in itertools.product(counts, counts, ("gpipe", "interleaved"), (1, 2)):
        if pp * tp > devices or (pp == 1 and schedule == "interleaved"):
            continue
        mesh = f"pp={pp},tp={tp}"
        options = ("--machine", machine, "--devices", pp * tp, *OPEN)
        report = simulate(model, *options, *configuration(mesh, schedule, microbatches))
        found[mesh, schedule, microbatches] = report["seconds"]
    return found


@pytest.mark.parametrize("devices, latency", [(2, SLOW), (3, QUICK), (4, QUICK), (4, SLOW), (4, SLOWER)])
def test_nothing_takes_less(model, devices, latency):
    machine = put_machine(model.parent, devices, latency)
    report = simulate(model, "--mesh", "auto", "--machine", machine)
    chosen = report["candidates"][0]
    every = one_by_one(model, machine, devices)
    key = chosen["mesh"], chosen["schedule"], chosen["microbatches"]
    assert report["seconds"] == every[key] == min(every.values())
    # All that there is was evaluated, once, and nothing was thought to take less than it does by more than what an exact cut gains.
    evaluated = {(one["mesh"], one["schedule"], one["microbatches"]): one for one in report["candidates"]}
    assert len(evaluated) == len(report["candidates"]) and set(evaluated) == set(every)
    for key, one in evaluated.items():
        if one["reason"].startswith("takes at least"):
            assert one["seconds"] <= every[key] * (1 + 1e-9), key
        else:
            assert one["seconds"] == pytest.approx(every[key], rel=0.03), key


def test_candidates(model):
    report = simulate(model, "--mesh", "auto", "--machine", put_machine(model.parent, 4))
    chosen, *others = report["candidates"]
    for one in report["candidates"]:
        assert set(one) == {"mesh", "schedule", "microbatches", "seconds", "peak_bytes", "reason"}
    assert chosen["reason"] == "" and all(one["reason"].startswith("takes ") for one in others)
    assert (chosen["mesh"], chosen["schedule"], chosen["microbatches"]) == ("pp=1,tp=4", "gpipe", 1)
    assert report["microbatches"] == 1 and report["schedule"] == "gpipe" and len(report["devices"]) == 4
    assert chosen["seconds"] == pytest.approx(report["seconds"]) and chosen["peak_bytes"] > 0
    estimated = [one["seconds"] for one in others if not one["reason"].startswith("takes at least")]
    assert len(estimated) > 1 and estimated == sorted(estimated)
    # What is not searched for has none.
    assert simulate(model, "--mesh", "pp=2,tp=2")["candidates"] == []


def test_table(model):
    machine = put_machine(model.parent, 4)
    text = cleave("simulate", model.name, *INPUTS, "--mesh", "auto", "--machine", machine, cwd=model.parent).out
    head, *rows = text.split("\n\n")[-1].splitlines()
    assert head.split() == "mesh schedule micro-batches ms a step peak MB".split()
    # The best of each mesh and schedule.
    assert len({tuple(row.split()[:2]) for row in rows}) == len(rows) == 9
    assert rows[0].startswith("pp=1,tp=4") and rows[0].endswith("chosen")
    assert all(" % longer" in row for row in rows[1:])
    # What was only bounded has no peak.
    assert all(("at least" in row) == (row.split()[4] == "-") for row in rows)


def test_it_is_the_same_every_time(model):
    options = ("simulate", model.name, *INPUTS, "--mesh", "auto", "--machine", put_machine(model.parent, 4), "--json")
    assert cleave(*options, cwd=model.parent).out == cleave(*options, cwd=model.parent).out


# What is fixed --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mesh, allowed", [
    ("pp=auto,tp=2", {"pp=1,tp=2", "pp=2,tp=2"}),
    ("pp=auto", {"pp=1,tp=1", "pp=2,tp=1", "pp=4,tp=1"}),
    ("pp=2,tp=auto", {"pp=2,tp=1", "pp=2,tp=2"}),
    ("tp=auto", {"pp=1,tp=1", "pp=1,tp=2", "pp=1,tp=4"}),
])
def test_axes_that_are_fixed(model, mesh, allowed):
    report = simulate(model, "--mesh", mesh, "--machine", put_machine(model.parent, 4))
    assert {one["mesh"] for one in report["candidates"]} == allowed


def test_a_schedule_and_micro_batches_that_are_fixed(model):
    options = ("--mesh", "auto", "--machine", put_machine(model.parent, 4))
    report = simulate(model, *options, "--schedule", "interleaved")
    assert {one["schedule"] for one in report["candidates"] if "pp=1" not in one["mesh"]} == {"interleaved"}
    report = simulate(model, *options, "--microbatches", 2)
    assert {one["microbatches"] for one in report["candidates"]} == {2} and report["microbatches"] == 2
    report = simulate(model, *options, "--schedule", "gpipe", "--microbatches", 1)
    assert {(one["schedule"], one["microbatches"]) for one in report["candidates"]} == {("gpipe", 1)}


def test_stages_begin_where_asked(model):
    fixed = ("--stage-before", "transformer.h.1")
    machine = put_machine(model.parent, 2)
    options = ("--mesh", "pp=2,tp=auto", "--schedule", "gpipe", "--machine", machine, *fixed)
    report = simulate(model, *options)
    chosen = report["candidates"][0]
    assert {one["mesh"] for one in report["candidates"]} == {"pp=2,tp=1"}
    same = simulate(model, "--machine", machine, *fixed, *configuration("pp=2,tp=1", "gpipe", chosen["microbatches"]))
    free = simulate(model, "--machine", machine, *configuration("pp=2,tp=1", "gpipe", chosen["microbatches"]))
    assert same["stages"] == report["stages"] != free["stages"]
    # One stage alone cannot begin there, though it takes least otherwise.
    options = ("--mesh", "auto", "--microbatches", 1, "--machine", put_machine(model.parent, 2, SLOWER))
    assert simulate(model, *options)["candidates"][0]["mesh"] == "pp=1,tp=1"
    whole = next(one for one in simulate(model, *options, *fixed)["candidates"] if one["mesh"] == "pp=1,tp=1")
    assert "--stage-before" in whole["reason"]
    assert "--stage-before transformer.h.9: no module of this path does work" in refused(
        model.parent, "simulate", model.name, *INPUTS, "--mesh", "auto", "--machine", machine, "--stage-before", "transformer.h.9")


@pytest.mark.parametrize("options", [(), ("--train",), ("--device-memory", "1KB")])
def test_a_model_without_operators(tmp_path, options):
    (tmp_path / "empty.mlir").write_text("func.func @forward(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {\n  return %x : tensor<4x8xf32>\n}\n")
    line = refused(tmp_path, "simulate", "empty.mlir", "--mesh", "auto", "--devices", 2, *options)
    assert line.endswith("a model without operators needs no plan"), line


def test_devices_are_left_unused_with_a_reason(model):
    report = simulate(model, "--mesh", "auto", "--machine", put_machine(model.parent, 4, SLOWER))
    assert report["candidates"][0]["mesh"] == "pp=1,tp=1" and len(report["devices"]) == 1
    others = [one for one in report["candidates"] if devices_of(one["mesh"]) == 4 and "at least" not in one["reason"]]
    best = min(others, key=lambda one: one["seconds"])
    assert f"1 of the 4 devices is used: with all of them, {best['mesh']} {best['reason']} by estimate" in report["notes"]
    # All are used where that is best, and nothing is said.
    report = simulate(model, "--mesh", "auto", "--machine", put_machine(model.parent, 4))
    assert len(report["devices"]) == 4 and not [note for note in report["notes"] if "devices" in note]


# Memory ---------------------------------------------------------------------------------------------------------------


def test_what_has_no_room_is_not_chosen(model):
    folder = model.parent
    free = simulate(model, "--mesh", "auto", "--machine", put_machine(folder, 4, SLOWER))
    needed = free["devices"][0]["peak_bytes"]
    report = simulate(model, "--mesh", "auto", "--machine", put_machine(folder, 4, SLOWER, memory_bytes=needed - 1))
    assert report["candidates"][0]["mesh"] != "pp=1,tp=1"
    assert all(device["peak_bytes"] < needed for device in report["devices"])
    whole = [one for one in report["candidates"] if one["mesh"] == "pp=1,tp=1" and one["microbatches"] == 1]
    assert f"{needed - 1}" in whole[0]["reason"] and "bytes" in whole[0]["reason"]
    assert whole[0]["seconds"] == whole[0]["peak_bytes"] == 0
    # A limit that it keeps to changes nothing.
    report = simulate(model, "--mesh", "auto", "--machine", put_machine(folder, 4, SLOWER, memory_bytes=needed))
    assert report["candidates"][0] == free["candidates"][0]


def test_no_mesh_has_room(model):
    machine = put_machine(model.parent, 4, memory_bytes=10_000)
    message = refused(model.parent, "simulate", model.name, *INPUTS, "--mesh", "auto", "--machine", machine)
    assert "model.pt: no mesh of 4 devices keeps within 10000 bytes of each; pp=" in message


# Plans ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("latency", [QUICK, SLOWER], ids=["tensor-parallel ranks", "one device"])
def test_a_plan_for_it_runs(model, latency):
    folder = model.parent
    options = (model.name, *INPUTS, "--mesh", "auto", "--machine", put_machine(folder, 2, latency))
    report = cleave("compile", *options, "--verify", "--json", "-o", "new.plan", cwd=folder).json()
    forecast = cleave("simulate", *options, "--json", cwd=folder).json()
    notes = [note for note in report["notes"] if not note.startswith("verified against the trace alone")]  # Of --verify.
    assert report["candidates"] == forecast["candidates"] and notes == forecast["notes"]
    assert report["error"] <= report["allowed"]
    # A plan remembers what was evaluated.
    assert cleave("simulate", "new.plan", "--json", cwd=folder).json() == {**forecast, "notes": []}
    assert cleave("inspect", "new.plan", "--json", cwd=folder).json()["candidates"] == forecast["candidates"]
    table = cleave("simulate", *options, cwd=folder).out.split("\n\n")[-1]
    assert f"\n\n{table}\n" in cleave("inspect", "new.plan", cwd=folder).out
    cleave("run", "new.plan", *INPUTS, "--devices", ",".join(f"cpu:{index}" for index in range(len(forecast["devices"]))), cwd=folder)


def test_it_is_the_plan_of_the_mesh_itself(model):
    """But for what was evaluated, which is the same bytes each time, wherever the model is."""
    folder = model.parent
    machine = ("--machine", put_machine(folder, 2, memory_bytes=800_000))
    text = cleave("compile", model.name, *INPUTS, "--mesh", "auto", *machine, "-o", "new.plan", cwd=folder).out
    assert "chosen" in text
    cleave("compile", model.name, *INPUTS, "--mesh", "pp=1,tp=2", *OPEN, *machine, "-o", "same.plan", cwd=folder)
    found, same = (cleave("inspect", name, "--json", cwd=folder).json() for name in ("new.plan", "same.plan"))
    for key in ("candidates", "alternatives"):
        assert found.pop(key) and not same.pop(key)
    assert found.pop("root_checksum") != same.pop("root_checksum") and found == same
    files = {name: content for name, content in contents(folder / "new.plan").items() if "plan.fb" not in str(name)}
    assert files == {name: content for name, content in contents(folder / "same.plan").items() if "plan.fb" not in str(name)}
    (folder / "elsewhere").mkdir()
    (folder / "model.pt").rename(folder / "elsewhere/other.pt")
    cleave("compile", "elsewhere/other.pt", *INPUTS, "--mesh", "auto", *machine, "-o", "again.plan", cwd=folder)
    assert contents(folder / "new.plan") == contents(folder / "again.plan")


# What cannot be searched ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options, why", [
    (("--mesh", "auto,pp=2"), '--mesh auto,pp=2: found "auto", expected auto alone, or pp=N, dp=N or tp=N'),
    (("--mesh", "dp=auto"), "--mesh dp=auto: found dp=auto, expected a number: dp is searched for in training alone; use dp=N, "
     "with pp=auto or tp=auto"),
    (("--mesh", "pp=auto,pp=2"), "--mesh pp=auto,pp=2: pp is given twice"),
    (("--mesh", "pp=auto,dp=3", "--devices", 2), "--mesh pp=auto,dp=3: found 2 devices, expected more for this mesh"),
    (("--mesh", "tp=auto", "--schedule", "1f1b"), "--schedule 1f1b: orders backward passes"),
    (("--mesh", "pp=3,tp=auto", "--devices", 2), "--mesh pp=3,tp=auto: found 2 devices, expected more for this mesh"),
])
@pytest.mark.parametrize("command", ["simulate", "compile"])
def test_wrong_usage(model, command, options, why):
    output = ("-o", "new.plan") if command == "compile" else ()
    message = refused(model.parent, command, model.name, *INPUTS, *options, *output, status=2)
    assert why in message and f"see cleave {command} --help" in message


def test_a_model_that_no_mesh_takes(model):
    (model.parent / "model.pt").write_bytes(b"no model")
    assert "model.pt" in refused(model.parent, "simulate", model.name, *INPUTS, "--mesh", "auto", "--devices", 2)


# IR -------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def ir(model):
    """The model as it is imported, with a batch of any size."""
    folder = model.parent
    cleave("compile", model.name, *INPUTS, "--microbatches", 2, "--devices", 2, "--emit-ir", "ir", "-o", "new.plan", cwd=folder)
    return (folder / "ir/01-strip-boundaries.mlir").rename(folder / "model.mlir")


@pytest.mark.parametrize("options", [("--devices", 1), ("--mesh", "pp=2,tp=2", "--microbatches", 2), ("--mesh", "auto", "--devices", 4)],
                         ids=lambda options: " ".join(map(str, options)))
def test_ir_is_simulated_as_its_model(model, ir, options):
    assert simulate(ir, *options) == simulate(model, *options)


def test_ir_has_no_weights_to_compile(ir):
    message = refused(ir.parent, "compile", ir.name, "-o", "other.plan", status=2)
    assert "model.mlir: found IR, which has no weights, expected a TorchScript file; IR can be simulated" in message


@pytest.mark.parametrize("options", [INPUTS, ("--input", "input_ids:i64[2,16]"), ("--dynamic", "input_ids=batch"),
                                     ("--role", "input_ids=tokens")], ids=lambda options: options[0])
def test_ir_says_what_its_inputs_are(ir, options):
    message = refused(ir.parent, "simulate", ir.name, *options, status=2)
    assert f"{options[0]}: says what a TorchScript file leaves open, and model.mlir is IR" in message


FUNCTION = """func.func @{}(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {{
  %y = aten.relu(%x) : (tensor<2x4xf32>) -> tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}}
"""
ONE = FUNCTION.format("f")


@pytest.mark.parametrize("text, why", [
    ("func.func @f(", "model.mlir"),
    (ONE.replace("aten.relu", "aten.rleu"), "model.mlir"),
    ("", "model.mlir: found no function, expected a function, as --emit-ir writes it before it is split"),
    ("func.func private @f(tensor<2x4xf32>)", "model.mlir: found a function without a body, expected a function"),
    (ONE.replace(" {", " attributes {cleave.tp = 2 : i64} {"), "model.mlir: found one that is split already"),
], ids=["half", "unknown operator", "empty", "no body", "split"])
def test_bad_ir(tmp_path, text, why):
    (tmp_path / "model.mlir").write_text(text)
    assert why in refused(tmp_path, "simulate", "model.mlir")


def test_ir_that_is_split_already(ir):
    (stages,) = (ir.parent / "ir").glob("*-split-stages.mlir")
    assert "split-stages.mlir: found one that is split already" in refused(ir.parent, "simulate", f"ir/{stages.name}")


def test_a_function_is_enough(tmp_path):
    (tmp_path / "model.mlir").write_text(ONE)
    report = simulate(tmp_path / "model.mlir", "--mesh", "auto", "--devices", 2)
    assert report["candidates"][0]["mesh"] == "pp=1,tp=1" and "1 of the 2 devices is used" in report["notes"][0]
    assert refused(tmp_path, "simulate", "no.mlir") == ("error: no.mlir: cannot be read: No such file or directory; give IR, as "
                                                        "--emit-ir writes it")


TOWERS = """func.func @forward(%x: tensor<8x512xf32>) -> (tensor<8x512xf32>, tensor<8x512xf32>) {
  %none = cleave.constant(unit) : none
  %a = cleave.param "a" {role = "parameter"} : tensor<512x512xf32>
  %b = cleave.param "b" {role = "parameter"} : tensor<512x512xf32>
  %0 = aten.linear(%x, %a, %none) : (tensor<8x512xf32>, tensor<512x512xf32>, none) -> tensor<8x512xf32>
  %1 = aten.linear(%x, %b, %none) : (tensor<8x512xf32>, tensor<512x512xf32>, none) -> tensor<8x512xf32>
  return %0, %1 : tensor<8x512xf32>, tensor<8x512xf32>
}
"""


def test_branches_run_side_by_side(tmp_path):
    """A bound along a chain that is none would leave two devices out."""
    (tmp_path / "towers.mlir").write_text(TOWERS)
    chosen, alone = simulate(tmp_path / "towers.mlir", "--mesh", "pp=auto", "--devices", 2, "--schedule", "gpipe")["candidates"]
    assert (chosen["mesh"], alone["mesh"]) == ("pp=2,tp=1", "pp=1,tp=1")
    assert chosen["seconds"] < 0.6 * alone["seconds"]


def test_a_pattern_that_matches_nothing(model):
    why = refused(model.parent, "simulate", model.name, *INPUTS, "--mesh", "auto", "--devices", 2, "--shard", "zz=colwise")
    assert "--shard zz: matches no weight" in why
    why = refused(model.parent, "simulate", model.name, *INPUTS, "--mesh", "pp=auto", "--devices", 2, "--shard", "*.c_fc=colwise", status=2)
    assert "nothing to split over" in why


def test_lines_of_texts_that_do_not_parse(tmp_path):
    (tmp_path / "broken.mlir").write_text(TOWERS.replace("%1 = aten", "%1 aten"))
    assert "broken.mlir: line 6: " in refused(tmp_path, "simulate", "broken.mlir")
    (tmp_path / "sizes.mlir").write_text(TOWERS.replace(") {\n", ") attributes {cleave.symbols = {batch = 0 : i64}} {\n", 1))
    assert "found another size of batch than expected, an i64 from 1 to 2147483647" in refused(tmp_path, "simulate", "sizes.mlir")
