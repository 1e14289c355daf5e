"""Where a model comes from: transformers, torchvision, a Python file or a program of torch.export."""

import dataclasses
import importlib.util
import pathlib
import sys

import torch

from cleave_trace import archives, exported, returned, weights
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
    """The (module, example inputs, notes) that `source` names, its weights drawn from `options.seed`."""
    torch.manual_seed(options.seed)
    module, example, notes = find(source, options)
    weights.check(module, example)
    return module, example, notes


def find(source, options):
    kind, _, name = source.partition(":")
    if kind == "hf":
        from cleave_trace import huggingface

        return *huggingface.load(name, options), []
    if kind == "torchvision":
        from cleave_trace import vision

        return *vision.load(name, options), []
    if not kind.endswith(".py"):
        archives.check_program(source)
        return exported.from_file(source, options.train)
    return returned.pair(from_python_file(source), options.train)


def from_python_file(source):
    """What `build` of `my_module.py:build` returns."""
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
    return getattr(code, function)()
