"""A few small layers whose batch can be split, and what a plan gives."""

import itertools

import torch
from safetensors.torch import load_file
from torch import nn

from conftest import cleave

X = torch.linspace(-1, 1, 48).reshape(8, 6)


def layers():
    torch.manual_seed(0)
    return nn.Sequential(*itertools.chain(*((nn.Linear(6, 6), nn.Tanh()) for _ in range(4))))


def outputs_of(plan, inputs, folder, *options):
    cleave("run", plan, "--inputs", inputs, "--outputs", folder / "outputs.safetensors", *options)
    return load_file(folder / "outputs.safetensors")
