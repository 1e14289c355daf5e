"""The file that Cleave compiles, frozen, on the first GPU."""

import torch
from safetensors.torch import load_file

import peer


def prepare(options):
    frozen = torch.jit.freeze(torch.jit.load(options.traced, map_location="cuda").eval())
    return peer.on_gpu(frozen, load_file(options.traced.with_suffix(".inputs.safetensors")))


if __name__ == "__main__":
    peer.run_alone(prepare)
