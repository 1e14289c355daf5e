"""What the modules of an eager model return, by the names of capture points, and edits of it by forward hooks."""

import contextlib
import dataclasses
from collections.abc import MutableMapping

import torch


def tensors_of(value):
    """The tensors that a module returned, in the order of their marks (cleave_trace.marking.alias)."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, MutableMapping):
        return [tensor for child in value.values() for tensor in tensors_of(child)]
    if dataclasses.is_dataclass(value):
        return [tensor for field in dataclasses.fields(value) for tensor in tensors_of(getattr(value, field.name))]
    if isinstance(value, (tuple, list)):
        return [tensor for child in value for tensor in tensors_of(child)]
    return []


def with_tensors(value, tensors):
    """`value` with its tensors, in order, from the iterator."""
    if isinstance(value, torch.Tensor):
        return next(tensors)
    if isinstance(value, MutableMapping):
        for key, child in list(value.items()):
            value[key] = with_tensors(child, tensors)
        return value
    if dataclasses.is_dataclass(value):
        return dataclasses.replace(value, **{field.name: with_tensors(getattr(value, field.name), tensors)
                                             for field in dataclasses.fields(value)})
    if isinstance(value, (tuple, list)):
        items = [with_tensors(child, tensors) for child in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    return value


@contextlib.contextmanager
def hooked(module, visit):
    """Calls `visit(name, tensor)` for each tensor that a submodule returns; what it returns takes the tensor's place."""
    calls = {}

    def after(path):
        def leave(_module, _arguments, result):
            calls[path] = calls.get(path, 0) + 1
            name = path if calls[path] == 1 else f"{path}#{calls[path]}"
            changed = [visit(name if leaf == 0 else f"{name}[{leaf}]", tensor) for leaf, tensor in enumerate(tensors_of(result))]
            return with_tensors(result, iter(changed))
        return leave

    handles = [part.register_forward_hook(after(path)) for path, part in module.named_modules() if path]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def recorded(module, run):
    """{name: what the module returned}, of one call of `run`."""
    found = {}

    def keep(name, tensor):
        found[name] = tensor.clone()
        return tensor

    with torch.no_grad(), hooked(module, keep):
        run()
    return found


def edited(module, run, edits):
    """What `run` returns where `edits[name]` changes what the module called so returns."""
    with torch.no_grad(), hooked(module, lambda name, tensor: edits[name](tensor) if name in edits else tensor):
        return run()
