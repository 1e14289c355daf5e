"""Recurrent layers: their types are known without running them, and are those of a run."""


import pytest
import torch
from torch import nn

from conftest import cleave


@pytest.mark.parametrize("layer, shape, dynamic", [
    (nn.LSTM(6, 5, 2, batch_first=True, bidirectional=True), (4, 7, 6), "batch,time,_"),
    (nn.LSTM(6, 5, proj_size=3), (7, 4, 6), "time,batch,_"),
    (nn.GRU(6, 5, 2, bias=False), (7, 4, 6), "time,batch,_"),
    (nn.GRU(6, 5, bidirectional=True), (7, 6), "time,_"),
    (nn.RNN(6, 5, batch_first=True, nonlinearity="relu"), (4, 7, 6), "batch,time,_"),
], ids=["lstm", "projected", "gru", "unbatched", "rnn"])
def test_types_are_those_of_a_run(compiler, layer, shape, dynamic):
    x = torch.linspace(-1, 1, torch.Size(shape).numel()).reshape(shape)
    with torch.no_grad():
        module = torch.jit.trace(layer.eval(), x)
    result = compiler.compile(module, "--dynamic", f"input={dynamic}", input=x)
    assert "only known when running" not in result.out
    cleave("run", "model.plan", "--inputs", "model.inputs.safetensors", "--check-types", cwd=compiler.folder)
    outputs = cleave("inspect", "model.plan", "--json", cwd=compiler.folder).json()["signatures"][0]["outputs"]
    assert "time" in outputs[0]["shape"] and all(None not in output["shape"] for output in outputs)
