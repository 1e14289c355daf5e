"""Training over pipeline stages: three steps as PyTorch's, the same bits by every schedule, and whole checkpoints."""

import json

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn
from torch.nn import functional

from conftest import cleave, refused
from training_architectures import MODELS, MORE, check_same, compiled, trained

pytestmark = pytest.mark.usefixtures("one_thread")

SCHEDULES = {"gpipe": ("--schedule", "gpipe"), "1f1b": ("--schedule", "1f1b"), "zb-h1": ("--schedule", "zb-h1")}


@pytest.mark.parametrize("model", [*MODELS, *MORE])
def test_three_steps_are_those_of_pytorch(model, training_model, tmp_path):
    given = training_model(model)
    for mesh in "pp=2", "pp=3,tp=2":
        done = cleave("compile", given.path, "--inputs", given.inputs, "--train", "--mesh", mesh, "--clip-norm", 1, "--verify", "-o",
                      tmp_path / "plan")
        assert "same as the original" in done.out


@pytest.mark.parametrize("options", [("--microbatches", "4"), ("--microbatches", "4", "--schedule", "gpipe"),
                                     ("--microbatches", "4", "--schedule", "zb-h1"), ("--microbatches", "4", "--recompute", "full"),
                                     ("--microbatches", "4", "--schedule", "interleaved"), ("--recompute", "minimum-cut"),
                                     ("--optimizer", "sgd(momentum=0.9, nesterov=true)"), ("--trainable", "*.h.1.*")])
def test_options(options, training_model, tmp_path):
    model = training_model("hf:gpt2")
    done = cleave("compile", model.path, "--inputs", model.inputs, "--train", "--mesh", "pp=2", *options, "--verify", "-o",
                  tmp_path / "plan")
    assert "same as the original" in done.out


@pytest.mark.parametrize("model, mesh", [("hf:gpt2", "pp=4,tp=3"), ("hf:mixtral", "pp=2")])
def test_what_is_recomputed_may_go_over_stages(model, mesh, training_model, tmp_path):
    """A layer that a cut goes through, with lists among its operands."""
    given = training_model(model)
    done = cleave("compile", given.path, "--inputs", given.inputs, "--train", "--mesh", mesh, "--microbatches", 2, "--recompute",
                  "full", "--verify", "-o", tmp_path / "plan")
    assert "same as the original" in done.out


@pytest.mark.parametrize("model, mesh", [("hf:gpt2", "pp=2"), ("hf:mixtral", "pp=3"), ("hf:t5", "pp=2,tp=2")])
def test_schedules_give_the_same_bits(model, mesh, training_model, tmp_path):
    given = training_model(model)
    found = {name: trained(compiled(given, tmp_path, "--mesh", mesh, "--microbatches", "4", *options, name=f"{name}.plan"), given.inputs)
             for name, options in SCHEDULES.items()}
    for other in found.values():
        assert other[0]["losses"] == found["gpipe"][0]["losses"]
        assert other[0]["gradient_norms"] == found["gpipe"][0]["gradient_norms"]
        assert all(torch.equal(value, found["gpipe"][1][name]) for name, value in other[1].items())
    alone = trained(compiled(given, tmp_path, "--microbatches", "4", name="alone.plan"), given.inputs)
    check_same(found["1f1b"], alone)


@pytest.mark.parametrize("options", [("--mesh", "pp=2"), ("--mesh", "pp=3", "--microbatches", "4", "--schedule", "gpipe"),
                                     ("--mesh", "pp=2", "--microbatches", "4"), ("--mesh", "pp=2,tp=2", "--microbatches", "2"),
                                     ("--mesh", "pp=2", "--microbatches", "4", "--schedule", "zb-h1"),
                                     ("--mesh", "pp=2", "--microbatches", "4", "--recompute", "full")])
def test_peaks_are_predicted(options, training_model, tmp_path):
    """Of each rank, with the micro-batches that its schedule has in flight."""
    model = training_model("hf:gpt2")
    plan = compiled(model, tmp_path, *options)
    stages = cleave("inspect", plan, "--json").json()["stages"]
    # Threads hold what they give each other until the others have read it, for longer on a busy machine: the least of some trainings.
    runs = [[device["peak_bytes"] for device in trained(plan, model.inputs)[0]["devices"]] for _ in range(5)]
    measured = [min(peaks) for peaks in zip(*runs)]
    # There is a figure for each stage and tensor-parallel rank; the first ranks have the outputs, too.
    width = len(measured) // len(stages)
    for index, stage in enumerate(stages):
        assert stage["predicted_peak_bytes"] == pytest.approx(measured[index * width], rel=0.03), (index, stages, runs)


# Of rank r of p = 4 with m = 8 micro-batches and v chunks a rank: micro-batches (of interleaved stages, chunks) whose forward
# pass has begun and whose weights' gradients are not there yet. Narayanan et al. 2021 (1F1B, interleaved), Qi et al. 2024 (ZB-H1).
LIVE = {"gpipe": lambda r: 8, "1f1b": lambda r: min(4 - r, 8), "zb-h1": lambda r: 4,
        "interleaved": lambda r: min(8 * 2, (2 - 1) * 4 + 2 * (4 - 1 - r) + 1)}


@pytest.mark.parametrize("schedule", LIVE)
def test_live_activations_are_those_of_the_schedule(schedule, trace_model, tmp_path):
    """As the trace of a run has them."""
    config = "vocab_size=64,n_embd=16,n_layer=8,n_head=2,n_positions=16"
    model = trace_model("hf:gpt2", "--config", config, "--batch", 8, "--seq", 8, "--train")
    plan = compiled(model, tmp_path, "--mesh", "pp=4", "--microbatches", 8, "--schedule", schedule)
    step = {"random_key": torch.tensor(1), "sample_index": torch.arange(8), "learning_rate": torch.tensor(1e-3),
            "step": torch.tensor(1.0)}
    save_file(load_file(model.inputs) | step, tmp_path / "inputs.safetensors")
    cleave("run", plan, "--inputs", tmp_path / "inputs.safetensors", "--trace", tmp_path / "trace.json")
    events = [event for event in json.loads((tmp_path / "trace.json").read_text())["traceEvents"] if event["ph"] == "X"]
    for rank in range(4):
        own = sorted((event["ts"], event["args"]["action"]) for event in events if event["tid"] == rank)
        live = [0]
        for _, action in own:
            live.append(live[-1] + {"Forward": 1, "BackwardWeight": -1}.get(action, 0))
        assert max(live) == LIVE[schedule](rank) and live[-1] == 0, (rank, live)


@pytest.mark.parametrize("options", [(), ("--schedule", "1f1b", "--microbatches", 2), ("--device-memory", "250KB"),
                                     ("--recompute", "full")])
def test_the_mesh_that_the_forecast_chooses(options, trace_model, tmp_path):
    config = "vocab_size=64,n_embd=16,n_layer=3,n_head=2,n_positions=16,attn_pdrop=0,embd_pdrop=0,resid_pdrop=0"
    model = trace_model("hf:gpt2", "--config", config, "--batch", 4, "--seq", 8, "--train")
    common = (model.path, "--inputs", model.inputs, "--devices", 4, *options)
    done = cleave("compile", *common, "--train", "--mesh", "auto", "--verify", "-o", tmp_path / "plan")
    assert "same as the original" in done.out
    plan = cleave("inspect", tmp_path / "plan", "--json").json()
    recompute = () if "--recompute" in options else ("--recompute", "auto")
    forecast = cleave("simulate", *common, *recompute, "--train", "--mesh", "pp=auto,tp=auto", "--zero", 0, "--json").json()
    assert plan["mesh"] == forecast["mesh"] and plan["candidates"] == forecast["candidates"]
    # One device has no order of stages.
    if plan["mesh"]["pp"] > 1:
        assert (plan["schedule"], plan["microbatches"]) == (forecast["schedule"], forecast["microbatches"])


def test_a_limit_of_memory_holds_on_each_stage(trace_model, tmp_path):
    """Here the first stage fits without recomputation, and the others do not."""
    config = "n_layer=6,n_embd=64,n_head=4,vocab_size=50,n_positions=64"
    model = trace_model("hf:gpt2", "--config", config, "--batch", 8, "--seq", 64, "--train")
    options = ("--mesh", "pp=3", "--schedule", "gpipe", "--microbatches", 4)

    def peaks(plan):
        return [stage["predicted_peak_bytes"] for stage in cleave("inspect", plan, "--json").json()["stages"]]

    free = peaks(compiled(model, tmp_path, *options, name="free.plan"))
    limit = (free[0] + min(free[1:])) // 2
    assert free[0] < limit < min(free[1:])
    done = cleave("compile", model.path, "--inputs", model.inputs, "--train", *options, "--device-memory", f"{limit}B", "-o",
                  tmp_path / "limited.plan")
    assert "recomputes what is cheap (minimum-cut)" in done.out
    assert max(peaks(tmp_path / "limited.plan")) <= limit


def test_the_mesh_is_chosen_without_what_forecasts_do_not_know(training_model, tmp_path):
    model = training_model("hf:gpt2")
    done = cleave("compile", model.path, "--inputs", model.inputs, "--train", "--mesh", "auto", "--devices", 2, "--recompute",
                  "minimum-cut", "-o", tmp_path / "plan")
    assert "chosen as if nothing were recomputed: forecasts do not know --recompute minimum-cut" in done.out + done.err
    done = cleave("compile", model.path, "--inputs", model.inputs, "--train", "--mesh", "auto", "--devices", 2, "--optimizer", "sgd",
                  "-o", tmp_path / "plan")
    assert "chosen as if Adam updated all weights" in done.out + done.err


def test_checkpoints_are_whole(training_model, tmp_path):
    """Of one mesh, resumed on another: a tied weight has one optimizer state in the file, two in the stages."""
    model = training_model("hf:gpt2")
    meshes = "pp=1", "pp=2", "pp=2,tp=2"
    plans = [compiled(model, tmp_path, "--mesh", mesh, "--optimizer", "sgd(momentum=0.9)", name=f"{mesh}.plan") for mesh in meshes]
    alone, *split = [trained(plan, model.inputs, "--checkpoint", plan.with_suffix(".checkpoint")) for plan in plans]
    for found in split:
        check_same(found, alone)
    kept = [{name: value.shape for name, value in load_file(plan.with_suffix(".checkpoint")).items()} for plan in plans]
    assert kept[1:] == [kept[0]] * 2
    whole = trained(plans[1], model.inputs, steps=8)
    again = trained(plans[1], model.inputs, "--checkpoint", plans[1].with_suffix(".checkpoint"), "--resume", steps=8)
    assert all(torch.equal(value, again[1][name]) for name, value in whole[1].items())
    check_same(trained(plans[2], model.inputs, "--checkpoint", plans[0].with_suffix(".checkpoint"), "--resume", steps=8),
               (again[0], whole[1]))


class Named(nn.Module):
    """Names that a state of a stage would have: a tied weight `w` has the sums `grad.w@0` and `grad.w@1`."""

    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.randn(16, 16) * 0.3)
        for name in "w@0", "w@1":
            self.register_parameter(name, nn.Parameter(torch.randn(16, 16) * 0.3))
        for name in "loss", "loss@0", "loss@1":
            self.register_buffer(name, torch.ones(16))

    def forward(self, x, labels):
        hidden = torch.tanh(torch.tanh(x @ self.w) @ getattr(self, "w@0"))
        with torch.no_grad():
            for name in "loss", "loss@0", "loss@1":
                getattr(self, name).mul_(0.5 + hidden.detach().mean(0))
        hidden = torch.tanh(hidden @ self.w) * getattr(self, "loss@0") + getattr(self, "loss")
        return {"loss": functional.cross_entropy(torch.tanh(hidden @ getattr(self, "w@1")) @ self.w, labels)}


def named():
    torch.manual_seed(0)
    return Named().train(), {"x": torch.randn(8, 16), "labels": torch.randint(0, 16, (8,))}


@pytest.mark.parametrize("mesh", ["pp=1", "pp=2"])
def test_names_of_the_model_stay_apart(mesh, trace_model, tmp_path):
    """From the sums and optimizer states that stages keep, also in checkpoints."""
    model = trace_model(f"{__file__}:named", "--train")
    done = cleave("compile", model.path, "--inputs", model.inputs, "--train", "--mesh", mesh, "--verify", "-o", tmp_path / "m.plan")
    assert "same as the original" in done.out
    whole = trained(tmp_path / "m.plan", model.inputs, steps=6)
    trained(tmp_path / "m.plan", model.inputs, "--checkpoint", tmp_path / "kept", steps=3)
    assert {f"state/{name}" for name in ("loss", "loss@0", "loss@1")} <= set(load_file(tmp_path / "kept"))
    again = trained(tmp_path / "m.plan", model.inputs, "--checkpoint", tmp_path / "kept", "--resume", steps=6)
    assert whole[1].keys() == again[1].keys()
    assert all(torch.equal(value, again[1][name]) for name, value in whole[1].items())


def test_all_stages_skip_what_is_not_finite(training_model, tmp_path):
    """A loss that is not finite, known to the last stage alone, changes no weight of the first."""
    model = training_model("hf:gpt2")
    plan = compiled(model, tmp_path, "--mesh", "pp=2", "--optimizer", "sgd")
    before = trained(plan, model.inputs, steps=1, lr=0)[1]
    done = cleave("train", plan, "--data", model.inputs, "--steps", 6, "--lr", 1e30, "--skip-nonfinite", "--output",
                  tmp_path / "after.safetensors", "--json").json()
    after = load_file(tmp_path / "after.safetensors")
    assert before.keys() == after.keys() and done["skipped_steps"]
    assert all(value.isfinite().all() for value in after.values())


@pytest.mark.parametrize("options, said", [
    (("--mesh", "pp=2", "--schedule", "fast"), "not a schedule of training; use gpipe, 1f1b, interleaved, zb-h1 or auto"),
    (("--mesh", "pp=200"), "stages")])
def test_refused(options, said, training_model, tmp_path):
    model = training_model("hf:gpt2")
    status = 2 if "--schedule" in options else 1
    assert said in refused(tmp_path, "compile", model.path, "--inputs", model.inputs, "--train", *options, "-o", tmp_path / "plan",
                           status=status)
