"""torch.distributed.pipelining with stages written by hand."""

import torch
from torch import nn
from torch.distributed.pipelining import PipelineStage

import pipelining


def make_stage(model, pieces, cut, microbatch, rank):
    mine = pieces[:cut] if rank == 0 else pieces[cut:]
    return PipelineStage(nn.Sequential(*(piece.module for piece in mine)), rank, pipelining.STAGES, torch.device("cpu"))


if __name__ == "__main__":
    pipelining.run(make_stage)
