"""Tensors that cannot be in a trace: those without values, and those that are not dense."""

import itertools

import torch

from cleave_trace import notes, trees
from cleave_trace.errors import TraceError


def check(module, example):
    """Refuses parameters, buffers and example inputs that have no values, or are not dense."""
    given = {f"example inputs: {path}" if path else "example inputs": value for path, value in trees.leaves(example).items()}
    tensors = dict(itertools.chain(module.named_parameters(), module.named_buffers(), given.items()))
    for path, value in tensors.items():
        if torch.nn.parameter.is_lazy(value):
            raise TraceError(f"{path}: has no shape yet, expected values; call the module once in the function, with an example")
        if value.is_nested or value.layout != torch.strided:
            kind = "nested tensor" if value.is_nested else f"tensor of layout {value.layout}"
            raise TraceError(f"{path}: a {kind}, expected a dense one; give it as one, as to_dense() and to_padded_tensor() do")
    empty = [path for path, value in tensors.items() if value.is_meta]
    if empty:
        raise TraceError(f"{', '.join(notes.shown(empty, 'tensors'))}: on the meta device, without values, expected tensors with "
                         "values; load the weights, or build the module without torch.device(\"meta\")")
