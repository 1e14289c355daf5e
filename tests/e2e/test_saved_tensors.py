"""`cleave simulate --train`: the bytes that a backward pass keeps, against what PyTorch's autograd packs."""

import pathlib

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from conftest import cleave


class Attention(nn.Module):
    """Spelled out, with a mask of bools, as dropout on a GPU has it."""

    def __init__(self, width=16, heads=4):
        super().__init__()
        self.qkv, self.out, self.heads = nn.Linear(width, 3 * width), nn.Linear(width, width), heads

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = (part.view(batch, length, self.heads, -1).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        weights = torch.softmax(q @ k.transpose(-1, -2) * 0.5, -1)
        weights = weights.masked_fill(torch.rand_like(weights) < 0.1, 0)
        return self.out((weights @ v).transpose(1, 2).reshape(batch, length, width))


class Fused(Attention):
    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = (part.view(batch, length, self.heads, -1).transpose(1, 2) for part in self.qkv(x).split(width, -1))
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(batch, length, width))


class Layer(nn.Module):
    def __init__(self, attention):
        super().__init__()
        self.first, self.attention, self.second = nn.LayerNorm(16), attention(), nn.LayerNorm(16)
        self.feed_forward = nn.Sequential(nn.Linear(16, 64), nn.GELU(), nn.Linear(64, 16))

    def forward(self, x):
        x = x + self.attention(self.first(x))
        return x + self.feed_forward(self.second(x))


class Residual(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(channels, channels, 3, padding=1, bias=False), nn.BatchNorm2d(channels), nn.ReLU(),
                                  nn.Conv2d(channels, channels, 1), nn.GroupNorm(2, channels))

    def forward(self, x):
        return torch.relu(x + self.body(x))


class Gated(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate, self.up, self.down = nn.Linear(16, 32), nn.Linear(16, 32), nn.Linear(32, 16)

    def forward(self, x):
        return self.down(torch.sigmoid(self.gate(x)) * torch.tanh(self.up(x))) / (1 + x.exp())


def embedded(*layers):
    return nn.Sequential(nn.Embedding(50, 16), *layers), torch.randint(0, 50, (3, 7))


MODELS = {
    "feed_forward": lambda: embedded(Gated(), nn.SiLU(), nn.Linear(16, 50), nn.LogSoftmax(-1)),
    "attention": lambda: embedded(Layer(Attention), Layer(Attention), nn.Linear(16, 50)),
    "fused_attention": lambda: embedded(Layer(Fused), Layer(Fused)),
    "convolutions": lambda: (nn.Sequential(nn.Conv2d(3, 8, 3, stride=2), nn.MaxPool2d(2), Residual(8), Residual(8),
                                           nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 5)), torch.randn(2, 3, 21, 21)),
}


def builder(make):
    def build():
        torch.manual_seed(0)
        return make()

    return build


# For cleave-trace: `build_attention`.
globals().update({f"build_{name}": builder(make) for name, make in MODELS.items()})


def packed_bytes(model, **inputs):
    """Of distinct storages, weights and buffers left out, and single numbers of the program, which autograd has in tensors."""
    own = {tensor.untyped_storage().data_ptr() for tensor in [*model.parameters(), *model.buffers()]}
    storages = {}

    def pack(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own and tensor.dim() > 0:
            # Held, so that no other one takes its place.
            storages[storage.data_ptr()] = (storage.nbytes(), tensor)
        return tensor

    for parameter in model.parameters():
        parameter.requires_grad_(parameter.is_floating_point())
    # The executor of TorchScript would have derivatives of its own.
    with torch.jit.optimized_execution(False), torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        model(**inputs)
    return sum(size for size, _ in storages.values())


def forecast_bytes(traced):
    forecast = cleave("simulate", traced.path, "--inputs", traced.inputs, "--train", "--no-idioms", "--devices", 1, "--json").json()
    return sum(stage["saved_bytes"] for stage in forecast["stages"])


@pytest.mark.parametrize("name", MODELS)
def test_keeps_what_autograd_keeps(name, trace_model):
    traced = trace_model(f"{pathlib.Path(__file__)}:build_{name}")
    assert forecast_bytes(traced) == packed_bytes(torch.jit.load(traced.path), **load_file(traced.inputs))


@pytest.mark.parametrize("name", ["gpt2", "bert"])
def test_keeps_what_autograd_keeps_of_architectures(name, tiny_model):
    traced = tiny_model(name)
    assert forecast_bytes(traced) == packed_bytes(torch.jit.load(traced.path), **load_file(traced.inputs))


DECODER = "num_hidden_layers=2,hidden_size=32,intermediate_size=64,num_attention_heads=4,num_key_value_heads=2,vocab_size=100"
ENCODER = "num_hidden_layers=2,hidden_size=32,intermediate_size=64,num_attention_heads=4"


@pytest.mark.parametrize("name, config", [("llama", DECODER), ("mixtral", f"{DECODER},num_local_experts=4"),
                                          ("vit", f"{ENCODER},image_size=32")])
def test_keeps_little_else(name, config, trace_model):
    """Numbers for each row or expert may differ: autograd packs what its formulas do not read."""
    traced = trace_model(f"hf:{name}", "--config", config, "--batch", 2, "--seq", 16)
    kept = packed_bytes(torch.jit.load(traced.path), **load_file(traced.inputs))
    assert abs(forecast_bytes(traced) - kept) <= 0.02 * kept, (forecast_bytes(traced), kept)
