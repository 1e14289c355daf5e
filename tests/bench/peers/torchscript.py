"""The file that Cleave compiles, frozen and run by TorchScript's interpreter."""

import torch
from safetensors.torch import load_file

import peer


def prepare(options):
    frozen = torch.jit.freeze(torch.jit.load(options.traced).eval())
    inputs = load_file(options.traced.with_suffix(".inputs.safetensors"))
    return lambda: frozen(**inputs)


if __name__ == "__main__":
    peer.run_alone(prepare)
