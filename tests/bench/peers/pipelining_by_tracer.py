"""torch.distributed.pipelining with stages that its tracer cuts before a submodule."""

import torch
from torch import nn
from torch.distributed.pipelining import SplitPoint, pipeline

import pipelining


class FirstOutput(nn.Module):
    """A model as one tensor to one tensor."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, value):
        return self.model(value, return_dict=False)[0]


def make_stage(model, pieces, cut, microbatch, rank):
    split = {f"model.{pieces[cut].path}": SplitPoint.BEGINNING}
    pipe = pipeline(FirstOutput(model).eval(), mb_args=(microbatch,), split_spec=split)
    return pipe.build_stage(rank, torch.device("cpu"))


if __name__ == "__main__":
    pipelining.run(make_stage)
