"""What a module keeps in Python and in its tensors from call to call, and how it is put back."""

import collections

import torch
from torch import nn

# Entries of vars(module) that nn.Module itself manages; the dictionaries of tensors are looked at on their own.
# One's own `forward` is how the module is called, which marking changes.
INTERNAL = {name for name in vars(nn.Module()) if name != "training"} | {"forward"}
DEPTH = 3
CONTAINERS = (list, dict, set, collections.deque)


class State:
    """The attributes and buffers of a module and of its submodules as they are now.

    Attributes are kept by identity; lists, dictionaries, sets and plain objects in them also by what they hold.
    """

    def __init__(self, root):
        self.modules = [module for module in root.modules() if not isinstance(module, torch.jit.ScriptModule)]
        self.attributes = [attributes(module) for module in self.modules]
        self.tensors = {id(module): (dict(module._buffers), dict(module._parameters)) for module in self.modules}
        # Casts give a parameter other data.
        self.data = [(parameter, parameter.data) for parameter in root.parameters() if parameter.layout == torch.strided]
        self.held, self.values = {}, {}  # by the identity of what is kept
        for found in self.attributes:
            for value in found.values():
                self.keep(value, DEPTH)
        for buffer in root.buffers():
            self.keep_tensor(buffer)

    def keep(self, value, depth):
        if isinstance(value, torch.Tensor):
            self.keep_tensor(value)
            return
        if id(value) in self.held or depth == 0:
            return
        if isinstance(value, CONTAINERS):
            self.held[id(value)] = (value, children(value))
            for child in value.values() if isinstance(value, dict) else value:
                self.keep(child, depth - 1)
        elif is_plain_object(value):
            self.held[id(value)] = (value, dict(vars(value)))
            for child in vars(value).values():
                self.keep(child, depth - 1)

    def keep_tensor(self, tensor):
        if id(tensor) not in self.values and type(tensor) in (torch.Tensor, nn.Buffer) and not tensor.is_sparse \
                and tensor.layout == torch.strided:
            self.values[id(tensor)] = (tensor, tensor._version, tensor.detach().clone())

    def names_of_tensors(self):
        """Changes where a call makes or removes parameters or buffers."""
        return [[(name, type(tensor)) for name, tensor in sorted({**buffers, **parameters}.items())]
                for buffers, parameters in self.tensors.values()]

    def has_changed(self):
        """Whether a call left anything else behind in Python; tensors do not count."""
        for module, before in zip(self.modules, self.attributes):
            now = attributes(module)
            if now.keys() != before.keys() or any(not is_same(now[name], before[name]) for name in before):
                return True
        return any(not same_children(value, before) for value, before in self.held.values())

    def restore_attributes(self):
        """Puts back all but tensors."""
        for module, before in zip(self.modules, self.attributes):
            own = vars(module)
            for name in attributes(module).keys() - before.keys():
                del own[name]
            own.update(before)
        for value, before in self.held.values():
            if not same_children(value, before):
                refill(value, before)

    @torch.no_grad()
    def restore(self):
        self.restore_attributes()
        for module in self.modules:
            buffers, parameters = self.tensors[id(module)]
            put_back(module._buffers, buffers)
            put_back(module._parameters, parameters)
        for parameter, data in self.data:
            if parameter.dtype != data.dtype or parameter.data_ptr() != data.data_ptr():
                parameter.data = data
        for tensor, version, value in list(self.values.values()):
            # Batch normalization writes its statistics and leaves the version.
            if tensor._version != version or not torch.equal(tensor, value):
                if tensor.shape != value.shape:  # `out=` may have resized it.
                    tensor.resize_(value.shape)
                tensor.detach().copy_(value)
                self.values[id(tensor)] = (tensor, tensor._version, value)


class Buffers:
    """The buffers of a scripted module as they are now."""

    def __init__(self, root):
        self.values = [(buffer, buffer.detach().clone()) for buffer in root.buffers()]

    def is_same(self):
        return all(torch.equal(buffer.nan_to_num(), value.nan_to_num()) for buffer, value in self.values)

    @torch.no_grad()
    def restore(self):
        for buffer, value in self.values:
            buffer.detach().copy_(value)


def attributes(module):
    return {name: value for name, value in vars(module).items() if name not in INTERNAL}


def is_plain_object(value):
    """An object of a class written in Python, which is neither a module nor a function."""
    return (hasattr(value, "__dict__") and not isinstance(value, (nn.Module, type)) and not callable(value)
            and type(value).__module__ not in ("builtins", "types", "functools") and isinstance(vars(value), dict)
            and not type(value).__module__.startswith("torch."))


def children(value):
    return dict(value) if isinstance(value, dict) else set(value) if isinstance(value, set) else list(value)


def is_same(now, before):
    """By identity; numbers and texts by value."""
    if now is before:
        return True
    return type(now) is type(before) and isinstance(now, (bool, int, float, str, bytes, torch.Size)) and now == before


def same_children(value, before):
    now = children(value) if isinstance(value, CONTAINERS) else vars(value)
    if len(now) != len(before):
        return False
    if isinstance(before, dict):
        return all(key in now and is_same(now[key], item) for key, item in before.items())
    if isinstance(before, set):
        return now == before
    return all(is_same(one, other) for one, other in zip(now, before))


def refill(value, before):
    if isinstance(value, CONTAINERS):
        value.clear()
        value.extend(before) if isinstance(value, (list, collections.deque)) else value.update(before)
    else:
        put_back(vars(value), before)


def put_back(own, before):
    for name in own.keys() - before.keys():
        del own[name]
    own.update(before)
