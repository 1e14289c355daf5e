"""Inputs of the user's own, `--witness FILE`."""

import pathlib

from safetensors import SafetensorError
from safetensors.torch import load_file

from cleave_trace.errors import TraceError, one_line
from cleave_trace.tracing import describe


def load(path, example):
    """The inputs in a .safetensors file; they have the names, types and numbers of dimensions of `example`."""
    if not pathlib.Path(path).is_file():
        raise TraceError(f"--witness {path}: no such file, expected a .safetensors file of inputs; check the path")
    try:
        found = load_file(path)
    except (SafetensorError, OSError) as error:
        raise TraceError(f"--witness {path}: {one_line(error)}, expected a .safetensors file of inputs; write it with "
                         "safetensors.torch.save_file") from error
    for name in found:
        if name not in example:
            raise TraceError(f"--witness {path}: no input {name}, expected {', '.join(example)}; check its name")
    for name, tensor in example.items():
        if name not in found:
            raise TraceError(f"--witness {path}: {name} is missing, expected {', '.join(example)}; add it")
        given = found[name]
        if given.dtype != tensor.dtype or given.dim() != tensor.dim():
            raise TraceError(f"--witness {path}: {name} is {describe(given)}, expected {describe(tensor)}, of any size; "
                             "convert it")
    return {name: found[name] for name in example}
