"""Training over tensor-parallel ranks: losses, weights and checkpoints as on one device, and the collectives of Megatron-LM."""

import re

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn
from torch.nn import functional

from conftest import cleave, refused
from training_architectures import MODELS, MORE, check_same, compiled, trained

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.mark.parametrize("model", [*MODELS, *MORE])
def test_three_steps_are_those_of_pytorch(model, training_model, tmp_path):
    given = training_model(model)
    for mesh in "tp=2", "tp=3":
        done = cleave("compile", given.path, "--inputs", given.inputs, "--train", "--mesh", mesh, "--clip-norm", 1, "--verify", "-o",
                      tmp_path / "plan")
        assert "same as the original" in done.out


@pytest.mark.parametrize("options", [("--microbatches", "2"), ("--recompute", "full"), ("--recompute", "minimum-cut"),
                                     ("--shard", "*.wte=replicate"), ("--shard", "*.c_fc=rowwise"),
                                     ("--optimizer", "sgd(momentum=0.9, nesterov=true)"), ("--trainable", "*.c_*")])
def test_options(options, training_model, tmp_path):
    model = training_model("hf:gpt2")
    done = cleave("compile", model.path, "--inputs", model.inputs, "--train", "--mesh", "tp=2", *options, "--verify", "-o",
                  tmp_path / "plan")
    assert "same as the original" in done.out


def test_scores_beyond_what_is_tried_on_zeros(trace_model, tmp_path):
    """Their operators have types without being run."""
    config = "n_layer=1,n_embd=16,n_head=2,vocab_size=40000,attn_pdrop=0,embd_pdrop=0,resid_pdrop=0"
    model = trace_model("hf:gpt2", "--config", config, "--batch", 8, "--seq", 128, "--train")
    stages = cleave("inspect", compiled(model, tmp_path, "--mesh", "tp=2"), "--json").json()["stages"]
    assert stages[0]["predicted_peak_bytes"] > 8 * 128 * 20000 * 4


def test_weights_and_checkpoints_are_whole(training_model, tmp_path):
    model = training_model("hf:gpt2")
    # Adam's step is as large as others where a gradient is 0 but for rounding.
    plans = [compiled(model, tmp_path, "--mesh", mesh, "--optimizer", "sgd(momentum=0.9)", name=f"{mesh}.plan")
             for mesh in ("tp=1", "tp=2", "tp=4")]
    alone, *split = [trained(plan, model.inputs, "--checkpoint", plan.with_suffix(".checkpoint")) for plan in plans]
    for found in split:
        check_same(found, alone)
    kept = [load_file(plan.with_suffix(".checkpoint")) for plan in plans]
    assert [{name: value.shape for name, value in one.items()} for one in kept[1:]] == [
        {name: value.shape for name, value in kept[0].items()}] * 2
    # The bits of a training that went on, whatever shards it began with.
    whole = trained(plans[1], model.inputs, steps=8)
    again = trained(plans[1], model.inputs, "--checkpoint", plans[1].with_suffix(".checkpoint"), "--resume", steps=8)
    assert all(torch.equal(value, again[1][name]) for name, value in whole[1].items())
    check_same(trained(plans[2], model.inputs, "--checkpoint", plans[0].with_suffix(".checkpoint"), "--resume", steps=8),
               (again[0], whole[1]))


def test_the_same_bits_twice(training_model, tmp_path):
    model = training_model("hf:llama")
    plans = [compiled(model, tmp_path, "--mesh", "tp=3", name=f"{index}.plan") for index in range(2)]
    one, two = (trained(plan, model.inputs) for plan in plans)
    assert (plans[0] / "plan.fb").read_bytes() == (plans[1] / "plan.fb").read_bytes()
    assert one[0]["losses"] == two[0]["losses"] and all(torch.equal(value, two[1][name]) for name, value in one[1].items())


class Drops(nn.Module):
    """Drops values that are whole, and values of which each rank has a part."""

    def __init__(self):
        super().__init__()
        self.up, self.down, self.head = nn.Linear(8, 24), nn.Linear(24, 8), nn.Linear(8, 5)

    def forward(self, x, labels):
        hidden = functional.dropout(torch.relu(self.up(functional.dropout(x, 0.5, self.training))), 0.5, self.training)
        return {"loss": functional.cross_entropy(self.head(torch.rand_like(x) * self.down(hidden)), labels)}


def drops():
    torch.manual_seed(0)
    return Drops().train(), {"x": torch.randn(4, 8), "labels": torch.tensor([0, 4, 2, 1])}


def test_random_numbers_are_those_of_one_device(trace_model, tmp_path):
    model = trace_model(f"{__file__}:drops", "--train")
    alone = trained(compiled(model, tmp_path, name="one.plan"), model.inputs, "--seed", 3)
    for options in (("--mesh", "tp=2"), ("--mesh", "tp=3"), ("--mesh", "tp=2", "--microbatches", "2"), ("--mesh", "pp=2"),
                    ("--mesh", "pp=3", "--microbatches", "4", "--schedule", "gpipe"),
                    ("--mesh", "pp=2,tp=2", "--microbatches", "2", "--schedule", "zb-h1", "--recompute", "full"),
                    ("--mesh", "pp=2", "--microbatches", "2", "--schedule", "interleaved")):
        check_same(trained(compiled(model, tmp_path, *options), model.inputs, "--seed", 3), alone)
    assert trained(tmp_path / "one.plan", model.inputs, "--seed", 4)[0]["losses"] != alone[0]["losses"]


@pytest.mark.parametrize("model, ranks", [("hf:gpt2", 2), ("hf:gpt2", 4), ("hf:bert:BertForMaskedLM", 2),
                                          ("hf:bert:BertForMaskedLM", 4), ("hf:llama", 2), ("hf:mistral", 4)])
def test_collectives_are_those_of_megatron(model, ranks, training_model, tmp_path):
    """A layer has two sums of activations forward and two backward; vocabulary, one each (Shoeybi et al. 2019, section 3)."""
    given = training_model(model)
    # Megatron-LM keeps the layer whole that BERT has in front of the scores.
    options = ("--shard", "cls.predictions.transform.*=replicate") if "bert" in model else ()
    cleave("compile", given.path, "--inputs", given.inputs, "--train", "--mesh", f"tp={ranks}", *options,
           "--emit-ir", tmp_path / "ir", "-o", tmp_path / "plan")
    text = sorted((tmp_path / "ir").iterdir())[-1].read_text()
    config = dict(field.split("=") for field in {**MODELS, **MORE}[model].split(","))
    layers = int(config.get("n_layer") or config["num_hidden_layers"])
    width = int(config.get("n_embd") or config["hidden_size"])
    activations = [line for line in text.splitlines() if "spmd.all_reduce(" in line and f"tensor<4x16x{width}xf32>) -> " in line]
    assert len(activations) == 4 * layers + 2, text
    # Of the scores ranks exchange numbers for each token, of the loss and of the norm of the gradients one.
    others = [line for line in text.splitlines() if "= spmd." in line and line not in activations and "spmd.shard" not in line]
    assert len(others) == 4, others
    assert all(re.search(r"\) : \(tensor<(64x1xf32|f32|f64)>", line) for line in others), others


class Scores(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.head = nn.Embedding(12, 8), nn.Linear(8, 10)

    def forward(self, ids, labels):
        return {"loss": functional.cross_entropy(self.head(self.table(ids)), labels, ignore_index=3)}


def scores():
    torch.manual_seed(0)
    return Scores().train(), {"ids": torch.tensor([1, 11, 0]), "labels": torch.tensor([9, 3, 0])}


@pytest.mark.parametrize("name", ["ids", "labels"])
@pytest.mark.parametrize("value", [2 ** 40, -2 ** 40, 12, -1])
def test_indices_outside_are_refused_by_some_rank(name, value, trace_model, tmp_path):
    model = trace_model(f"{__file__}:scores", "--train")
    plan = compiled(model, tmp_path, "--mesh", "tp=2", "--shard", "table=embedding_rowwise", "--shard", "head=colwise")
    data = load_file(model.inputs)
    data[name][0] = value
    save_file(data, tmp_path / "data.safetensors")
    refused(tmp_path, "train", plan, "--data", tmp_path / "data.safetensors", "--steps", 1, "--lr", 1, "--output", "weights.st")


@pytest.mark.parametrize("options, said", [
    (("--mesh", "dp=2"), "found data-parallel ranks, expected one"),
    (("--mesh", "tp=1000"), "--mesh tp=1000: found no weight that 1000 ranks can split")])
def test_refused_meshes(options, said, training_model, tmp_path):
    model = training_model("hf:gpt2")
    status = 1 if "1000" in said else 2
    assert said in refused(tmp_path, "compile", model.path, "--inputs", model.inputs, "--train", *options, "-o", tmp_path / "plan",
                           status=status)
