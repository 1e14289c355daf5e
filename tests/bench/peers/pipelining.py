"""torch.distributed.pipelining: two processes of one stage each, GPipe's schedule.

The stages meet where two stages by hand balance best, for the tracer too. Attention masks are left out: they are all
ones here, and would have to be cut and sent with every micro-batch.
"""

import functools

import torch.distributed as dist
from torch.distributed.pipelining import ScheduleGPipe

import gloo
import peer
import pieces

STAGES = gloo.RANKS


def run(make_stage):
    """Measures the stages that `make_stage(model, pieces, cut, microbatch, rank)` gives."""
    gloo.run(functools.partial(prepare, make_stage))


def prepare(make_stage, rank, options):
    model, inputs = peer.load(options)
    batch = inputs[model.main_input_name]
    microbatch = batch[:options.batch // options.microbatches]
    parts = pieces.pieces_of(model)
    stage = make_stage(model, parts, agreed_cut(rank, parts, microbatch), microbatch, rank)
    schedule = ScheduleGPipe(stage, n_microbatches=options.microbatches)
    return lambda: schedule.eval(*([batch] if rank == 0 else []))


def agreed_cut(rank, parts, microbatch):
    """Measured by one rank, since two would measure differently."""
    cut = [pieces.balanced_cut(parts, microbatch) if rank == 0 else None]
    dist.broadcast_object_list(cut, src=0)
    return cut[0]
