"""Nested values: the tensors in them, the paths that name these, and the form in which TorchScript can hold them.

A path joins argument names, keys and positions with dots: `past.0.key`.
"""

import dataclasses
from collections.abc import Mapping

import torch

from cleave_trace.errors import TraceError, printable


def entries(value):
    """The (key, child) pairs of a container, or None for anything else."""
    if isinstance(value, Mapping):
        return [(name_of(key), child) for key, child in value.items()]
    if isinstance(value, (tuple, list)):
        return [(str(position), child) for position, child in enumerate(value)]
    return None


def name_of(key):
    name = str(key)
    if printable(name) != name:
        raise TraceError(f"found the key {printable(name)}, expected one of printable characters; rename it")
    return name


def join(path, key):
    return f"{path}.{key}" if path else key


def leaves(value, path=""):
    """Every tensor in `value` with its path, in order. Raises TraceError where two have one path."""
    if isinstance(value, torch.Tensor):
        return {path: value}
    found = {}
    for key, child in entries(value) or []:
        for name, tensor in leaves(child, join(path, key)).items():
            if name in found:
                raise named_twice(name)
            found[name] = tensor
    return found


def named_twice(path):
    return TraceError(f"{path}: two values are named so, as those of the keys 1 and '1' are, expected a name for each; "
                      "rename a key")


def scalars(value, path=""):
    """Every int, bool, float and str in `value` with its path, as `cleave compile --input PATH=TEXT` takes it."""
    if isinstance(value, (bool, int, float, str)):
        return {path: str(value).lower() if isinstance(value, bool) else str(value)}
    found = {}
    for key, child in entries(value) or []:
        found.update(scalars(child, join(path, key)))
    return found


def traceable(value):
    """`value` as TorchScript can hold it, without what is not a tensor; None if nothing is left.

    TorchScript's lists and dictionaries hold items of one type. So a list of more than tensors becomes a tuple, and a
    dictionary of more than tensors becomes flat: {"a": (x, y)} turns into {"a.0": x, "a.1": y}. Where something is left
    out before a tensor, positions become keys, since they would change: (None, x) turns into {"1": x}. So paths stay the
    same.
    """
    if isinstance(value, torch.Tensor):
        return value
    children = [(key, traceable(child)) for key, child in entries(value) or []]
    positions = [position for position, (_, child) in enumerate(children) if child is not None]
    children = [(key, child) for key, child in children if child is not None]
    if not children:
        return None
    if isinstance(value, Mapping) or positions != list(range(len(positions))):
        return leaves(dict(children))
    items = [child for _, child in children]
    is_tensor_list = isinstance(value, list) and all(isinstance(item, torch.Tensor) for item in items)
    return items if is_tensor_list else tuple(items)


def fill(template, tensors):
    """A copy of `template` with its tensors, in order, taken from the iterator `tensors`."""
    if isinstance(template, torch.Tensor):
        return next(tensors)
    if isinstance(template, Mapping):
        return {key: fill(child, tensors) for key, child in template.items()}
    if isinstance(template, (tuple, list)):
        items = [fill(child, tensors) for child in template]
        return type(template)(*items) if hasattr(template, "_fields") else type(template)(items)
    return template


def plain(value, path="output"):
    """What a forward returned as tuples, lists and dictionaries of tensors; fixed scalars and None are left out.

    Raises TraceError on an object that a trace cannot return.
    """
    if value is None or isinstance(value, (torch.Tensor, bool, int, float, str)):
        return value
    children = entries(value)
    if children is None and dataclasses.is_dataclass(value):
        children = [(field.name, getattr(value, field.name)) for field in dataclasses.fields(value)]
    if children is None:
        raise TraceError(f"{path}: forward returns a {type(value).__name__}, expected tensors in tuples, lists or "
                         "dictionaries; return the tensors that you need")
    found = {}
    for key, child in children:
        if key in found:
            raise named_twice(join(path, key))
        found[key] = plain(child, join(path, key))
    if isinstance(value, tuple):
        return tuple(found.values())
    return list(found.values()) if isinstance(value, list) else found
