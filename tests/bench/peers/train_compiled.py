"""Training steps of the module under torch.compile, with the fused AdamW of torch.optim."""

import torch

import train_eager

if __name__ == "__main__":
    train_eager.run_alone(lambda options: train_eager.prepare(options, torch.compile))
