"""torch.distributed.pipelining: two processes of one stage each over Gloo, GPipe's schedule.

The stages meet where two stages by hand balance best, for the tracer too. Attention masks are left out: they are all
ones here, and would have to be cut and sent with every micro-batch.
"""

import os
import tempfile
import warnings

import torch
import torch.distributed as dist
from torch.distributed.pipelining import ScheduleGPipe

import peer
import pieces

STAGES = 2


def run(make_stage):
    """Measures the stages that `make_stage(model, pieces, cut, microbatch, rank)` gives."""
    options = peer.parse()
    with tempfile.TemporaryDirectory() as folder:
        store = f"file://{folder}/store"
        try:
            torch.multiprocessing.spawn(work, (make_stage, options, store), nprocs=STAGES)
        except Exception:
            raise SystemExit(1)  # the rank has reported why


def work(rank, make_stage, options, store):
    warnings.simplefilter("ignore")
    torch.set_num_threads(options.threads)
    try:
        dist.init_process_group("gloo", init_method=store, rank=rank, world_size=STAGES)
        with torch.no_grad():
            seconds = measure(rank, make_stage, options)
        if rank == STAGES - 1:
            peer.report(seconds)
        dist.destroy_process_group()
    except Exception as error:
        peer.report_failure(error)
        os._exit(1)  # Gloo's threads may wait for the other rank


def measure(rank, make_stage, options):
    model, inputs = peer.load(options)
    batch = inputs[model.main_input_name]
    microbatch = batch[:options.batch // options.microbatches]
    parts = pieces.pieces_of(model)
    stage = make_stage(model, parts, agreed_cut(rank, parts, microbatch), microbatch, rank)
    schedule = ScheduleGPipe(stage, n_microbatches=options.microbatches)

    def step():
        """One batch alone: no rank begins the next before the last has answered."""
        answer = schedule.eval(*([batch] if rank == 0 else []))
        dist.barrier()
        return answer

    answer = peer.warm_up(step)
    if rank == STAGES - 1:
        peer.check(answer, options)
    # The first stage must not begin before the last one's clock.
    dist.barrier()
    return peer.mean_seconds(step, options)


def agreed_cut(rank, parts, microbatch):
    """Measured by one rank, since two would measure differently."""
    cut = [pieces.balanced_cut(parts, microbatch) if rank == 0 else None]
    dist.broadcast_object_list(cut, src=0)
    return cut[0]
