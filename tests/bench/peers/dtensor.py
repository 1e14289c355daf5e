"""DTensor's parallelize_module: two processes over Gloo, and what a user of it writes for each architecture.

The head stays whole on each rank, since it is tied to the embedding.
"""

import torch
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

import gloo
import peer


def prepare(rank, options):
    model, inputs = peer.load(options)
    plan = MODELS[model.config.model_type](model)
    parallelize_module(model, init_device_mesh("cpu", (gloo.RANKS,)), plan)
    return lambda: model(**inputs)


def gpt2(model):
    """ColwiseParallel and RowwiseParallel know nn.Linear only: the model has to be rewritten with it."""
    plan = {}
    for number, block in enumerate(model.transformer.h):
        split_heads(block.attn)
        block.mlp.c_fc, block.mlp.c_proj = linear(block.mlp.c_fc), linear(block.mlp.c_proj)
        plan |= column_then_row(f"transformer.h.{number}", ["attn.c_attn"], "attn.c_proj")
        plan |= column_then_row(f"transformer.h.{number}", ["mlp.c_fc"], "mlp.c_proj")
    return plan


def bert(model):
    plan = {}
    for number in range(len(model.bert.encoder.layer)):
        path = f"bert.encoder.layer.{number}"
        attention = [f"attention.self.{name}" for name in ("query", "key", "value")]
        plan |= column_then_row(path, attention, "attention.output.dense")
        plan |= column_then_row(path, ["intermediate.dense"], "output.dense")
    return plan


def llama(model):
    plan = {}
    for number, layer in enumerate(model.model.layers):
        path = f"model.layers.{number}"
        plan |= column_then_row(path, [f"self_attn.{name}_proj" for name in "qkv"], "self_attn.o_proj")
        plan |= column_then_row(path, ["mlp.gate_proj", "mlp.up_proj"], "mlp.down_proj")
    return plan


MODELS = {"gpt2": gpt2, "bert": bert, "llama": llama}


def column_then_row(path, columns, row):
    return {**{f"{path}.{name}": ColwiseParallel() for name in columns}, f"{path}.{row}": RowwiseParallel()}


def split_heads(attention):
    """Query, key and value are one product, whose columns go by rank now: each has its own heads' of all three."""
    width = attention.embed_dim
    ours = torch.arange(3 * width).view(3, gloo.RANKS, width // gloo.RANKS).transpose(0, 1).flatten()
    attention.c_attn, attention.c_proj = linear(attention.c_attn), linear(attention.c_proj)
    attention.c_attn.weight.copy_(attention.c_attn.weight[ours])
    attention.c_attn.bias.copy_(attention.c_attn.bias[ours])
    attention.split_size //= gloo.RANKS
    attention.num_heads //= gloo.RANKS


def linear(convolution):
    """transformers' Conv1D as nn.Linear."""
    made = nn.Linear(*convolution.weight.shape)
    made.weight.copy_(convolution.weight.T)
    made.bias.copy_(convolution.bias)
    return made


if __name__ == "__main__":
    gloo.run(prepare)
