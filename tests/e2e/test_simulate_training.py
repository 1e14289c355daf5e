"""`cleave simulate --train`: the forecast of a training step."""

import itertools
import json
import pathlib

import pytest
import torch
from torch import nn

from conftest import cleave, everything_below, refused

INPUTS = "model.inputs.safetensors"


class Lstm(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.LSTM(64, 128, 2)

    def forward(self, x):
        return {"loss": self.body(x)[0].square().mean()}


def build_lstm():
    return Lstm(), torch.linspace(-1, 1, 50 * 8 * 64).reshape(50, 8, 64)


def forecast(model, *options):
    return cleave("simulate", model.name, "--inputs", INPUTS, "--train", *options, "--json", cwd=model.parent).json()


def slowest(stages, kind):
    return max(stage[kind] for stage in stages)


def test_one_device_does_all_passes_and_the_update(model):
    before = everything_below(model.parent)
    report = forecast(model)
    assert everything_below(model.parent) == before
    (stage,), (device,) = report["stages"], report["devices"]
    passes = stage["forward_seconds"] + stage["input_gradient_seconds"] + stage["weight_gradient_seconds"]
    assert report["seconds"] == pytest.approx(passes + stage["update_seconds"], rel=1e-9)
    assert stage["forward_seconds"] < passes < 5 * stage["forward_seconds"]
    # Weights, gradients and two moments, in float32.
    weights = cleave("simulate", model.name, "--inputs", INPUTS, "--json", cwd=model.parent).json()["devices"][0]["weight_bytes"]
    assert device["state_bytes"] == stage["state_bytes"] == pytest.approx(4 * weights, rel=0.01)
    assert device["peak_bytes"] == stage["state_bytes"] + stage["saved_bytes"]
    assert report["mesh"] == {"pp": 1, "dp": 1, "tp": 1} and report["schedule"] == "1f1b"


@pytest.mark.parametrize("name, config", [
    ("gpt2", "n_layer=2,n_embd=256,n_head=4,vocab_size=500,attn_pdrop=0,embd_pdrop=0,resid_pdrop=0"),
    ("LSTM", ""), ("mixtral", "num_hidden_layers=2,hidden_size=128,intermediate_size=256,num_attention_heads=4,num_key_value_heads=2,vocab_size=500")])
def test_backward_passes_are_those_of_the_joint_function(name, config, trace_model, tmp_path):
    """Of a plan, where libtorch dispatches views, too, which forecasts of a step leave out."""
    traced = (trace_model(f"hf:{name}", "--config", config, "--batch", 4, "--seq", 64, "--train") if config else
              trace_model(f"{pathlib.Path(__file__)}:build_lstm", "--train"))
    cleave("compile", traced.path, "--inputs", traced.inputs, "--gradients", "-o", "model.plan", cwd=tmp_path)
    (joint,) = cleave("inspect", "model.plan", "--json", cwd=tmp_path).json()["stages"]
    report = cleave("simulate", traced.path, "--inputs", traced.inputs, "--train", "--json").json()
    assert report["devices"][0]["busy_seconds"] == pytest.approx(joint["predicted_seconds"], rel=0.08)


def test_a_loss_of_parts(trace_model):
    """Data-parallel ranks and micro-batches split a batch whose loss is a mean over it."""
    config = "n_layer=2,n_embd=64,n_head=4,vocab_size=128,attn_pdrop=0,embd_pdrop=0,resid_pdrop=0"
    traced = trace_model("hf:gpt2", "--config", config, "--batch", 8, "--seq", 16, "--train")
    for mesh in ("dp=2", "pp=2,dp=2", "tp=2,dp=2"):
        report = cleave("simulate", traced.path, "--inputs", traced.inputs, "--train", "--mesh", mesh, "--microbatches", 2,
                        "--json").json()
        assert report["mesh"]["dp"] == 2 and report["microbatches"] == 2


@pytest.mark.parametrize("schedule, live", [("gpipe", [2, 2]), ("1f1b", [2, 1]), ("zb-h1", [2, 2])])
def test_schedules_hold_what_their_formulas_say(model, schedule, live):
    report = forecast(model, "--mesh", "pp=2", "--microbatches", 2, "--schedule", schedule)
    assert report["schedule"] == schedule
    for device, stage, count in zip(report["devices"], report["stages"], live):
        least = stage["state_bytes"] + count * stage["saved_bytes"]
        # And what waits to be sent or used.
        assert least <= device["peak_bytes"] < least + stage["saved_bytes"]


@pytest.mark.parametrize("mesh, names", [("pp=2,dp=2", ["cpu:0 to cpu:1", "cpu:2 to cpu:3"]), ("pp=2", ["cpu:0", "cpu:1"])])
@pytest.mark.parametrize("schedule", ["1f1b", "zb-h1", "interleaved"])
def test_the_trace_shows_every_pass_and_the_update(model, schedule, mesh, names):
    options = ["--mesh", mesh, "--microbatches", 2, "--schedule", schedule]
    report = forecast(model, *options, "--trace", "t.json")
    events = json.loads((model.parent / "t.json").read_text())["traceEvents"]
    rows = {event["tid"]: event["args"]["name"] for event in events if event["ph"] == "M"}
    assert [rows[rank] for rank in range(2)] == [f"rank {rank} ({names[rank]})" for rank in range(2)]
    for rank in range(2):
        device = report["devices"][rank * len(report["devices"]) // 2]
        spans = [event for event in events if event["ph"] == "X" and event["tid"] == rank]
        *actions, update = sorted(spans, key=lambda event: event["ts"])
        assert {event["name"] for event in actions if event["name"][0] in "FBW"} == {
            f"{kind}{stage}.{microbatch}" for kind in "FBW" for stage in device["stages"]
            for microbatch in range(report["microbatches"])}
        # To a nanosecond.
        assert sum(event["dur"] for event in actions if event["cat"] == "compute") == pytest.approx(
            1e6 * device["busy_seconds"], abs=0.1)
        assert update["name"] == "update" and update["dur"] == pytest.approx(1e6 * report["update_seconds"], abs=0.1)
        assert update["ts"] + update["dur"] == pytest.approx(1e6 * report["seconds"], abs=0.1)
        held = [event["args"]["bytes"] for event in events if event["ph"] == "C" and event["name"].startswith(f"memory of rank {rank} ")]
        assert max(held) == device["peak_bytes"]


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b", "zb-h1", "interleaved"])
def test_nothing_overlaps_on_one_row_of_the_trace(model, schedule):
    """Over a slow link transfers go on beside passes, and beside each other."""
    machine = put_machine(model.parent, 2, link={"latency_seconds": 1e-4, "bytes_per_second": 1e7})
    forecast(model, "--machine", machine, "--mesh", "pp=2", "--microbatches", 2, "--schedule", schedule, "--trace", "t.json")
    events = json.loads((model.parent / "t.json").read_text())["traceEvents"]
    rows = {event["tid"]: event["args"]["name"] for event in events if event["ph"] == "M"}
    spans = [event for event in events if event["ph"] == "X"]
    assert {event["tid"] for event in spans} == set(rows)
    for tid, name in rows.items():
        own = sorted((event for event in spans if event["tid"] == tid), key=lambda event: event["ts"])
        # Times are of whole nanoseconds.
        assert all(before["ts"] + before["dur"] < after["ts"] + 5e-4 for before, after in itertools.pairwise(own)), name
        kinds = {event["name"][0] for event in own}
        assert kinds == {"S"} if "sends" in name else kinds == {"R"} if "receives" in name else not kinds & {"S", "R"}, (name, kinds)
        rank = next(rank for rank in range(2) if name.startswith(f"rank {rank} (d{rank})"))
        assert rank == tid or tid >= 2 and ("sends" in name or "receives" in name)
    assert {name.rpartition(": ")[2] for name in rows.values()} >= {"sends", "receives"}


def test_several_stages_a_device_mean_a_schedule(model):
    report = forecast(model, "--mesh", "pp=2", "--interleave", 2)
    assert report == forecast(model, "--mesh", "pp=2", "--schedule", "interleaved")
    assert report["schedule"] == "interleaved" and [device["stages"] for device in report["devices"]] == [[0, 2], [1, 3]]


def test_unequal_stages_take_their_formula(model):
    """Huang et al. 2019: forward and backward of one micro-batch, and the slowest stage's of each other; sends overlap, and
    what the link takes comes on top."""
    report = forecast(model, "--mesh", "pp=2", "--microbatches", 2, "--schedule", "gpipe")
    stages = report["stages"]
    for stage in stages:
        stage["backward_seconds"] = stage["input_gradient_seconds"] + stage["weight_gradient_seconds"]
    formula = sum(stage["forward_seconds"] + stage["backward_seconds"] for stage in stages)
    formula += slowest(stages, "forward_seconds") + slowest(stages, "backward_seconds") + slowest(stages, "update_seconds")
    (transfer,) = report["transfers"]
    sent = 5e-6 + transfer["bytes"] / 10e9
    assert formula <= report["seconds"] <= formula + 4 * sent + 1e-12


def test_recomputation_trades_memory_for_time(model):
    none, full = (forecast(model, "--recompute", what) for what in ("none", "full"))
    assert (none["recompute"], full["recompute"]) == ("none", "full")
    (before,), (after,) = none["stages"], full["stages"]
    assert after["saved_bytes"] < before["saved_bytes"] and after["recomputed_bytes"] > before["recomputed_bytes"] == 0
    assert full["devices"][0]["peak_bytes"] < none["devices"][0]["peak_bytes"] and full["seconds"] > none["seconds"]


def test_pipelines_side_by_side_sum_gradients(model):
    one, two = forecast(model), forecast(model, "--mesh", "dp=2")
    assert two["mesh"] == {"pp": 1, "dp": 2, "tp": 1} and len(two["devices"]) == 2
    (whole,), (half,) = one["stages"], two["stages"]
    assert half["state_bytes"] == whole["state_bytes"]
    assert half["saved_bytes"] == pytest.approx(whole["saved_bytes"] / 2, rel=0.1)
    passes = sum(half[kind] for kind in ("forward_seconds", "input_gradient_seconds", "weight_gradient_seconds", "update_seconds"))
    # A quarter of the state is gradients; all-reduced over two ranks at 10 GB/s, a latency.
    assert two["seconds"] == pytest.approx(passes + 5e-6 + whole["state_bytes"] / 4 / 10e9, rel=1e-3)


def test_tensor_ranks_split_state_and_what_is_kept(model):
    one, two, parallel = forecast(model), forecast(model, "--mesh", "tp=2"), forecast(model, "--mesh", "tp=2", "--sequence-parallel")
    assert two["stages"][0]["state_bytes"] < 0.6 * one["stages"][0]["state_bytes"]
    assert parallel["stages"][0]["saved_bytes"] < two["stages"][0]["saved_bytes"] < one["stages"][0]["saved_bytes"]


@pytest.mark.parametrize("options", [(), ("--mesh", "pp=2", "--microbatches", 2, "--schedule", "zb-h1"),
                                     ("--mesh", "pp=2", "--recompute", "full"), ("--mesh", "tp=2")],
                         ids=lambda options: " ".join(map(str, options)))
def test_memory_over_time(model, options):
    report = forecast(model, *options)
    for device in report["devices"]:
        assert max(step["bytes"] for step in device["memory"]) == device["peak_bytes"]
        assert device["memory"][-1]["bytes"] >= device["state_bytes"]
        assert device["memory"][-1]["seconds"] <= report["seconds"] - report["update_seconds"] + 1e-12


def test_the_search_finds_the_best_of_all(model):
    best = forecast(model, "--devices", 2, "--mesh", "auto")
    chosen, *others = best["candidates"]
    assert chosen["reason"] == "" and chosen["seconds"] == pytest.approx(best["seconds"])
    assert all(other["reason"] for other in others)
    for mesh in ("pp=2", "dp=2", "tp=2"):
        for schedule in ("gpipe", "1f1b", "zb-h1", "interleaved") if mesh == "pp=2" else ("1f1b",):
            for recompute in ("none", "full"):
                for microbatches in (1, 2) if mesh != "dp=2" else (1,):
                    other = forecast(model, "--mesh", mesh, "--schedule", schedule, "--recompute", recompute,
                                     "--microbatches", microbatches)
                    assert best["seconds"] <= other["seconds"] * (1 + 1e-9), (mesh, schedule, recompute, microbatches)


def test_memory_decides(model):
    folder = model.parent
    device = {"flops_per_second": 1e11, "memory_bytes_per_second": 1e10, "operator_seconds": 1e-6}
    machine = {"devices": [{"name": name, **device} for name in "ab"], "link": {"latency_seconds": 5e-6, "bytes_per_second": 1e10}}
    (folder / "open.json").write_text(json.dumps(machine))
    need = forecast(model, "--machine", "open.json", "--mesh", "dp=2")["devices"][0]["peak_bytes"]
    for one in machine["devices"]:
        one["memory_bytes"] = need - 1
    (folder / "tight.json").write_text(json.dumps(machine))
    why = refused(folder, "simulate", model.name, "--inputs", INPUTS, "--train", "--machine", "tight.json", "--mesh", "dp=2")
    assert why.endswith(f"takes least memory of what was evaluated, {need} bytes on a device that has {need - 1}; use more devices, or devices with "
                        f"memory for {need} bytes (--device-memory {need}B)"), why
    assert forecast(model, "--machine", "tight.json", "--mesh", "dp=2", "--device-memory", f"{need}B")["mesh"]["dp"] == 2
    report = forecast(model, "--machine", "tight.json", "--mesh", "auto", "--zero", 0)
    assert report["mesh"] != {"pp": 1, "dp": 2, "tp": 1} and report["devices"][0]["peak_bytes"] < need


def test_a_trace_never_replaces_the_model(model):
    assert "--trace model.pt: is the model" in refused(model.parent, "simulate", model.name, "--inputs", INPUTS, "--train", "--trace",
                                                       "model.pt")


def test_table(model):
    lines = cleave("simulate", model.name, "--inputs", INPUTS, "--train", "--mesh", "pp=2", cwd=model.parent).out.splitlines()
    assert lines[0].startswith("model.pt: training, pp=2 dp=1 tp=1, 1f1b, 1 micro-batch, recompute none, ")
    assert lines[2].split() == "devices stages busy ms idle ms bubble % state MB peak MB".split()
    assert [line.split()[:2] for line in lines[3:]] == [["cpu:0", "0"], ["cpu:1", "1"]]


@pytest.mark.parametrize("options, why", [
    (("--schedule", "2f2b"), "--schedule 2f2b: not a schedule of training; use gpipe, 1f1b, interleaved, zb-h1 or auto"),
    (("--recompute", "some"), "--recompute some: found \"some\", expected none, selective, full or auto"),
    (("--schedule", "interleaved", "--interleave", 1), "--interleave 1: expected 2 to 64"),
    (("--interleave", 3, "--schedule", "1f1b"),
     "--interleave 3: --schedule 1f1b has one stage a device; give --schedule interleaved, or leave --interleave out"),
    (("--mesh", "auto", "--schedule", "gpipe", "--interleave", 3), "--interleave 3: --schedule gpipe has one stage a device"),
    (("--mesh", "dp=2", "--devices", 3), "takes 2 devices, but there are 3"),
])
def test_wrong_usage(model, options, why):
    assert why in refused(model.parent, "simulate", model.name, "--inputs", INPUTS, "--train", *options, status=2)


def test_only_with_train(model):
    assert "--train" in refused(model.parent, "simulate", model.name, "--inputs", INPUTS, "--recompute", "full", status=2)


def test_plans_have_no_backward_passes(plan):
    why = refused(plan.parent, "simulate", plan.name, "--train", status=2)
    assert "--train: model.plan is a plan, and --train forecasts models; give its model" in why


def test_more_pipelines_than_samples(model):
    why = refused(model.parent, "simulate", model.name, "--inputs", INPUTS, "--train", "--mesh", "dp=3")
    assert "model.pt: 2 samples, fewer than pipelines; use --mesh dp=2 or less" in why


@pytest.mark.parametrize("options, remedy", [(("--mesh", "pp=1", "--microbatches", 2), "--microbatches 1"), (("--mesh", "dp=2"), "dp=1"),
                                             (("--mesh", "dp=2", "--microbatches", 2), "--microbatches 1 and dp=1")])
def test_a_batch_that_is_not_split(tmp_path, options, remedy):
    """The error says where, and what to do."""
    (tmp_path / "sum.mlir").write_text("""#batch = #cleave.layout<dims = ["batch", "8"]>
func.func @forward(%x: tensor<?x8xf32, #batch>) -> tensor<8xf32> attributes {cleave.symbols = {batch = 8 : i64}} {
  %axis = cleave.constant([0]) : !cleave.list<i64>
  %false = cleave.constant(false) : i1
  %none = cleave.constant(unit) : none
  %0 = aten.sum.dim_IntList(%x, %axis, %false, %none) : (tensor<?x8xf32, #batch>, !cleave.list<i64>, i1, none) -> tensor<8xf32> loc("head.pool")
  return %0 : tensor<8xf32>
}
""")
    why = refused(tmp_path, "simulate", "sum.mlir", "--train", *options)
    assert why == ("error: sum.mlir: aten.sum.dim_IntList at head.pool reduces over dimension batch, so the batch is not split; "
                   f"use {remedy}"), why


def test_micro_batches_are_at_most_the_samples(model):
    report = forecast(model, "--mesh", "pp=2", "--microbatches", 64)
    assert report == forecast(model, "--mesh", "pp=2", "--microbatches", 2) and report["microbatches"] == 2


def test_too_many_devices(model):
    for mesh in ("pp=4000000000", "pp=70000,dp=70000"):
        why = refused(model.parent, "simulate", model.name, "--inputs", INPUTS, "--train", "--mesh", mesh, status=2)
        assert f"--mesh {mesh}: takes " in why and "expected at most 65536" in why


TIED = """func.func @forward(%x: tensor<8x256xf32>) -> tensor<8x256xf32> {
  %w = cleave.param "w" {role = "parameter"} : tensor<256x256xf32>
  %none = cleave.constant(unit) : none
  %0 = aten.linear(%x, %w, %none) : (tensor<8x256xf32>, tensor<256x256xf32>, none) -> tensor<8x256xf32>
  %1 = aten.linear(%0, %w, %none) : (tensor<8x256xf32>, tensor<256x256xf32>, none) -> tensor<8x256xf32>
  return %1 : tensor<8x256xf32>
}
"""


def test_a_weight_of_several_stages_is_there_once_a_device(tmp_path):
    (tmp_path / "tied.mlir").write_text(TIED)
    report = cleave("simulate", "tied.mlir", "--train", "--mesh", "pp=1", "--schedule", "interleaved", "--json", cwd=tmp_path).json()
    assert [stage["state_bytes"] for stage in report["stages"]] == [16 * 256 * 256] * 2
    assert report["devices"][0]["state_bytes"] == 16 * 256 * 256


@pytest.mark.parametrize("options, why", [
    (("--mesh", "pp=1", "--interleave", 9), "2 operators do not fill 9 stages; use --interleave 2"),
    (("--mesh", "pp=2", "--interleave", 2), "2 operators do not fill 4 stages; use --schedule gpipe without --interleave"),
    (("--mesh", "pp=2", "--schedule", "interleaved"),
     "2 operators do not fill 4 stages; use --schedule gpipe without --interleave"),
])
def test_more_stages_than_operators(tmp_path, options, why):
    (tmp_path / "tied.mlir").write_text(TIED)
    assert refused(tmp_path, "simulate", "tied.mlir", "--train", *options).endswith(why)
    advice = options[:2] + (("--schedule", "gpipe") if "gpipe" in why else tuple(why.split()[-2:]))
    cleave("simulate", "tied.mlir", "--train", *advice, cwd=tmp_path)


# Pipelines side by side ------------------------------------------------------------------------------------------------


def put_machine(folder, devices, **more):
    device = {"flops_per_second": 1e11, "memory_bytes_per_second": 1e10, "operator_seconds": 1e-6}
    link = {"latency_seconds": 1e-7, "bytes_per_second": 1e10, **more.pop("link", {})}
    machine = {"devices": [{"name": f"d{index}", **device, **more} for index in range(devices)], "link": link}
    (folder / "machine.json").write_text(json.dumps(machine))
    return "machine.json"


@pytest.mark.parametrize("zero, parts", [(0, {}), (1, {"optimizer"}), (2, {"optimizer", "gradients"}),
                                         (3, {"optimizer", "gradients", "weights"})])
def test_zero_holds_state_in_parts(model, zero, parts):
    """Rajbhandari et al. 2020; in float32, weights and gradients of 4 bytes and moments of 8."""
    weights = forecast(model)["devices"][0]["state_bytes"] / 16 * 4
    report = forecast(model, "--mesh", "dp=2", "--zero", zero)
    assert report["zero"] == zero and report["mesh"]["dp"] == 2
    held = sum(bytes / (2 if name in parts else 1) for name, bytes in
               {"weights": weights, "gradients": weights, "optimizer": 2 * weights}.items())
    # Buffers, which are not trained, stay whole.
    assert report["devices"][0]["state_bytes"] == report["stages"][0]["state_bytes"] == pytest.approx(held, rel=0.01)


def test_zero_trades_memory_for_traffic(model):
    machine = put_machine(model.parent, 2, link={"bytes_per_second": 1e7})
    reports = [forecast(model, "--machine", machine, "--mesh", "dp=2", "--zero", zero) for zero in range(4)]
    state = [report["devices"][0]["state_bytes"] for report in reports]
    assert state == sorted(state, reverse=True) and len(set(state)) == 4
    # Sums over two ranks: an all-reduce of n bytes takes n over the link; at stage 3 half of that more. The rest is
    # the update, of which each does its half, and what computing hides.
    gradients = state[0] / 4
    times = [report["seconds"] for report in reports]
    assert times[1] == pytest.approx(times[0], rel=0.01) and times[2] == pytest.approx(times[0], rel=0.01)
    assert times[3] - times[0] == pytest.approx(gradients / 2 / 1e7, rel=0.1)


def test_what_one_rank_would_share(model):
    """Wrong usage where the mesh is given; where it is searched for there may be others."""
    for options, why in ((("--zero", 3), "--zero 3: nothing to share state with; give --mesh dp=N with N of at least 2, or leave --zero out"),
                         (("--sequence-parallel",),
                          "--sequence-parallel: nothing to split over; give --mesh tp=N with N of at least 2, or leave it out")):
        for mesh in ("pp=2", "pp=auto"):
            assert why in refused(model.parent, "simulate", model.name, "--inputs", INPUTS, "--train", "--mesh", mesh, "--devices", 2,
                                  *options, status=2)
        forecast(model, "--mesh", "auto", "--devices", 2, *options)
    assert forecast(model, "--mesh", "pp=2", "--zero", 0) == forecast(model, "--mesh", "pp=2")


def test_zero_wants_training(model):
    assert "--train" in refused(model.parent, "simulate", model.name, "--inputs", INPUTS, "--zero", 1, status=2)
    for zero in (4, -1):
        assert "--zero" in refused(model.parent, "simulate", model.name, "--inputs", INPUTS, "--train", "--zero", zero, status=2)


DEEP = "\n".join(["func.func @forward(%x: tensor<?x2048xf32, #cleave.layout<dims = [\"batch\", \"2048\"]>>) -> tensor<?x2048xf32, "
                  "#cleave.layout<dims = [\"batch\", \"2048\"]>> attributes {cleave.symbols = {batch = 8 : i64}} {",
                  "  %none = cleave.constant(unit) : none"] +
                 [f"  %w{i} = cleave.param \"h.{i}.w\" {{role = \"parameter\"}} : tensor<2048x2048xf32>\n"
                  f"  %y{i} = aten.linear({'%x' if i == 0 else f'%y{i - 1}'}, %w{i}, %none) : "
                  "(tensor<?x2048xf32, #cleave.layout<dims = [\"batch\", \"2048\"]>>, tensor<2048x2048xf32>, none) -> "
                  f"tensor<?x2048xf32, #cleave.layout<dims = [\"batch\", \"2048\"]>> loc(\"h.{i}\")" for i in range(8)] +
                 ["  return %y7 : tensor<?x2048xf32, #cleave.layout<dims = [\"batch\", \"2048\"]>>", "}", ""])


@pytest.fixture
def deep(tmp_path):
    """Eight layers with more gradients than a bucket holds each two."""
    (tmp_path / "deep.mlir").write_text(DEEP)
    return tmp_path


def forecast_deep(folder, *options):
    return cleave("simulate", "deep.mlir", "--train", *options, "--json", cwd=folder).json()


@pytest.mark.parametrize("microbatches", [1, 4])
def test_sums_begin_before_the_last_backward_pass_ends(deep, microbatches):
    """Li et al. 2020: a bucket of 25 MB is summed while the layers before it go on."""
    layer, layers, rate = 4 * 2048 * 2048, 8, 1e10
    machine = put_machine(deep, 2, link={"latency_seconds": 0, "bytes_per_second": rate})
    report = forecast_deep(deep, "--machine", machine, "--mesh", "dp=2", "--microbatches", microbatches)
    (stage,) = report["stages"]
    exposed = report["update_seconds"] - stage["update_seconds"]
    # Two layers fill a bucket; a layer's passes take the same, but for the first one's, whose input has no gradient.
    bucket = 2 * layer / rate
    own = stage["weight_gradient_seconds"] / layers + stage["input_gradient_seconds"] / (layers - 1)
    end = stage["weight_gradient_seconds"] + stage["input_gradient_seconds"]
    summed = 0
    for index in range(4):
        summed = max(summed, min((2 * index + 2) * own, end)) + bucket
    assert exposed == pytest.approx(summed - end, rel=1e-6)
    assert bucket <= exposed * (1 + 1e-6) and exposed < 4 * bucket


def test_the_search_finds_the_best_of_all_with_zero(deep):
    """Of four devices, or fewer."""
    machine = put_machine(deep, 4)
    fixed = ("--schedule", "1f1b", "--recompute", "none")
    best = forecast_deep(deep, "--machine", machine, "--mesh", "auto", *fixed)
    evaluated = {(one["mesh"], one["schedule"], one["microbatches"]): one for one in best["candidates"]}
    found = {}
    for pp, dp, tp in itertools.product((1, 2, 4), repeat=3):
        if pp * dp * tp > 4:
            continue
        for microbatches in (1, 2, 4, 8):
            if microbatches * dp > 8:
                continue
            for zero in range(4) if dp > 1 else (0,):
                mesh = f"pp={pp},dp={dp},tp={tp}"
                report = forecast_deep(deep, "--machine", machine, "--devices", pp * dp * tp, "--mesh", mesh, *fixed,
                                       "--microbatches", microbatches, "--zero", zero)
                found[mesh, "1f1b, recompute none" + (f", zero {zero}" if zero else ""), microbatches] = report["seconds"]
    assert set(evaluated) == set(found)
    assert best["seconds"] == pytest.approx(min(found.values()), rel=1e-9)
    for key, seconds in found.items():
        assert evaluated[key]["seconds"] <= seconds * (1 + 1e-6)
    # The least stage of those that take the same.
    same = [key for key, seconds in found.items() if seconds <= best["seconds"] * (1 + 1e-12) and key[0] == best["candidates"][0]["mesh"]]
    assert best["zero"] == min(int(schedule[-1]) if "zero" in schedule else 0 for _, schedule, _ in same)


def test_zero_is_kept_where_it_is_fixed(deep):
    machine = put_machine(deep, 2)
    for zero in (0, 2):
        report = forecast_deep(deep, "--machine", machine, "--mesh", "dp=auto", "--zero", zero, "--recompute", "none")
        assert {("zero 2" in one["schedule"]) for one in report["candidates"] if "dp=2" in one["mesh"]} == {zero == 2}
        assert not [one for one in report["candidates"] if "zero 1" in one["schedule"] or "zero 3" in one["schedule"]]


def test_memory_decides_how_far_zero_goes(deep):
    options = ("--mesh", "dp=2", "--microbatches", 1)
    needs, times = [], []
    for zero in range(4):
        report = forecast_deep(deep, "--machine", put_machine(deep, 2), *options, "--zero", zero)
        needs.append(report["devices"][0]["peak_bytes"])
        times.append(report["seconds"])
    assert needs == sorted(needs, reverse=True)
    options = ("--mesh", "dp=auto,pp=1", "--microbatches", 1, "--recompute", "none", "--schedule", "1f1b")
    for zero in (1, 2, 3):
        machine = put_machine(deep, 2, memory_bytes=needs[zero])
        report = forecast_deep(deep, "--machine", machine, *options)
        best = min(range(zero, 4), key=lambda one: times[one])
        assert (report["zero"], report["devices"][0]["peak_bytes"], report["seconds"]) == (best, needs[best], times[best])


def test_fewer_pipelines_than_devices(deep):
    # Sums over this link take longer than the passes.
    machine = put_machine(deep, 4, link={"latency_seconds": 1e-3, "bytes_per_second": 1e6})
    report = forecast_deep(deep, "--machine", machine, "--mesh", "auto")
    assert report["mesh"] == {"pp": 1, "dp": 1, "tp": 1} and len(report["devices"]) == 1
    (note,) = report["notes"]
    assert note.startswith("1 of the 4 devices is used: with all of them, pp=") and " longer by estimate" in note
    # All of them where that is faster.
    report = forecast_deep(deep, "--machine", put_machine(deep, 4, link={"latency_seconds": 0, "bytes_per_second": 1e12}), "--mesh", "auto")
    assert len(report["devices"]) == 4 and report["notes"] == []


def test_a_step_that_never_ends(tmp_path):
    """Times of traces are nanoseconds in 64 bits."""
    (tmp_path / "model.mlir").write_text("""func.func @forward(%x: tensor<512x2048xf32>) -> tensor<512x2048xf32> {
  %w = cleave.param "w" {role = "parameter"} : tensor<2048x2048xf32>
  %none = cleave.constant(unit) : none
  %0 = aten.linear(%x, %w, %none) : (tensor<512x2048xf32>, tensor<2048x2048xf32>, none) -> tensor<512x2048xf32>
  %1 = aten.linear(%0, %w, %none) : (tensor<512x2048xf32>, tensor<2048x2048xf32>, none) -> tensor<512x2048xf32>
  return %1 : tensor<512x2048xf32>
}
""")
    device = {"name": "d0", "flops_per_second": 1, "memory_bytes_per_second": 1e10, "operator_seconds": 0}
    (tmp_path / "machine.json").write_text(json.dumps({"devices": [device], "link": {"latency_seconds": 0, "bytes_per_second": 1}}))
    for more in ((), ("--trace", "t.json")):
        line = refused(tmp_path, "simulate", "model.mlir", "--train", "--machine", "machine.json", *more)
        assert "model.mlir: predicts more than 1e9 seconds in all; use a --machine whose devices and links are faster" in line
    assert not (tmp_path / "t.json").exists()
