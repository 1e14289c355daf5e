"""Models taken apart by hand: modules that follow one another, each taking and giving one tensor.

This is what a user of torch.distributed.pipelining without its tracer writes, once for each architecture.
"""

import dataclasses
import time

import torch
from torch import nn

RUNS = 5


@dataclasses.dataclass
class Piece:
    path: str  # of the submodule of the model that it begins with
    module: nn.Module


def pieces_of(model):
    return MODELS[model.config.model_type](model)


def gpt2(model):
    body = model.transformer
    return [Piece("transformer.wte", GPT2Embedding(body)), *numbered("transformer.h", body.h),
            Piece("transformer.ln_f", nn.Sequential(body.ln_f, model.lm_head))]


def bert(model):
    return [Piece("bert.embeddings", model.bert.embeddings), *numbered("bert.encoder.layer", model.bert.encoder.layer),
            Piece("cls", model.cls)]


def vit(model):
    return [Piece("vit.embeddings", model.vit.embeddings), *numbered("vit.layers", model.vit.layers),
            Piece("vit.layernorm", nn.Sequential(model.vit.layernorm, FirstToken(), model.classifier))]


def resnet(model):
    stages = [piece for number, stage in enumerate(model.resnet.encoder.stages)
              for piece in numbered(f"resnet.encoder.stages.{number}.layers", stage.layers)]
    return [Piece("resnet.embedder", model.resnet.embedder), *stages,
            Piece("resnet.pooler", nn.Sequential(model.resnet.pooler, model.classifier))]


def llama(model):
    body = model.model
    layers = nn.ModuleList(LlamaLayer(layer, body.rotary_emb) for layer in body.layers)
    return [Piece("model.embed_tokens", body.embed_tokens), *numbered("model.layers", layers),
            Piece("model.norm", nn.Sequential(body.norm, model.lm_head))]


MODELS = {"gpt2": gpt2, "llama": llama, "bert": bert, "vit": vit, "resnet": resnet}


def numbered(path, modules):
    return [Piece(f"{path}.{number}", module) for number, module in enumerate(modules)]


class GPT2Embedding(nn.Module):
    def __init__(self, body):
        super().__init__()
        self.wte, self.wpe = body.wte, body.wpe

    def forward(self, input_ids):
        return self.wte(input_ids) + self.wpe(torch.arange(input_ids.shape[1]))


class LlamaLayer(nn.Module):
    """A layer that computes the rotations of positions itself."""

    def __init__(self, layer, rotary):
        super().__init__()
        self.layer, self.rotary = layer, rotary

    def forward(self, hidden):
        positions = torch.arange(hidden.shape[1])[None]
        return self.layer(hidden, position_embeddings=self.rotary(hidden, positions), position_ids=positions)


class FirstToken(nn.Module):
    def forward(self, hidden):
        return hidden[:, 0]


@torch.no_grad()
def balanced_cut(pieces, value):
    """The number of pieces in the first of two stages whose slower one is as fast as can be, by timing each piece."""
    seconds = []
    for piece in pieces:
        seconds.append(min(seconds_of(piece.module, value) for _ in range(RUNS)))
        value = piece.module(value)
    return min(range(1, len(pieces)), key=lambda cut: max(sum(seconds[:cut]), sum(seconds[cut:])))


def seconds_of(module, value):
    start = time.perf_counter()
    module(value)
    return time.perf_counter() - start
