"""`cleave compile --train --microbatches N`: each step is that of the whole batch, as PyTorch takes it."""

import copy

import pytest
import torch
from safetensors.torch import save_file
from torch import nn
from torch.nn import functional

from cleave_trace import files, gradients, tracing
from conftest import cleave, refused
from training_modules import Normalized, check, compiled, made, rows, train_eagerly, trained
from test_train_memory import peaks

pytestmark = pytest.mark.usefixtures("one_thread")

CLASSES, STEPS = 5, 20


# Losses


class Scores(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.LayerNorm(32)), nn.Linear(32, CLASSES)

    def scores(self, x):
        return self.head(self.body(x))


class Tokens(Scores):
    """A label for each token, -100 where none counts."""

    def forward(self, x, labels):
        return {"loss": functional.cross_entropy(self.scores(x).flatten(0, 1), labels.flatten())}


class Shifted(Scores):
    """As language models take it: the label of a token is the next one."""

    def forward(self, x, labels):
        scores = self.scores(x)[:, :-1]
        return {"loss": functional.cross_entropy(scores.reshape(-1, CLASSES), labels[:, 1:].reshape(-1)), "scores": scores}


class Smoothed(Scores):
    def forward(self, x, labels):
        return {"loss": functional.cross_entropy(self.scores(x).transpose(1, 2), labels, label_smoothing=0.2)}


class Weighted(Scores):
    """Classes of unlike weights."""

    def __init__(self):
        super().__init__()
        self.register_buffer("weights", torch.tensor([0.1, 2, 0.5, 1, 3]))

    def forward(self, x, labels):
        return {"loss": functional.cross_entropy(self.scores(x).transpose(1, 2), labels, weight=self.weights)}


class Masked(Scores):
    """The mean over what counts, by hand."""

    def forward(self, x, labels):
        counts = (labels != -100).float()
        each = functional.cross_entropy(self.scores(x).transpose(1, 2), labels.clamp(min=0), reduction="none")
        return {"loss": (each * counts).sum() / counts.sum()}


class TwoTerms(Scores):
    """Means over the same labels."""

    def forward(self, x, labels):
        scores = self.scores(x).transpose(1, 2)
        return {"loss": functional.cross_entropy(scores, labels) + 0.3 * functional.cross_entropy(0.5 * scores, labels)}


class Regression(Scores):
    """Means over elements of unlike numbers, and a term of the weights alone."""

    def forward(self, x, labels):
        scores = self.scores(x)
        wanted = labels.clamp(min=0).unsqueeze(-1) * torch.ones(CLASSES)
        return {"loss": functional.mse_loss(scores, wanted) + scores[..., 0].abs().mean() / 3
                        + 0.01 * self.head.weight.square().sum()}


class Binary(Scores):
    def forward(self, x, labels):
        scores = self.scores(x)
        return {"loss": functional.binary_cross_entropy_with_logits(scores, functional.one_hot(labels.clamp(min=0), CLASSES).float())}


class Sum(Scores):
    def forward(self, x, labels):
        return {"loss": functional.cross_entropy(self.scores(x).flatten(0, 1), labels.flatten(), reduction="sum") / 100}


class PerSample(Scores):
    """A sum over the batch, divided by its size."""

    def forward(self, x, labels):
        return {"loss": functional.cross_entropy(self.scores(x).flatten(0, 1), labels.flatten(), reduction="sum") / x.shape[0]}


LOSSES = [Tokens, Shifted, Smoothed, Weighted, Masked, TwoTerms, Regression, Binary, Sum, PerSample]


def batch(size, seed, ignored=0.0):
    """Rows of which the later ones have the more labels that do not count."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(CLASSES, (size, 7), generator=generator)
    drop = torch.rand(size, 7, generator=generator) < ignored * torch.arange(1, size + 1).unsqueeze(1) / size
    return {"x": torch.randn(size, 7, 8, generator=generator), "labels": labels.masked_fill(drop, -100)}


def prepare(model, folder, batches):
    """The module; in the folder its trace for batches like these, and the batches."""
    module = made(model)
    gradients.check_can_train(module)
    files.write(tracing.trace(copy.deepcopy(module), batches[0], train=True), str(folder / "model.pt"))
    save_file({name: torch.cat([each[name] for each in batches]) for name in batches[0]}, folder / "data.safetensors")
    return module


def accumulate(folder, model, batches, microbatches, *options, clip=float("inf")):
    module = prepare(model, folder, batches)
    compiled(folder, "--microbatches", microbatches, "--optimizer", "sgd(momentum=0.9)", *options)
    expected = train_eagerly(module, batches, STEPS, torch.optim.SGD(module.parameters(), lr=0.05, momentum=0.9), clip=clip)
    found = trained(folder, STEPS, lr=0.05)
    check(found, module, expected)
    assert found[0]["losses"] == pytest.approx(expected[0], rel=1e-5)
    return found, expected


@pytest.mark.parametrize("model", LOSSES)
def test_losses(model, tmp_path):
    accumulate(tmp_path, model, [batch(4, seed, ignored=0.8) for seed in range(3)], 2)


@pytest.mark.parametrize("size, microbatches", [(5, 2), (5, 4), (4, 4), (3, 7), (1, 2)])
@pytest.mark.parametrize("model", [Tokens, Regression])
def test_uneven_microbatches(model, size, microbatches, tmp_path):
    accumulate(tmp_path, model, [batch(size, seed, ignored=0.6) for seed in range(3)], microbatches)


@pytest.mark.parametrize("model", [Tokens, Smoothed, Weighted, Masked, Sum])
def test_a_microbatch_without_labels(model, tmp_path):
    batches = [batch(4, seed) for seed in range(3)]
    for each in batches[1:]:
        each["labels"][2:] = -100
    accumulate(tmp_path, model, batches, 2)


def test_a_batch_without_labels_is_not_finite(tmp_path):
    batches = [batch(4, seed) for seed in range(2)]
    batches[1]["labels"][:] = -100
    prepare(Tokens, tmp_path, batches)
    compiled(tmp_path, "--microbatches", 2)
    report, _ = trained(tmp_path, 2, "--skip-nonfinite")
    assert report["losses"][1] is None and report["skipped_steps"] == [2]


@pytest.mark.parametrize("optimizer", ["adamw", "sgd"])
def test_clipped_by_the_norm_of_the_whole_batch(optimizer, tmp_path):
    batches = [batch(4, seed, ignored=0.9) for seed in range(3)]
    module = prepare(Tokens, tmp_path, batches)
    compiled(tmp_path, "--microbatches", 4, "--optimizer", optimizer, "--clip-norm", "0.7")
    make = torch.optim.AdamW if optimizer == "adamw" else torch.optim.SGD
    expected = train_eagerly(module, batches, STEPS, make(module.parameters(), lr=1e-2), clip=0.7)
    assert max(expected[1]) > 0.7
    check(trained(tmp_path, STEPS), module, expected)


def test_an_attached_loss(tmp_path):
    class Output(Scores):
        def forward(self, x, labels):
            return self.scores(x), labels

    batches = [batch(5, seed, ignored=0.5) for seed in range(2)]
    module = prepare(Output, tmp_path, batches)
    compiled(tmp_path, "--microbatches", 2, "--loss", "cross_entropy(output.0, labels)", "--optimizer", "sgd")
    module.forward = lambda x, labels: {"loss": functional.cross_entropy(module.scores(x).flatten(0, 1), labels.flatten())}
    expected = train_eagerly(module, batches, STEPS, torch.optim.SGD(module.parameters(), lr=0.1))
    check(trained(tmp_path, STEPS, lr=0.1), module, expected)


def test_double_precision(tmp_path):
    class Doubles(Tokens):
        def __init__(self):
            super().__init__()
            self.double()

        def forward(self, x, labels):
            return super().forward(x.double(), labels)

    accumulate(tmp_path, Doubles, [batch(4, seed, ignored=0.5) for seed in range(2)], 2)


def test_language_model(trace_model):
    """With tied weights, and labels of which some do not count."""
    folder = trace_model("hf:gpt2", "--config", "n_layer=2,n_embd=32,n_head=2,vocab_size=90,n_positions=16,resid_pdrop=0,embd_pdrop=0,attn_pdrop=0",
                         "--batch", 4, "--seq", 16, "--train").path.parent
    found = {}
    for microbatches in (1, 2, 4):
        compiled(folder, "--microbatches", microbatches, "--clip-norm", "1")
        found[microbatches], _ = trained(folder, STEPS, data="model.inputs.safetensors", lr=1e-3)
    for microbatches in (2, 4):
        for name in ("losses", "gradient_norms"):
            assert found[microbatches][name] == pytest.approx(found[1][name], rel=2e-4)


class Router(Scores):
    """A mixture's loss, which multiplies means over the batch."""

    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(8, 4)

    def forward(self, x, labels):
        chances = self.gate(x).softmax(-1).flatten(0, 1)
        balance = (chances.mean(0) * chances.mean(0)).sum()
        scores = self.scores(x) + chances.max(-1).values.reshape(x.shape[0], -1, 1)
        return {"loss": functional.cross_entropy(scores.flatten(0, 1), labels.flatten()) + 0.1 * balance}


def test_router_losses_are_those_of_microbatches(tmp_path):
    batches = [batch(4, seed, ignored=0.5) for seed in range(3)]
    module = prepare(Router, tmp_path, batches)
    done = cleave("compile", "model.pt", "--inputs", "model.inputs.safetensors", "--train", "--microbatches", 2, "--optimizer", "sgd",
                  "-o", "model.plan", cwd=tmp_path)
    [note] = [line for line in done.out.splitlines() if "terms of the loss" in line]
    assert "aten.mul.Tensor is not linear in sums and means over dimension batch" in note

    def weighted(x, labels):
        parts = [(Router.forward(module, x[first:first + 2], labels[first:first + 2])["loss"],
                  (labels[first:first + 2] != -100).sum()) for first in (0, 2)]
        return {"loss": sum(loss * normalizer for loss, normalizer in parts) / sum(normalizer for _, normalizer in parts)}

    module.forward = weighted
    expected = train_eagerly(module, batches, STEPS, torch.optim.SGD(module.parameters(), lr=0.1))
    check(trained(tmp_path, STEPS, lr=0.1), module, expected)


class OnlyLoss(Tokens):
    """The loss is the output, without a name."""

    def forward(self, x, labels):
        return super().forward(x, labels)["loss"]


def test_the_only_output_is_the_loss(tmp_path):
    losses = {}
    for model in (Tokens, OnlyLoss):
        folder = tmp_path / model.__name__
        folder.mkdir()
        prepare(model, folder, [batch(4, 0, ignored=0.5)])
        compiled(folder, "--microbatches", 2)
        losses[model] = trained(folder, 3)[0]["losses"]
    assert losses[OnlyLoss] == losses[Tokens]


class Random(Scores):
    """Dropouts over [batch, tokens, width], over [batch·heads, tokens, tokens], and inside attention; other random operators."""

    def scores(self, x):
        hidden = functional.dropout(self.body(x), 0.2, self.training)
        heads = hidden.view(-1, x.shape[1], 4, 8).transpose(1, 2)
        attended = functional.scaled_dot_product_attention(heads, heads, heads, dropout_p=0.1)
        joined = heads.reshape(-1, x.shape[1], 8)
        weights = functional.dropout(functional.softmax(joined @ joined.transpose(1, 2), -1), 0.3, self.training)
        attended = attended + (weights @ joined).view_as(heads)
        hidden = hidden + attended.transpose(1, 2).reshape(hidden.shape)
        # The depth of a residual, noise, a relaxed choice.
        hidden = hidden * torch.rand(x.shape[0], 1, 1).add(0.7).floor() + 0.1 * torch.randn_like(hidden)
        scores = self.head(hidden)
        return scores - 0.1 * torch.empty_like(scores).exponential_().log()

    def forward(self, x, labels):
        return {"loss": functional.cross_entropy(self.scores(x).flatten(0, 1), labels.flatten())}


class RandomStrided(Scores):
    """Numbers in the layout of a transposed value, with probabilities in a tensor."""

    def scores(self, x):
        hidden = self.body(x)
        turned = hidden.transpose(1, 2)
        kept = torch.rand_like(turned).gt(0.2).to(x.dtype).transpose(1, 2).view(x.shape[0], -1).view_as(hidden)
        return self.head(hidden * kept + torch.bernoulli(torch.full_like(hidden, 0.3)))

    def forward(self, x, labels):
        return {"loss": functional.cross_entropy(self.scores(x).flatten(0, 1), labels.flatten())}


class RandomLstm(Scores):
    """Inside the layer, samples are the second dimension."""

    def __init__(self):
        super().__init__()
        self.body = nn.LSTM(8, 32, num_layers=2, dropout=0.5, batch_first=True)

    def forward(self, x, labels):
        return {"loss": functional.cross_entropy(self.head(self.body(x)[0]).flatten(0, 1), labels.flatten())}


@pytest.mark.parametrize("model, kinds", [(Random, ["bernoulli", "normal", "uniform"]), (RandomLstm, ["bernoulli"]),
                                          (RandomStrided, ["uniform"])])
def test_random_numbers_are_those_of_the_whole_batch(model, kinds, tmp_path):
    """At every number of micro-batches; other ones in each step, and by each seed."""
    prepare(model, tmp_path, [batch(4, 0, ignored=0.0)])
    losses = {}
    for count in (1, 2, 3, 4):
        done = cleave("compile", "model.pt", "--inputs", "model.inputs.safetensors", "--train", "--microbatches", count,
                      "-o", "model.plan", cwd=tmp_path)
        notes = [line.split()[1] for line in done.out.splitlines() if "draws random numbers" in line]
        assert sorted(notes) == [f"random.{kind}" for kind in kinds]
        losses[count] = trained(tmp_path, 3)[0]["losses"]
    assert all(found == pytest.approx(losses[1], rel=1e-6) for found in losses.values())
    assert trained(tmp_path, 3)[0]["losses"] == losses[4]
    assert trained(tmp_path, 1, "--seed", 1)[0]["losses"][0] != losses[4][0]


@pytest.mark.parametrize("options", [(), ("--clip-norm", "0.3"), ("--optimizer", "sgd")])
def test_verified(options, tmp_path):
    prepare(Tokens, tmp_path, [batch(4, 0, ignored=0.5)])
    compiled(tmp_path, "--microbatches", 2, "--verify", *options)
    assert "same weight head.weight" in cleave("verify", "model.plan", "--model", "model.pt", cwd=tmp_path).out


# What is refused


class Contrastive(Scores):
    """Each sample is compared with all others."""

    def forward(self, x, labels):
        own = self.scores(x).mean(1)
        return {"loss": functional.cross_entropy(own @ own.t(), torch.arange(x.shape[0]))}


class Root(Scores):
    def forward(self, x, labels):
        return {"loss": functional.mse_loss(self.scores(x), torch.zeros(CLASSES)).sqrt()}


class OtherLabels(Scores):
    def forward(self, x, labels):
        scores = self.scores(x).transpose(1, 2)
        return {"loss": functional.cross_entropy(scores, labels) + functional.cross_entropy(scores, labels.clamp(min=1), ignore_index=1)}


class PartlyContrastive(Contrastive):
    """The second term alone could be split."""

    def forward(self, x, labels):
        return {"loss": super().forward(x, labels)["loss"] + functional.cross_entropy(self.scores(x).transpose(1, 2), labels)}


class WithAddend(Scores):
    """A sum over the batch, to which a vector is added once."""

    def forward(self, x, labels):
        own = self.scores(x).mean(1)
        return {"loss": torch.addmv(own.new_ones(CLASSES), own.t(), torch.ones(x.shape[0])).square().sum()}


class CastToBool(Scores):
    def forward(self, x, labels):
        errors = functional.cross_entropy(self.scores(x).transpose(1, 2), labels, reduction="sum")
        return {"loss": errors / (labels != -100).sum().bool()}


class ByFrequency(Scores):
    """Gradients of rows are divided by how often the batch has them."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(CLASSES, 8, scale_grad_by_freq=True)

    def forward(self, x, labels):
        return {"loss": functional.cross_entropy(self.scores(x + self.table(labels.clamp(min=0))).transpose(1, 2), labels)}


@pytest.mark.parametrize("model, error", [
    (ByFrequency, "aten.embedding divides gradients by how often an index occurs in all of dimension batch"),
    (PartlyContrastive, "takes every pair of positions in dimension batch"),
    (WithAddend, "aten.addmv reduces over dimension batch"),
    (CastToBool, "is not linear in sums and means over dimension batch"),
    (Contrastive, "takes every pair of positions in dimension batch"),
    (Root, "aten.sqrt is not linear in sums and means over dimension batch"),
    (OtherLabels, "is a mean over other elements than another term of the loss"),
])
def test_refused(model, error, tmp_path):
    prepare(model, tmp_path, [batch(4, 0, ignored=0.5)])
    found = refused(tmp_path, "compile", "model.pt", "--inputs", "model.inputs.safetensors", "--train", "--microbatches", 2, "-o", "no.plan")
    assert error in found and "use --microbatches 1" in found


class Signed(Scores):
    """Weights of a mean that may be negative."""

    def forward(self, x, labels):
        errors = self.scores(x).square().mean(2)
        return {"loss": (errors * labels).sum() / labels.sum()}


@pytest.mark.parametrize("labels", ([1, -1, 2, 3], [-1, -1, -2, -3]))
def test_weights_of_a_mean_that_cancel_end_the_training(labels, tmp_path):
    data = batch(4, 0)
    data["labels"] = torch.tensor(labels)[:, None].expand(4, data["labels"].shape[1]).contiguous()
    prepare(Signed, tmp_path, [data])
    compiled(tmp_path, "--microbatches", 2)
    assert "the loss is nan" in refused(tmp_path, "train", "model.plan", "--data", "data.safetensors", "--steps", 1, "--lr", 0.1,
                                        "--output", "none.safetensors")


def test_batch_norm_is_refused(tmp_path):
    module = made(Normalized)
    files.write(tracing.trace(copy.deepcopy(module), rows(Normalized, 4), train=True), str(tmp_path / "model.pt"))
    found = refused(tmp_path, "compile", "model.pt", "--inputs", "model.inputs.safetensors", "--train", "--microbatches", 2, "-o", "no.plan")
    assert "body.1" in found and "use a norm over each sample (layer norm, group norm), or --microbatches 1" in found


@pytest.mark.parametrize("options, error", [
    (("--train", "--microbatches", "auto"), "--train: found --microbatches auto without --mesh auto, expected a number"),
    (("--gradients", "--microbatches", "2"), "--gradients: found --microbatches, expected a batch in one piece"),
])
def test_wrong_options(options, error, tmp_path):
    prepare(Tokens, tmp_path, [batch(4, 0)])
    found = refused(tmp_path, "compile", "model.pt", "--inputs", "model.inputs.safetensors", *options, "-o", "no.plan", status=2)
    assert error in found


# Memory


class Wide(Scores):
    """With activations that outweigh the weights."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(8, 300), nn.GELU(), nn.Linear(300, 300), nn.GELU(), nn.Linear(300, 32))

    def forward(self, x, labels):
        return {"loss": functional.cross_entropy(self.scores(x).flatten(0, 1), labels.flatten())}


@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
def test_predicted_memory(optimizer, tmp_path):
    prepare(Wide, tmp_path, [batch(64, 0, ignored=0.5)])
    found = {}
    for microbatches in (1, 2, 8):
        cleave("compile", "model.pt", "--inputs", "model.inputs.safetensors", "--train", "--microbatches", microbatches, "--optimizer",
               optimizer, "-o", "model.plan", cwd=tmp_path)
        predicted, measured, *_ = peaks("model.plan", tmp_path)
        assert abs(predicted - measured) <= 0.03 * measured
        found[microbatches] = measured
    assert found[8] < found[2] < found[1]
