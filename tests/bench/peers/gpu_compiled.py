"""The module under torch.compile with CUDA graphs, on the first GPU."""

import torch

import peer


def prepare(options):
    module, inputs = peer.load(options)
    return peer.on_gpu(torch.compile(module.cuda(), mode="reduce-overhead"), inputs)


if __name__ == "__main__":
    peer.run_alone(prepare)
