"""What peers of two processes over Gloo share."""

import os
import tempfile
import warnings

import torch
import torch.distributed as dist

import peer

RANKS = 2


def run(prepare, check=peer.check):
    """Measures the step that `prepare(rank, options)` returns on each rank; the last rank gives the answer."""
    options = peer.parse()
    with tempfile.TemporaryDirectory() as folder:
        store = f"file://{folder}/store"
        try:
            torch.multiprocessing.spawn(work, (prepare, check, options, store), nprocs=RANKS)
        except Exception:
            raise SystemExit(1)  # the rank has reported why


def work(rank, prepare, check, options, store):
    warnings.simplefilter("ignore")
    torch.set_num_threads(options.threads)
    try:
        dist.init_process_group("gloo", init_method=store, rank=rank, world_size=RANKS)
        with torch.no_grad():
            seconds = measure(rank, prepare(rank, options), check, options)
        if rank == RANKS - 1:
            peer.report(seconds)
        dist.destroy_process_group()
    except Exception as error:
        peer.report_failure(error)
        os._exit(1)  # Gloo's threads may wait for the other rank


def measure(rank, compute, check, options):
    def step():
        """One batch alone: no rank begins the next before the last has answered."""
        answer = compute()
        dist.barrier()
        return answer

    answer = peer.warm_up(step)
    if rank == RANKS - 1:
        check(answer, options)
    # The first rank must not begin before the last one's clock.
    dist.barrier()
    return peer.mean_seconds(step, options)
