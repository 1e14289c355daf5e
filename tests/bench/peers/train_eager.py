"""Training steps of the module itself, operator by operator, with the fused AdamW of torch.optim."""

import torch
from safetensors.torch import load_file

import peer
from cleave_trace import sources, tracing

RATE = 1e-4


def prepare(options, change=lambda module: module):
    """A step that returns the loss, with the model and the inputs that were traced."""
    choice = sources.Options(options.config, None, options.batch, options.seq, seed=0, train=True)
    module = sources.load(options.source, choice)[0].train()
    inputs = load_file(options.traced.with_suffix(".inputs.safetensors"))
    optimizer = torch.optim.AdamW(module.parameters(), lr=RATE, fused=True)
    changed = change(module)

    def step():
        optimizer.zero_grad()
        loss = changed(**inputs)["loss"]
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def run_alone(prepare):
    options = peer.parse()
    torch.set_num_threads(options.threads)
    try:
        step = prepare(options)
        first = step()
        if not tracing.is_close(load_file(options.traced.with_suffix(".outputs.safetensors"))["output.loss"], first):
            raise ValueError("the first loss is not that of the trace")
        peer.warm_up(step)
        peer.report(peer.mean_seconds(step, options))
    except Exception as error:
        raise SystemExit(peer.report_failure(error))


if __name__ == "__main__":
    run_alone(prepare)
