"""Training steps of the module itself, operator by operator, with the fused AdamW of torch.optim; and what other peers that train share."""

import torch
from safetensors.torch import load_file

import peer
from cleave_trace import sources, tracing

RATE = 1e-4


def load(options):
    """The module that was traced, in training mode, and the inputs by name."""
    choice = sources.Options(options.config, None, options.batch, options.seq, seed=0, train=True)
    return sources.load(options.source, choice)[0].train(), load_file(options.traced.with_suffix(".inputs.safetensors"))


def prepare(options, change=lambda module: module):
    """A step that returns the loss."""
    module, inputs = load(options)
    return step_of(change(module), module.parameters(), inputs)


def step_of(model, parameters, inputs):
    optimizer = torch.optim.AdamW(parameters, lr=RATE, fused=True)

    def step():
        optimizer.zero_grad()
        loss = model(**inputs)["loss"]
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def check_first(loss, options):
    if not tracing.is_close(load_file(options.traced.with_suffix(".outputs.safetensors"))["output.loss"], loss):
        raise ValueError("the first loss is not that of the trace")


def run_alone(prepare):
    options = peer.parse()
    torch.set_num_threads(options.threads)
    try:
        step = prepare(options)
        check_first(step(), options)
        peer.warm_up(step)
        peer.report(peer.mean_seconds(step, options))
    except Exception as error:
        raise SystemExit(peer.report_failure(error))


if __name__ == "__main__":
    run_alone(prepare)
