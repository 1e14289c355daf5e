"""Where a model comes from: transformers, torchvision or a Python file."""

import dataclasses
import importlib.util
import pathlib
import sys

import torch
from torch import nn

from cleave_trace.errors import TraceError


@dataclasses.dataclass
class Options:
    config: dict[str, str]  # fields of the model's configuration, as written
    class_name: str | None
    batch: int
    seq: int
    seed: int
    train: bool = False  # example inputs include labels


def load(source, options):
    """The (module, example inputs) that `source` names, its weights drawn from `options.seed`."""
    torch.manual_seed(options.seed)
    kind, _, name = source.partition(":")
    if kind == "hf":
        from cleave_trace import huggingface

        return huggingface.load(name, options)
    if kind == "torchvision":
        from cleave_trace import vision

        return vision.load(name, options)
    return from_python_file(source)


def from_python_file(source):
    """Calls `build` of `my_module.py:build`."""
    path, _, function = source.rpartition(":")
    path = pathlib.Path(path)
    if not path.is_file():
        raise TraceError("no such file, expected a Python file; check the path")
    # The file may import its neighbours.
    sys.path.insert(0, str(path.resolve().parent))
    # Beside the file nothing is left but the trace.
    sys.dont_write_bytecode = True
    spec = importlib.util.spec_from_file_location(path.stem, path)
    code = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = code
    spec.loader.exec_module(code)
    if not callable(getattr(code, function, None)):
        raise TraceError(f"no function {function} in the file, expected one that returns (module, example inputs); "
                         "check its name")
    built = getattr(code, function)()
    if not (isinstance(built, tuple) and len(built) == 2 and isinstance(built[0], nn.Module)):
        raise TraceError(f"returned a {type(built).__name__}, expected (module, example inputs); "
                         "return both from the function")
    return built
