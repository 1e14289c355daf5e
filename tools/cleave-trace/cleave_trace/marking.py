"""Classes that change how a module traces, put on the module itself.

A wrapper module around the model would prefix every path in the file, so each module gets a subclass of its own class
instead, with the same name.
"""

import contextlib
import copy
import dataclasses
import functools
import inspect
import itertools
import keyword
import types
from collections import OrderedDict
from collections.abc import MutableMapping

import torch
import torch.utils.checkpoint
from torch import nn

from cleave_trace import trees

CONTAINERS = (nn.ModuleList, nn.ModuleDict, nn.ParameterList, nn.ParameterDict)
# A class's attribute, and in the file one of the module: its outputs are marked, so that a value without a mark is none of them.
MARKED = "cleave_outputs_are_marked"
# Nodes of a trace: sizes, and numbers that follow from the numbers among their inputs.
SIZES = {"aten::size", "aten::numel"}
NUMBERS = {"prim::NumToTensor", *(f"aten::{name}" for name in (
    "Float", "Int", "add", "ceil", "div", "floor", "floor_divide", "mul", "neg", "pow", "remainder", "round", "rsub", "sub", "trunc"))}


def replace_forward(module, forward, **attributes):
    """Gives `module` a subclass of its class with this `forward`; `module` keeps its identity and its class's name."""
    cls = type(module)
    names = {"__module__": cls.__module__, "__qualname__": cls.__qualname__, "__doc__": cls.__doc__}
    module.__class__ = type(cls.__name__, (cls,), {"forward": forward, **names, **attributes})


def alias(value, numbers=None):
    """`value` with `aten::alias`, which copies nothing, on each of its tensors: once on the first, twice on the second.

    A trace drops the outputs that nobody reads, so that their order does not say which of them another one is.
    """
    numbers = numbers or itertools.count(1)
    if isinstance(value, torch.Tensor):
        if is_size(value):
            return value
        for _ in range(next(numbers)):
            value = torch.ops.aten.alias(value)
        return value
    if isinstance(value, MutableMapping):
        aliased = copy.copy(value)
        for key, child in value.items():
            aliased[key] = alias(child, numbers)
        return aliased
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        aliased = copy.copy(value)
        for field in dataclasses.fields(value):
            object.__setattr__(aliased, field.name, alias(getattr(value, field.name), numbers))
        return aliased
    if isinstance(value, (tuple, list)) and not isinstance(value, torch.Size):
        items = [alias(item, numbers) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    return value


def is_size(tensor):
    """True of a size, or a number made of sizes, which a trace has as a tensor and the module returns as a number."""
    if tensor.dim() or not torch.jit.is_tracing():
        return False
    found, pending = {}, [torch._C._get_value_trace(tensor)]  # Kinds of nodes by the name of their value.
    while pending:
        value = pending.pop()
        if value.debugName() in found:
            continue
        found[value.debugName()] = kind = value.node().kind()
        if kind in NUMBERS:
            pending.extend(value.node().inputs())
        elif kind not in SIZES and kind != "prim::Constant":
            return False
    return not SIZES.isdisjoint(found.values())


def rename_reserved(root):
    """Puts a `_` behind names of submodules that are words of Python, such as `in`: a file of TorchScript could not be read.

    Code that asks for the module by its own name still finds it.
    """
    for module in list(root.modules()):
        if isinstance(module, torch.jit.ScriptModule):
            continue
        renamed = {name: f"{name}_" for name in module._modules if keyword.iskeyword(name)}
        if not renamed:
            continue
        module._modules = {renamed.get(name, name): child for name, child in module._modules.items()}
        cls = type(module)

        def find(self, name, renamed=renamed, cls=cls):
            return self._modules[renamed[name]] if name in renamed else cls.__getattr__(self, name)

        names = {"__module__": cls.__module__, "__qualname__": cls.__qualname__, "__doc__": cls.__doc__}
        module.__class__ = type(cls.__name__, (cls,), {"__getattr__": find, **names})


def mark_outputs(root):
    """Puts an `aten::alias` inside each submodule on what it returns.

    A trace keeps only the values that escape a module, and calls a value by the innermost module that made it. With
    the mark, each module's own output is there, under the module's own name. The module's own forward hooks, which may
    change its output, run in front of the mark: the tracer's scope of a module ends before they would. `keep_marked` says
    in the trace which modules are marked: of one whose outputs nobody reads, no mark is left.
    """
    for module in list(root.modules()):
        has_own_forward = "forward" in vars(module)
        if module is root or has_own_forward or isinstance(module, (*CONTAINERS, torch.jit.ScriptModule)):
            continue
        hooks, module._forward_hooks = module._forward_hooks, OrderedDict()
        replace_forward(module, marked(type(module).forward, hooks), **{MARKED: True})


def keep_marked(root, script):
    """Gives the modules of a trace of `root` the attribute MARKED if their outputs are marked. Returns the trace."""
    modules = dict(root.named_modules(remove_duplicate=False))
    for path, traced in script.named_modules():
        if getattr(type(modules[path]), MARKED, False):
            traced._c._register_attribute(MARKED, torch._C.BoolType.get(), True)
    return script


def marked(forward, hooks):
    """`forward`, then `hooks` (the module's `_forward_hooks`, from which a hook may remove itself), then the mark."""
    @functools.wraps(forward)
    def marked_forward(self, *args, **kwargs):
        result = forward(self, *args, **kwargs)
        for key, hook in list(hooks.items()):
            takes_kwargs = key in self._forward_hooks_with_kwargs
            changed = hook(self, args, kwargs, result) if takes_kwargs else hook(self, args, result)
            result = result if changed is None else changed
        return alias(result)

    return marked_forward


@contextlib.contextmanager
def functions_inlined(check=None):
    """Within it, calling a torch.autograd.Function runs its forward in the open: TorchScript cannot save the call.

    `check` may refuse a class with its arguments, except torch.utils.checkpoint's, whose gradients are the operators' own.
    """
    @classmethod
    def apply(cls, *args, **kwargs):
        if cls is torch.utils.checkpoint.CheckpointFunction:
            run, preserves_random_state, *args = args
            has_gradient = any(isinstance(value, torch.Tensor) and value.requires_grad for value in args)
            with torch.set_grad_enabled(torch.is_grad_enabled() and has_gradient):
                return run(*args)
        if check and cls.__module__ != "torch.utils.checkpoint":
            check(cls, (args, kwargs))
        has_own_context = cls.setup_context is not torch.autograd.Function.setup_context
        return cls.forward(*args, **kwargs) if has_own_context else cls.forward(ForwardContext(), *args, **kwargs)

    # Function.apply, which a module may have kept under a name of its own, calls this class's.
    base = torch.autograd.function._SingleLevelFunction
    base.apply = apply
    try:
        yield
    finally:
        del base.apply


class ForwardContext:
    """The context of a torch.autograd.Function that no backward pass will read."""

    needs_input_grad = ()

    def save_for_backward(self, *tensors):
        self.saved_tensors = tensors

    def ignore(self, *values):
        pass

    save_for_forward = mark_dirty = mark_non_differentiable = set_materialize_grads = ignore


def take_tensors_only(root, bound):
    """Gives `root` a forward whose arguments are the tensors of an example call, by their own names.

    `bound` is the example call as inspect.BoundArguments; what it holds besides tensors is fixed. Returns the arguments
    as {name: value}. The new forward returns what trees.traceable makes of the original's result.
    """
    original = vars(root).pop("forward", None) or types.MethodType(type(root).forward, root)
    arguments = named_arguments(bound)
    traced = {name: trees.traceable(value) for name, value in arguments.items()}
    traced = {name: value for name, value in traced.items() if value is not None}

    def tensor_forward(self, *values):
        tensors = iter(trees.leaves(values).values())
        args, kwargs = trees.fill((bound.args, bound.kwargs), tensors)
        return trees.traceable(trees.plain(original(*args, **kwargs)))

    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    tensor_forward.__signature__ = inspect.Signature([inspect.Parameter(name, kind) for name in ("self", *traced)])
    replace_forward(root, tensor_forward)
    return traced


def named_arguments(bound):
    """The arguments of a call by name, in the order of `bound.args` and `bound.kwargs`; `*xs` gives xs_0, xs_1, …"""
    named = {}
    for name, value in bound.arguments.items():
        kind = bound.signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_POSITIONAL:
            named.update({f"{name}_{position}": item for position, item in enumerate(value)})
        elif kind is inspect.Parameter.VAR_KEYWORD:
            named.update(value)
        else:
            named[name] = value
    return named
