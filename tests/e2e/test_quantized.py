"""Layers whose weights are packed integers."""

import warnings

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from conftest import cleave

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from torch.ao import quantization

X = torch.linspace(-1, 1, 8 * 32).reshape(8, 32)

MODULE = """
import warnings

import torch
from torch import nn
from torch.ao import quantization

def build():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(32, 48), nn.ReLU(), nn.Linear(48, 16, bias=False)).eval()
    return quantization.quantize_dynamic(model, {nn.Linear}), torch.linspace(-1, 1, 256).reshape(8, 32)
"""


def layers():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(32, 48), nn.ReLU(), nn.Linear(48, 48), nn.Tanh(), nn.Linear(48, 16, bias=False)).eval()


def dynamically(qconfig):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.jit.trace(quantization.quantize_dynamic(layers(), {nn.Linear: qconfig}), X)


def statically():
    """Quantized from end to end, calibrated on one batch."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = nn.Sequential(quantization.QuantStub(), nn.Linear(32, 48), nn.ReLU(), nn.Linear(48, 48), nn.Linear(48, 16),
                              quantization.DeQuantStub()).eval()
        model.qconfig = quantization.get_default_qconfig("fbgemm")
        model = quantization.fuse_modules(model, [["1", "2"]])
        quantization.prepare(model, inplace=True)
        model(X)
        return torch.jit.trace(quantization.convert(model), X)


def assert_same_bits(compiler, model, *options, **inputs):
    found = compiler.run(model, *options, **inputs)["output"]
    with torch.no_grad():
        assert torch.equal(found, model(*inputs.values()))
    cleave("run", "model.plan", "--inputs", "model.inputs.safetensors", "--check-types", cwd=compiler.folder)
    report = cleave("inspect", "model.plan", "--json", cwd=compiler.folder).json()
    assert report["replicated_ops"] == [] and not any(note["kind"] == "unknown-type" for note in report["notes"])
    return report


@pytest.mark.parametrize("qconfig", [quantization.default_dynamic_qconfig, quantization.per_channel_dynamic_qconfig],
                         ids=["per-tensor", "per-channel"])
@pytest.mark.parametrize("devices", [1, 2])
def test_dynamically_quantized_layers(compiler, qconfig, devices):
    report = assert_same_bits(compiler, dynamically(qconfig), "--devices", devices, "--dynamic", "input=batch,_", input=X)
    weights = {weight["name"]: weight for weight in report["weights"]}
    assert weights["0._packed_params._packed_params.weight"]["dtype"] == "int8"
    # The weights as they are stored, a quarter of the floats.
    assert sum(stage["weight_bytes"] for stage in report["stages"]) < 1.5 * (32 * 48 + 48 * 48 + 48 * 16 + 4 * 96)


@pytest.mark.parametrize("devices, more", [(1, ()), (2, ()), (2, ("--microbatches", "4"))])
def test_statically_quantized_layers(compiler, devices, more):
    """What flows between stages is quantized too; batches may be split."""
    assert_same_bits(compiler, statically(), "--devices", devices, *more, "--dynamic", "input=batch,_", input=X)


def test_dynamic_scales_are_of_the_whole_batch(compiler):
    error = compiler.refuse(dynamically(quantization.default_dynamic_qconfig), "--microbatches", "2", input=X)
    assert "quantized.linear_dynamic has no rule for dimension batch" in error, error


def test_quantized_module_is_traced(tmp_path):
    (tmp_path / "small.py").write_text(MODULE)
    from cleave_trace import cli

    assert cli.main([f"{tmp_path / 'small.py'}:build", "-o", str(tmp_path / "m.pt")]) == 0
    report = cleave("compile", "m.pt", "--inputs", "m.inputs.safetensors", "--devices", 2, "--verify", "--json", "-o", "m.plan",
                    cwd=tmp_path).json()
    assert report["max_abs_error"] == 0
    cleave("run", "m.plan", "--inputs", "m.inputs.safetensors", "--outputs", "y.safetensors", "--repeat", 3, cwd=tmp_path)
    assert torch.equal(load_file(tmp_path / "y.safetensors")["output"], load_file(tmp_path / "m.outputs.safetensors")["output"])
