"""`cleave verify` and `compile --verify` of plans that give gradients, and of plans that train."""

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional

from cleave_trace import files, tracing
from conftest import cleave
from training_architectures import MODELS
from training_modules import Classifier, Counts, Doubles, Drops, Frozen, Narrow, Normalized, OneLoss, Rates, Repeats, made, rows

BATCH = 4
GRADIENTS, TRAIN = "--gradients", "--train"


class Logits(Classifier):
    """Has no loss of its own."""

    def forward(self, x, labels):
        return {"logits": self.head(self.body(x)), "labels": labels}


class Sequences(nn.Module):
    """Logits of each position, for losses that are shifted."""

    def __init__(self):
        super().__init__()
        self.embedding, self.head = nn.Embedding(11, 8), nn.Linear(8, 11)

    def forward(self, ids, labels):
        return self.head(self.embedding(ids).tanh()), labels


class Unused(Classifier):
    """With a parameter that the loss does not depend on."""

    def __init__(self):
        super().__init__()
        self.other = nn.Linear(3, 3)


def save(model, folder, inputs=None):
    """model.pt and its inputs, as cleave-trace --train makes them."""
    module = made(model)
    inputs = inputs if inputs is not None else rows(model, BATCH)
    files.write(tracing.trace(copy.deepcopy(module), inputs, train=True), str(folder / "model.pt"))
    return module


def compiled(folder, *options, **more):
    return cleave("compile", "model.pt", "--inputs", "model.inputs.safetensors", *options, "-o", "model.plan", cwd=folder, **more)


def verified(folder, *options, status=0):
    """The report of `cleave verify`."""
    done = cleave("verify", "model.plan", "--model", "model.pt", "--json", *options, cwd=folder, status=status)
    return done.json()


def different(report):
    """What kinds of tensors differ."""
    assert not report["ok"]
    return {kind for kind in ("outputs", "gradients", "weights") if not all(entry["ok"] for entry in report.get(kind, []))}


@pytest.fixture(scope="module")
def gpt2(trace_model):
    return trace_model("hf:gpt2", "--config", MODELS["hf:gpt2"], "--batch", 3, "--seq", 16, "--train").path.parent


@pytest.fixture(scope="module")
def classifier(tmp_path_factory):
    folder = tmp_path_factory.mktemp("classifier")
    save(Classifier, folder)
    return folder


@pytest.fixture(scope="module")
def logits(tmp_path_factory):
    folder = tmp_path_factory.mktemp("logits")
    save(Logits, folder)
    return folder


# What is right


def test_a_language_model_with_tied_weights_at_named_sizes(gpt2):
    sizes = [option for name in ("input_ids", "labels") for option in ("--dynamic", f"{name}=batch,seq")]
    done = compiled(gpt2, GRADIENTS, *sizes, "--verify", "--json").json()
    assert done["compared"]["gradients"] == 52 * 3
    # Labels are one to the right, so that a sequence of one has none.
    assert done["skipped_sizes"] == ["batch=1, seq=1: the loss of the original is nan, which has no gradients to compare"]
    report = verified(gpt2)
    assert report["ok"] and len(report["gradients"]) == 52 * 3
    assert {entry.get("sizes") for entry in report["gradients"]} == {None, "batch=4, seq=9", "batch=5, seq=19"}
    names = {entry["name"] for entry in report["gradients"]}
    assert "transformer.wte.weight" in names and "lm_head.weight" not in names
    for entry in report["gradients"]:
        assert set(entry) >= {"name", "ok", "shape", "max_abs_error", "error", "allowed"}
        assert entry["ok"] and entry["error"] <= entry["allowed"]


def test_a_language_model_trains(gpt2):
    done = compiled(gpt2, TRAIN, "--optimizer", "adamw(weight_decay=0.1)", "--no-decay", "*.bias", "--clip-norm", "0.5", "--verify")
    assert "same as the original: 6 outputs, 52 gradients, 52 trained weights, largest error" in done.out
    report = verified(gpt2)
    assert report["ok"] and [entry["name"] for entry in report["outputs"]] == ["loss", "grad_norm"] * 3
    assert [entry["call"] for entry in report["outputs"]] == [1, 1, 2, 2, 3, 3]
    assert len(report["gradients"]) == len(report["weights"]) == 52


@pytest.mark.parametrize("how", [GRADIENTS, TRAIN])
@pytest.mark.parametrize("model", [Normalized, Frozen, Counts, Doubles, Narrow, OneLoss, Repeats, Unused, Rates])
def test_other_models(model, how, tmp_path):
    inputs = rows(model, BATCH)
    if model is Rates:
        inputs.update(learning_rate=torch.tensor(2.0), step=torch.tensor(0.5))
    module = save(model, tmp_path, inputs)
    compiled(tmp_path, how, "--verify")
    report = verified(tmp_path)
    wanted = {name for name, parameter in module.named_parameters() if parameter.requires_grad and not name.startswith("other.")}
    assert report["ok"] and {entry["name"] for entry in report["gradients"]} == wanted
    states = {entry["name"] for entry in report["outputs"] if entry["name"].startswith("state ")}
    assert states == {f"state {name}" for name, _ in module.named_buffers()}


class AtMinimum(nn.Module):
    """At the minimum of GELU gradients are little but rounding; compile replaces the formula by a kernel that rounds otherwise."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(-0.752461 + 1e-5 * torch.randn(1000))

    def forward(self, x):
        x = x * self.weight
        return {"loss": (0.5 * x * (1 + torch.tanh(0.7978845608028654 * (x + 0.044715 * torch.pow(x, 3))))).sum()}


@pytest.mark.parametrize("how", [GRADIENTS, TRAIN])
def test_gradients_that_are_as_near_to_those_in_float64(how, tmp_path):
    save(AtMinimum, tmp_path, {"x": torch.ones(1)})
    compiled(tmp_path, how, "--verify")
    report = verified(tmp_path)
    assert report["ok"] and report["gradients"][0]["against_float64"]


@pytest.mark.parametrize("options", [
    ("--optimizer", "adamw(weight_decay=0.3, beta1=0.8, beta2=0.95, eps=1e-6)"),
    ("--optimizer", "adamw(weight_decay=0.3)", "--no-decay", "*.bias", "--no-decay", "body.2.*"),
    ("--optimizer", "adam(weight_decay=0.1)", "--clip-norm", "0.01"),
    ("--optimizer", "sgd", "--clip-norm", "0.3"),
    ("--optimizer", "sgd(momentum=0.9, nesterov=true, weight_decay=0.01)"),
    ("--trainable", "head.*"),
    ("--recompute", "body"),
])
def test_optimizers(options, classifier):
    compiled(classifier, TRAIN, *options, "--verify")
    assert verified(classifier)["ok"]


LOSSES = ["cross_entropy(logits, labels)", "cross_entropy(output.logits, labels, label_smoothing=0.1, ignore_index=2)"]


@pytest.mark.parametrize("how", [GRADIENTS, TRAIN])
@pytest.mark.parametrize("loss", LOSSES)
def test_attached_losses(loss, how, logits):
    compiled(logits, how, "--loss", loss, "--verify")
    assert verified(logits, "--loss", loss)["ok"]


@pytest.mark.parametrize("loss", ["mse(output, target)", "l1(output, target)", "smooth_l1(output, target, beta=0.5)",
                                  "huber(output, target, delta=0.3)", "kl_div(output, target)", "kl_div(output, target, log_target=true)",
                                  "binary_cross_entropy_with_logits(output, target)"])
def test_attached_losses_of_numbers(loss, tmp_path):
    class Regression(nn.Linear):
        def __init__(self):
            super().__init__(8, 2)

        def forward(self, x, target):
            return super().forward(x)

    save(Regression, tmp_path, {"x": torch.randn(4, 8), "target": torch.rand(4, 2)})
    compiled(tmp_path, GRADIENTS, "--loss", loss, "--verify")
    assert verified(tmp_path, "--loss", loss)["ok"]


@pytest.mark.parametrize("loss", ["cross_entropy(0, labels)", "cross_entropy(0, labels, shift=true)",
                                  "cross_entropy(0, labels, class_dim=-1, ignore_index=3)"])
def test_attached_losses_of_sequences(loss, tmp_path):
    ids = torch.randint(11, (3, 7))
    save(Sequences, tmp_path, {"ids": ids, "labels": ids.roll(1)})
    compiled(tmp_path, GRADIENTS, "--loss", loss, "--dynamic", "ids=batch,seq", "--dynamic", "labels=batch,seq", "--verify")
    assert verified(tmp_path, "--loss", loss)["ok"]


# What is wrong


@pytest.mark.parametrize("how", [GRADIENTS, TRAIN])
def test_another_loss_differs(how, logits):
    compiled(logits, how, "--loss", LOSSES[0])
    assert different(verified(logits, "--loss", LOSSES[1], status=1)) >= {"outputs", "gradients"}
    done = cleave("verify", "model.plan", "--model", "model.pt", "--loss", LOSSES[1], cwd=logits, status=1)
    assert "DIFFERENT grad.head.weight" in done.out and "error: model.plan: differs from model.pt in" in done.err


def test_weights_without_gradients_differ(classifier):
    for how in (GRADIENTS, TRAIN):
        compiled(classifier, how, "--trainable", "head.*")
        assert verified(classifier)["ok"] and verified(classifier, "--trainable", "head.*")["ok"]
        report = verified(classifier, "--trainable", "head.*", "--trainable", "body.0.*", status=1)
        assert {entry["name"] for entry in report["gradients"] if not entry["ok"]} == {"body.0.weight", "body.0.bias"}


class Losses(Classifier):
    """Has losses of the same value: one whose gradients are right, and others, as of a compiler that differentiates wrongly."""

    def forward(self, x, labels):
        hidden = self.body(x)
        loss = functional.cross_entropy(self.head(hidden), labels)
        bias = self.head.bias * 2 - self.head.bias.detach()
        return {"right": loss, "scaled": loss * 1.0005 - (loss * 0.0005).detach(),
                "one_doubled": functional.cross_entropy(functional.linear(hidden, self.head.weight, bias), labels)}


@pytest.fixture(scope="module")
def losses(tmp_path_factory):
    folder = tmp_path_factory.mktemp("losses")
    save(Losses, folder)
    return folder


@pytest.mark.parametrize("how", [(GRADIENTS,), (TRAIN, "--optimizer", "adamw"), (TRAIN, "--optimizer", "sgd(momentum=0.9)"),
                                 (TRAIN, "--optimizer", "sgd"), (TRAIN, "--clip-norm", "0.1")])
def test_wrong_gradients_are_found(how, losses):
    compiled(losses, *how, "--loss", "right", "--verify")
    names = {name for name, _ in made(Classifier).named_parameters()}
    for loss, wrong in (("scaled", names), ("one_doubled", {"head.bias"})):
        report = verified(losses, "--loss", loss, status=1)
        assert {entry["name"] for entry in report["gradients"] if not entry["ok"]} == wrong
        assert "gradients" in different(report)


def test_another_model_is_refused(classifier, logits):
    compiled(classifier, GRADIENTS)
    done = cleave("verify", "model.plan", "--model", logits / "model.pt", cwd=classifier, status=1)
    assert "is not the model that model.plan was compiled from" in done.err


@pytest.mark.parametrize("how", [GRADIENTS, TRAIN])
def test_random_numbers_are_refused(how, tmp_path):
    save(Drops, tmp_path)
    compiled(tmp_path, how)
    done = cleave("verify", "model.plan", "--model", "model.pt", cwd=tmp_path, status=1)
    assert done.err.count("error: ") == 1 and "DIFFERENT" not in done.out
    assert "found a model that draws random numbers (" in done.err and "trace it with dropout probabilities of 0" in done.err
    done = compiled(tmp_path, how, "--verify", status=1)
    assert "found a model that draws random numbers" in done.err


@pytest.mark.parametrize("options, error", [
    (("--loss", "mse(output.logits)"), "expected a result and an input in brackets"),
    (("--loss", "loss"), "the loss: found output.logits, output.labels, expected an output 'loss'"),
    ((), "the loss: found output.logits, output.labels, expected an output 'loss'"),
    (("--loss", "mse(logits, labels)"), "the loss: found 'labels' and 'logits' of different shapes"),
    (("--loss", "cross_entropy(logits, nothing)"), "the loss: found no input 'nothing'"),
])
def test_losses_that_do_not_fit(options, error, logits):
    compiled(logits, GRADIENTS, "--loss", LOSSES[0])
    done = cleave("verify", "model.plan", "--model", "model.pt", *options, cwd=logits, status=1)
    assert error in done.err and done.err.count("error: ") == 1


def test_a_plan_without_gradients_takes_no_loss(logits):
    compiled(logits)
    done = cleave("verify", "model.plan", "--model", "model.pt", "--loss", LOSSES[0], cwd=logits, status=2)
    assert "--loss: found a plan without gradients" in done.err


@pytest.mark.parametrize("pattern", ["[", "{head,body}.*", ""])
def test_malformed_patterns_are_refused(pattern, classifier):
    compiled(classifier, GRADIENTS)
    done = cleave("verify", "model.plan", "--model", "model.pt", "--trainable", pattern, cwd=classifier, status=2)
    assert f'--trainable: found "{pattern}", expected a name with * and ?' in done.err and done.err.count("error: ") == 1
