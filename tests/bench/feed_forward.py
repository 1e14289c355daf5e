"""The feed-forward block by which Lightning's documentation shows tensor parallelism, for cleave-trace."""

import torch
from torch import nn

BATCH = 8


class FeedForward(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.w1 = nn.Linear(width, width, bias=False)
        self.w2 = nn.Linear(width, width, bias=False)
        self.w3 = nn.Linear(width, width, bias=False)

    def forward(self, x):
        return self.w2(nn.functional.silu(self.w1(x)) * self.w3(x))


class Trained(FeedForward):
    def forward(self, x):
        return {"loss": super().forward(x).sum()}


def trained_8192():
    return Trained(8192).train(), {"x": torch.randn(BATCH, 8192)}


def block_8192():
    return example(8192)


def block_1024():
    return example(1024)


def example(width):
    return FeedForward(width).eval(), torch.randn(BATCH, width)
