"""Training steps of the package tensor_parallel: two threads of one process, one for each half of the model."""

import torch

import train_eager
import two_threads


def prepare(options):
    split, inputs = two_threads.split(options)
    return train_eager.step_of(split.train(), split.parameters(), inputs)


if __name__ == "__main__":
    train_eager.run_alone(prepare)
