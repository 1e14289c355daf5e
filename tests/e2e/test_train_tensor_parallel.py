"""Training over tensor-parallel ranks: losses, weights and checkpoints as on one device, and the collectives of Megatron-LM."""

import re

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn
from torch.nn import functional

from conftest import cleave, refused
from test_gradients import MODELS, source_of

SMALL = "num_hidden_layers=2,hidden_size=32,intermediate_size=64,num_attention_heads=4,vocab_size=128"
# Phi-3 with one key head: one weight has heads of queries, which ranks share out, and the keys and values, which all ranks have.
MORE = {"hf:phi3": f"{SMALL},num_key_value_heads=1,pad_token_id=0",
        "hf:mixtral": f"{SMALL},num_key_value_heads=2,num_local_experts=4,output_router_logits=false",
        "hf:mistral": f"{SMALL},num_key_value_heads=4", "hf:gpt_neox": SMALL}


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "1")
        yield


@pytest.fixture(scope="module")
def traced(trace_model):
    """A tiny model of a name in MODELS or MORE, in training mode."""
    def trace(model):
        name, class_name = source_of(model)
        return trace_model(name, *(["--class", *class_name] if class_name else []), "--config", {**MODELS, **MORE}[model],
                           "--batch", 4, "--seq", 16, "--train")
    return trace


def compiled(model, folder, *options, name="model.plan"):
    cleave("compile", model.path, "--inputs", model.inputs, "--train", *options, "-o", folder / name)
    return folder / name


def trained(plan, data, *options, steps=4, lr=1e-2):
    """What a training reports, and its weights."""
    output = plan.with_suffix(".safetensors")
    done = cleave("train", plan, "--data", data, "--steps", steps, "--lr", lr, "--output", output, "--json", *options)
    return done.json(), load_file(output)


def check_same(found, expected):
    """Within what 32 bits allow."""
    assert found[0]["losses"] == pytest.approx(expected[0]["losses"], rel=1e-4)
    assert found[0]["gradient_norms"] == pytest.approx(expected[0]["gradient_norms"], rel=1e-3)
    assert found[1].keys() == expected[1].keys()
    for name, weight in expected[1].items():
        assert (found[1][name] - weight).abs().max() <= 1e-3 * max(weight.abs().max(), 0.1), name


@pytest.mark.parametrize("model", [*MODELS, *MORE])
def test_three_steps_are_those_of_pytorch(model, traced, tmp_path):
    for mesh in "tp=2", "tp=3":
        done = cleave("compile", traced(model).path, "--inputs", traced(model).inputs, "--train", "--mesh", mesh, "--clip-norm", 1,
                      "--verify", "-o", tmp_path / "plan")
        assert "same as the original" in done.out


@pytest.mark.parametrize("options", [("--microbatches", "2"), ("--recompute", "full"), ("--recompute", "minimum-cut"),
                                     ("--shard", "*.wte=replicate"), ("--shard", "*.c_fc=rowwise"),
                                     ("--optimizer", "sgd(momentum=0.9, nesterov=true)"), ("--trainable", "*.c_*")])
def test_options(options, traced, tmp_path):
    model = traced("hf:gpt2")
    done = cleave("compile", model.path, "--inputs", model.inputs, "--train", "--mesh", "tp=2", *options, "--verify", "-o",
                  tmp_path / "plan")
    assert "same as the original" in done.out


def test_weights_and_checkpoints_are_whole(traced, tmp_path):
    model = traced("hf:gpt2")
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


def test_the_same_bits_twice(traced, tmp_path):
    model = traced("hf:llama")
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
def test_collectives_are_those_of_megatron(model, ranks, traced, tmp_path):
    """A layer has two sums of activations forward and two backward; vocabulary, one each (Shoeybi et al. 2019, section 3)."""
    given = traced(model)
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
def test_refused_meshes(options, said, traced, tmp_path):
    model = traced("hf:gpt2")
    status = 1 if "1000" in said else 2
    assert said in refused(tmp_path, "compile", model.path, "--inputs", model.inputs, "--train", *options, "-o", tmp_path / "plan",
                           status=status)
