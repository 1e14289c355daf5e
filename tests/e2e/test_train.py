"""`cleave compile --train` and `cleave train`: losses, weights and checkpoints, against training by PyTorch itself."""

import copy
import functools

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from torch import nn
from torch.nn import functional

from cleave_trace import files, tracing
from conftest import cleave
from training_modules import (BATCH, Classifier, Counts, Doubles, Drops, Frozen, Normalized, OneLoss, Rates, Repeats, SharedNorm,
                              batches_of, check, compiled, made, put, results, rows, traced, train_eagerly, trained, with_nan)

pytestmark = pytest.mark.usefixtures("one_thread")

OPTIMIZERS = {
    "adamw": (torch.optim.AdamW, {"lr": 1e-2}),
    "adamw(weight_decay=0.1, beta1=0.8, beta2=0.95, eps=1e-6)": (
        torch.optim.AdamW, {"lr": 1e-2, "weight_decay": 0.1, "betas": (0.8, 0.95), "eps": 1e-6}),
    "adam": (torch.optim.Adam, {"lr": 1e-2}),
    "adam(weight_decay=0.1)": (torch.optim.Adam, {"lr": 1e-2, "weight_decay": 0.1}),
    "sgd": (torch.optim.SGD, {"lr": 0.1}),
    "sgd(momentum=0.9, weight_decay=0.01)": (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01}),
    "sgd(momentum=0.9, nesterov=true)": (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
}


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_optimizers(optimizer, tmp_path):
    module = traced(Classifier, tmp_path)
    compiled(tmp_path, "--optimizer", optimizer)
    make, options = OPTIMIZERS[optimizer]
    expected = train_eagerly(module, batches_of(tmp_path), 50, make(module.parameters(), **options))
    check(trained(tmp_path, 50, lr=options["lr"]), module, expected)


def test_clipped_gradients(tmp_path):
    module = traced(Classifier, tmp_path)
    compiled(tmp_path, "--optimizer", "sgd(momentum=0.9)", "--clip-norm", "2")
    expected = train_eagerly(module, batches_of(tmp_path), 50,
                             torch.optim.SGD(module.parameters(), lr=0.05, momentum=0.9), clip=2)
    assert min(expected[1]) < 2 < max(expected[1])
    check(trained(tmp_path, 50, lr=0.05), module, expected)


def test_weights_without_decay(tmp_path):
    module = traced(Classifier, tmp_path)
    compiled(tmp_path, "--optimizer", "adamw(weight_decay=0.5)", "--no-decay", "*.bias", "--no-decay", "body.2.*")
    kept = [parameter for name, parameter in module.named_parameters() if name.endswith("bias") or "body.2" in name]
    decayed = [module.body[0].weight, module.head.weight]
    optimizer = torch.optim.AdamW([{"params": kept, "weight_decay": 0}, {"params": decayed}], lr=1e-2,
                                  weight_decay=0.5)
    check(trained(tmp_path, 50), module, train_eagerly(module, batches_of(tmp_path), 50, optimizer))


@pytest.mark.parametrize("shape, name", [("constant", "constant_with_warmup"), ("linear", "linear"),
                                         ("cosine", "cosine")])
@pytest.mark.parametrize("warmup", [0, 7])
def test_learning_rates_are_those_of_transformers(shape, name, warmup, classifier):
    module = made(Classifier)
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-2)
    scheduler = transformers.get_scheduler(name, optimizer, num_warmup_steps=warmup, num_training_steps=50)
    expected = train_eagerly(module, batches_of(classifier), 50, optimizer, scheduler=scheduler)
    check(trained(classifier, 50, "--lr-schedule", shape, "--warmup", warmup), module, expected)


@pytest.mark.parametrize("without_decay", [
    (), ("transformer.wte.weight",),
    ("lm_head.weight",)])
def test_tied_weights(tied_gpt2, without_decay):
    folder, build = tied_gpt2
    module, inputs = build(), load_file(folder / "model.inputs.safetensors")
    compiled(folder, "--optimizer", "adamw(weight_decay=0.5)", "--clip-norm", "1",
             *(option for name in without_decay for option in ("--no-decay", name)))
    kept = [module.lm_head.weight] if without_decay else []
    decayed = [parameter for parameter in module.parameters() if all(parameter is not other for other in kept)]
    optimizer = torch.optim.AdamW([{"params": kept, "weight_decay": 0}, {"params": decayed}], lr=1e-3, weight_decay=0.5)
    expected = train_eagerly(module, [inputs], 50, optimizer, clip=1)
    found = trained(folder, 50, lr=1e-3, data="model.inputs.safetensors")
    check(found, module, expected)
    assert build().load_state_dict(found[1], strict=False).missing_keys == ["lm_head.weight"]


@pytest.mark.parametrize("model, optimizer", [(Normalized, "adamw"), (Normalized, "sgd(momentum=0.9)"), (SharedNorm, "adamw")])
def test_batch_norm(model, optimizer, tmp_path):
    module = traced(model, tmp_path)
    compiled(tmp_path, "--optimizer", optimizer)
    make = torch.optim.AdamW if optimizer == "adamw" else functools.partial(torch.optim.SGD, momentum=0.9)
    expected = train_eagerly(module, batches_of(tmp_path), 50, make(module.parameters(), lr=1e-2))
    check(trained(tmp_path, 50, "--checkpoint", "all.safetensors"), module, expected)
    checkpoint = load_file(tmp_path / "all.safetensors")
    for name, buffer in module.named_buffers():
        torch.testing.assert_close(checkpoint[f"state/{name}"], buffer, rtol=1e-4, atol=1e-5)


def test_output_has_the_running_statistics(tmp_path):
    module = traced(Normalized, tmp_path)
    compiled(tmp_path)
    train_eagerly(module, batches_of(tmp_path), 10, torch.optim.AdamW(module.parameters(), lr=1e-2))
    again = made(Normalized)
    assert again.load_state_dict(trained(tmp_path, 10)[1], strict=False).missing_keys == []
    again, expected, inputs = again.eval(), module.eval(), rows(Normalized, 7, seed=2)
    assert again(**inputs)["loss"].item() == pytest.approx(expected(**inputs)["loss"].item(), rel=1e-3)


@pytest.mark.parametrize("model, options, frozen", [
    (Frozen, (), {"body.0.weight", "body.0.bias", "body.2.weight"}),
    (Classifier, ("--trainable", "head.*", "--trainable", "body.?.bias"), {"body.0.weight", "body.2.weight"}),
    (Frozen, ("--trainable", "body.0.*"), {"body.2.weight", "body.2.bias", "head.weight", "head.bias"}),
])
def test_frozen_parameters_keep_their_bits(model, options, frozen, tmp_path):
    module = traced(model, tmp_path)
    compiled(tmp_path, *options)
    before = copy.deepcopy(module.state_dict())
    for name, parameter in module.named_parameters():
        parameter.requires_grad_(name not in frozen)
    found = trained(tmp_path, 20)
    loaded = made(model)
    assert set(loaded.load_state_dict(found[1], strict=False).missing_keys) == frozen
    for name, parameter in loaded.named_parameters():
        assert torch.equal(parameter, before[name]) == (name in frozen), name
    optimizer = torch.optim.AdamW([parameter for parameter in module.parameters() if parameter.requires_grad], lr=1e-2)
    check(found, module, train_eagerly(module, batches_of(tmp_path), 20, optimizer))


def test_a_loss_that_is_attached(tmp_path):
    class Regression(nn.Linear):
        def forward(self, x, target):
            return super().forward(x), target

    module, inputs = Regression(8, 2), {"x": torch.randn(4, 8), "target": torch.randn(4, 2)}
    files.write(tracing.trace(copy.deepcopy(module).train(), inputs, train=True), str(tmp_path / "model.pt"))
    compiled(tmp_path, "--loss", "mse(output.0, target)", "--optimizer", "sgd")
    report, weights = trained(tmp_path, 20, lr=0.1, data="model.inputs.safetensors")
    module.forward = lambda x, target: {"loss": functional.mse_loss(nn.Linear.forward(module, x), target)}
    check((report, weights), module,
          train_eagerly(module, [inputs], 20, torch.optim.SGD(module.parameters(), lr=0.1)))


@pytest.mark.parametrize("model", [Rates, OneLoss, Doubles, Counts, Repeats])
def test_other_models(model, tmp_path):
    module = made(model)
    inputs = rows(model, BATCH)
    if model is Rates:
        inputs.update(learning_rate=torch.tensor(2.0), step=torch.tensor(0.5))
    files.write(tracing.trace(copy.deepcopy(module), inputs, train=True), str(tmp_path / "model.pt"))
    compiled(tmp_path)
    expected = train_eagerly(module, [inputs], 20, torch.optim.AdamW(module.parameters(), lr=1e-2))
    check(trained(tmp_path, 20, data="model.inputs.safetensors"), module, expected)


# The same bits


@pytest.mark.parametrize("model", [Classifier, Normalized, Drops])
def test_two_runs_give_the_same_bits(model, tmp_path):
    traced(model, tmp_path)
    compiled(tmp_path)
    plan = {path: path.read_bytes() for path in (tmp_path / "model.plan").iterdir()}
    assert results(tmp_path, 20, "--seed", 7) == results(tmp_path, 20, "--seed", 7)
    assert {path: path.read_bytes() for path in (tmp_path / "model.plan").iterdir()} == plan
    if model is Drops:
        assert results(tmp_path, 20, "--seed", 8) != results(tmp_path, 20, "--seed", 7)


@pytest.mark.parametrize("model, optimizer, shape", [
    (Normalized, "sgd(momentum=0.9)", "cosine"), (Normalized, "adamw", "constant"), (Normalized, "adamw", "linear"),
    (Drops, "adamw", "cosine"), (Classifier, "sgd", "constant")])
def test_resumed(model, optimizer, shape, tmp_path):
    """A training that fails after its checkpoint goes on as if it had not."""
    traced(model, tmp_path)
    compiled(tmp_path, "--optimizer", optimizer, "--clip-norm", "1")
    save_file(rows(model, BATCH * 20), tmp_path / "data.safetensors")
    options = ("--lr-schedule", shape, "--warmup", "12")
    numbers, weights = results(tmp_path, 20, *options, "--checkpoint", "at_once.safetensors")
    stopped = cleave("train", "model.plan", "--data", with_nan(tmp_path, 12), "--steps", 20, "--lr", "1e-2", *options,
                     "--checkpoint", "half.safetensors", "--checkpoint-every", 10, cwd=tmp_path, status=1)
    assert "step 13: the loss is nan" in stopped.err
    assert load_file(tmp_path / "half.safetensors")["steps"] == 10
    resumed, same_weights = results(tmp_path, 20, *options, "--checkpoint", "half.safetensors", "--resume")
    assert resumed == [each[10:] for each in numbers] and same_weights == weights
    assert (tmp_path / "half.safetensors").read_bytes() == (tmp_path / "at_once.safetensors").read_bytes()


def test_resumed_at_the_end(classifier, tmp_path):
    checkpoint = tmp_path / "all.safetensors"
    _, weights = results(classifier, 3, "--checkpoint", checkpoint)
    before = checkpoint.read_bytes()
    report, same_weights = trained(classifier, 3, "--checkpoint", checkpoint, "--resume")
    assert report["losses"] == [] and report["steps"] == 3
    assert (classifier / "weights.safetensors").read_bytes() == weights and checkpoint.read_bytes() == before


def test_notes(trace_model):
    """Of dropout in a training, and of a model that was saved in evaluation mode; nothing of tensor-parallel ranks."""
    config = ("hf:gpt2", "--config", "n_layer=1,n_embd=16,n_head=2,vocab_size=50,n_positions=16", "--batch", 2, "--seq", 8)
    said = {}
    for mode, options in {"train": ("--train",), "eval": ()}.items():
        model = trace_model(*config, *options)
        loss = () if options else ("--loss", "cross_entropy(output.logits, input_ids, shift=true)")
        said[mode] = cleave("compile", model.path, "--inputs", model.inputs, "--train", *loss, "-o",
                            model.path.parent / "noted.plan").out
    assert "draws random numbers, other ones than PyTorch; of train, each --seed gives its own" in said["train"]
    assert "evaluation mode" not in said["train"] and "tensor-parallel" not in said["train"]
    assert "the model was saved in evaluation mode: dropouts are off" in said["eval"]


# Other commands


def test_run_takes_steps(classifier, tmp_path):
    batch = batches_of(classifier)[0]

    def last_loss(steps, rate):
        given = put({**batch, "learning_rate": torch.tensor(rate), "step": torch.tensor(1.0)}, tmp_path)
        cleave("run", classifier / "model.plan", "--inputs", given, "--repeat", steps,
               "--outputs", tmp_path / "found.safetensors")
        found = load_file(tmp_path / "found.safetensors")
        assert set(found) == {"loss", "grad_norm"}
        return found["loss"].item()

    expected = made(Classifier)(**batch)["loss"].item()
    assert last_loss(3, rate=0.0) == pytest.approx(expected, rel=1e-5)
    assert last_loss(20, rate=1e-2) < last_loss(5, rate=1e-2) < expected


def test_run_begins_with_the_weights_of_the_plan(classifier, tmp_path):
    batch = batches_of(classifier)[0]
    given = put({**batch, "learning_rate": torch.tensor(1e-2), "step": torch.tensor(1.0)}, tmp_path)
    cleave("run", classifier / "model.plan", "--inputs", given, "--outputs", tmp_path / "found.safetensors")
    expected = made(Classifier)(**batch)["loss"].item()
    assert load_file(tmp_path / "found.safetensors")["loss"].item() == pytest.approx(expected, rel=1e-5)
