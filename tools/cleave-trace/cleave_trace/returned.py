"""What a user's function returned, as a module with example inputs, or why it is none."""

import inspect
import os

import torch
from torch import nn

from cleave_trace import exported, hf_cache, modes
from cleave_trace.errors import TraceError

EXPECTED = "expected (module, example inputs)"


def pair(built, train):
    """The (module, example inputs, notes) of what a function returned."""
    if isinstance(built, torch.export.ExportedProgram):
        return exported.built(built, None, train)
    if not (isinstance(built, tuple) and len(built) == 2):
        raise TraceError(f"returned {name_of(built)}, {EXPECTED}; {remedy(built) or 'return both from the function'}")
    module, example = built
    module = getattr(module, "_orig_mod", module)  # of torch.compile
    if isinstance(module, torch.export.ExportedProgram):
        return exported.built(module, example, train)
    if not isinstance(module, nn.Module):
        raise TraceError(f"returned {name_of(module)} with inputs, {EXPECTED}; {remedy(module) or 'return a torch.nn.Module'}")
    if isinstance(module, torch.jit.ScriptModule):
        notes = modes.check(modes.of_script(module), train)
        if notes:
            module.train(train)  # All modes that it has are fixed, so that this one says nothing.
        return module, example, notes
    return module, example, hf_cache.turn_off(module, example)


def name_of(value):
    if inspect.isclass(value):
        return f"the class {value.__name__}"
    if isinstance(value, nn.Module):
        return f"a {type(value).__name__} alone"
    if isinstance(value, (str, os.PathLike)):
        return f"a {type(value).__name__}, {os.fspath(value)!r}"
    if is_state(value):
        return "a state dict"
    if isinstance(value, tuple):
        return f"a tuple of {len(value)}"
    return f"a {type(value).__name__}"


def remedy(value):
    if inspect.isclass(value):
        return f"make one: {value.__name__}(…)"
    if isinstance(value, nn.Module):
        return "return the inputs of a call with it, as (module, inputs)"
    if isinstance(value, (str, os.PathLike)):
        return "load the module, with torch.jit.load(path) where the file is TorchScript"
    if is_state(value):
        return "build the module and return it after module.load_state_dict(…)"
    if isinstance(value, torch.jit.ScriptFunction) or inspect.isroutine(value):
        return "call it in the forward of a torch.nn.Module"
    return None


def is_state(value):
    return isinstance(value, dict) and bool(value) and all(isinstance(child, torch.Tensor) for child in value.values())
