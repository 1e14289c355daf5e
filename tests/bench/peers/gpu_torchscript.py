"""The module traced on the first GPU, frozen. The file that Cleave compiles names CPUs where the module makes tensors."""

import torch

import peer
from cleave_trace import tracing


def prepare(options):
    # Tracing takes no tensors made in inference mode.
    with torch.inference_mode(False):
        module, inputs = peer.load(options)
        traced = tracing.trace(module.cuda(), peer.to_gpu(inputs))
    return peer.on_gpu(torch.jit.freeze(traced.module.eval()), {name: value.cpu() for name, value in traced.inputs.items()})


if __name__ == "__main__":
    peer.run_alone(prepare)
