"""Training steps of torch.distributed.pipelining: two processes of one stage each, cut by hand, in the schedule 1F1B.

The gradients of a weight that both stages have are added up, which its user has to know.
"""

import torch
import torch.distributed as dist
from torch.distributed.pipelining import Schedule1F1B

import pieces
import pipelining
import pipelining_by_hand
import train_eager
import train_gloo


def prepare(rank, options):
    model, inputs = train_eager.load(options)
    batch, labels = inputs[model.main_input_name], inputs["labels"]
    microbatch = batch[:options.batch // options.microbatches]
    parts = pieces.pieces_of(model)
    cut = pipelining.agreed_cut(rank, parts, microbatch)
    stage = pipelining_by_hand.make_stage(model, parts, cut, microbatch, rank)
    schedule = Schedule1F1B(stage, options.microbatches, lambda scores, labels: model.loss_function(
        scores, labels, vocab_size=model.config.vocab_size))
    shared = model.get_input_embeddings().weight
    is_tied = shared is model.get_output_embeddings().weight
    optimizer = torch.optim.AdamW(stage.submod.parameters(), lr=train_eager.RATE, fused=True)

    def step():
        optimizer.zero_grad()
        losses = []
        schedule.step(*([batch] if rank == 0 else []), **({"target": labels, "losses": losses} if rank else {}))
        if is_tied:
            dist.all_reduce(shared.grad)
        optimizer.step()
        return torch.stack(losses).mean().detach() if rank else None

    return step


if __name__ == "__main__":
    train_gloo.run(prepare)
