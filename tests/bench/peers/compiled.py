"""torch.compile in its default mode. Compiling is not timed."""

import torch

import peer


def prepare(options):
    module, inputs = peer.load(options)
    compiled = torch.compile(module)
    return lambda: compiled(**inputs)


if __name__ == "__main__":
    peer.run_alone(prepare)
