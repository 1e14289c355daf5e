"""`cleave compile --train --dtype bf16`: products in bfloat16, weights, their gradients and optimizer state in float32. Losses
are as near to those of float32 as PyTorch's autocast is."""

import copy
import pathlib

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn
from torch.nn import functional

from conftest import cleave, refused
from training_modules import Classifier, Narrow, Normalized, Repeats, batches_of, compiled, traced, train_eagerly, trained
from test_train_memory import peaks

pytestmark = pytest.mark.usefixtures("one_thread")

STEPS = 20


class Tied(Classifier):
    """Uses one weight as a table, in a product, and as it is."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(5, 8)

    def forward(self, x, labels):
        drawn = functional.linear(x + self.table((labels + 1) % 5), self.table.weight).softmax(-1)
        found = super().forward(x + drawn @ self.table.weight, labels)
        return {"loss": found["loss"] + 0.1 * self.table.weight.square().mean()}


def under_autocast(module):
    module = copy.deepcopy(module)
    forward = module.forward

    def narrow(**inputs):
        with torch.autocast("cpu", torch.bfloat16):
            found = forward(**inputs)
        return {"loss": found["loss"].float()}

    module.forward = narrow
    return module


def check_losses(report, module, batches, lr=1e-2):
    """Off from float32 by at most twice what autocast is off, plus 2^-9 of the largest value (bfloat16's rounding)."""
    expected, narrow = [train_eagerly(each, batches, STEPS, torch.optim.AdamW(each.parameters(), lr=lr))
                        for each in (copy.deepcopy(module), under_autocast(module))]
    for found, wide, cast in zip((report["losses"], report["gradient_norms"]), expected, narrow):
        found, wide, cast = map(torch.tensor, (found, wide, cast))
        allowed = 2 * (cast - wide).abs().max() + 2**-9 * wide.abs().max()
        assert (found - wide).abs().max() <= allowed
    # That it is bfloat16.
    assert report["losses"] != pytest.approx(expected[0], rel=1e-6)


@pytest.mark.parametrize("microbatches", [1, 2])
@pytest.mark.parametrize("model", [Classifier, Tied, Normalized, Repeats])
def test_losses(model, microbatches, tmp_path):
    if model is Normalized and microbatches > 1:
        pytest.skip("running statistics are refused")
    module = traced(model, tmp_path)
    compiled(tmp_path, "--dtype", "bf16", "--microbatches", microbatches)
    report, weights = trained(tmp_path, STEPS)
    assert {weights[name].dtype for name, _ in module.named_parameters()} == {torch.float32}
    check_losses(report, module, batches_of(tmp_path))


def test_language_model(tied_gpt2):
    folder, build = tied_gpt2
    module, inputs = build(), load_file(folder / "model.inputs.safetensors")
    compiled(folder, "--dtype", "bf16", "--microbatches", 3)
    report, _ = trained(folder, STEPS, data="model.inputs.safetensors", lr=1e-3)
    check_losses(report, module, [inputs], lr=1e-3)


def test_weights_move_by_less_than_bfloat16_can_hold(tmp_path):
    """As float32 does, to the error of gradients."""
    module = traced(Classifier, tmp_path)
    before = {name: parameter.detach().clone() for name, parameter in module.named_parameters()}
    compiled(tmp_path, "--dtype", "bf16", "--optimizer", "sgd")
    _, weights = trained(tmp_path, 10, lr=1e-4)
    train_eagerly(module, batches_of(tmp_path), 10, torch.optim.SGD(module.parameters(), lr=1e-4))
    for name, parameter in module.named_parameters():
        found, wide = weights[name] - before[name], parameter - before[name]
        assert (found - wide).norm() <= 0.03 * wide.norm(), name
    moved = module.head.weight.bfloat16() != before["head.weight"].bfloat16()
    assert moved.float().mean() < 0.3


def test_states_are_float32(tmp_path):
    traced(Classifier, tmp_path)
    compiled(tmp_path, "--dtype", "bf16")
    plan = cleave("inspect", "model.plan", "--format", "json", cwd=tmp_path).json()
    assert plan["precision"] == "bfloat16"
    assert {weight["dtype"] for weight in plan["weights"]} == {"float32"}
    trained(tmp_path, 2, "--checkpoint", "all.safetensors")
    tensors = load_file(tmp_path / "all.safetensors")
    assert {tensor.dtype for name, tensor in tensors.items() if name != "steps"} == {torch.float32}


@pytest.mark.parametrize("model", [Classifier, Tied])
def test_gradients(model, tmp_path):
    module = traced(model, tmp_path)
    cleave("compile", "model.pt", "--inputs", "model.inputs.safetensors", "--gradients", "--dtype", "bf16", "-o", "model.plan", cwd=tmp_path)
    inputs = batches_of(tmp_path)[0]
    save_file({name: tensor.contiguous() for name, tensor in inputs.items()}, tmp_path / "x.safetensors")
    cleave("run", "model.plan", "--inputs", "x.safetensors", "--outputs", "y.safetensors", cwd=tmp_path)
    found = load_file(tmp_path / "y.safetensors")
    module(**inputs)["loss"].backward()
    for name, parameter in module.named_parameters():
        gradient = next(tensor for key, tensor in found.items() if key.endswith(f"grad.{name}"))
        assert gradient.dtype == torch.float32
        assert 0 < (gradient - parameter.grad).norm() <= 0.03 * parameter.grad.norm(), name


def float32_sums(elements):
    """Bytes that predictions lack where gradients of so many elements are made and added in bfloat16.

    On a CPU with AVX-512 and without avx512_bf16, oneDNN's product (gemm:jit:bf16) sums in a float32 buffer of the result's size.
    What is predicted is the addition that follows: another result in bfloat16 instead of the buffer.
    """
    flags = pathlib.Path("/proc/cpuinfo").read_text().split()
    return (4 - 2) * elements if "avx512bw" in flags and "avx512_bf16" not in flags else 0


@pytest.mark.parametrize("microbatches", [1, 2])
def test_predicted_memory(microbatches, tmp_path):
    traced(Repeats, tmp_path)
    compiled(tmp_path, "--dtype", "bf16", "--optimizer", "sgd", "--microbatches", microbatches)
    predicted, measured, *_ = peaks("model.plan", tmp_path)
    assert abs(predicted + float32_sums(600 * 600) - measured) <= 0.03 * measured


def test_a_model_in_bfloat16(tmp_path):
    traced(Narrow, tmp_path)
    done = cleave("compile", "model.pt", "--inputs", "model.inputs.safetensors", "--train", "--dtype", "bf16", "-o", "model.plan", cwd=tmp_path)
    assert "--dtype bf16 changes nothing: the model has no products in float32" in done.out
    report, weights = trained(tmp_path, 5)
    assert weights["body.0.weight"].dtype == torch.bfloat16 and report["skipped_steps"] == []


def test_verify_is_refused(tmp_path):
    traced(Classifier, tmp_path)
    found = refused(tmp_path, "compile", "model.pt", "--inputs", "model.inputs.safetensors", "--train", "--dtype", "bf16", "--verify",
                    "-o", "no.plan", status=2)
    assert "--train: found --verify with --dtype" in found
    compiled(tmp_path, "--dtype", "bf16")
    assert "found gradients with products in bfloat16" in refused(tmp_path, "verify", "model.plan", "--model", "model.pt")
