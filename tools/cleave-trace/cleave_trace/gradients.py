"""What a trace for training must say of gradients, and cannot record by itself.

Gradients follow the operators of a trace. The tracer does not record where gradients are off (torch.no_grad,
torch.inference_mode), and it does not record the backward of a torch.autograd.Function.
"""

import contextlib

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves, tree_map_only

from cleave_trace.errors import TraceError

DATA = torch.Tensor.data.__get__


class DetachUnderNoGrad(TorchFunctionMode):
    """Detaches what a function computes from tensors that require grad, or parameters, while gradients are off."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if function == DATA:  # The tracer makes a constant of it.
            return args[0].detach()
        if torch.is_grad_enabled() or not may_require_grad((args, kwargs)):
            return function(*args, **kwargs)
        written = destination(function, args, kwargs)
        if written is None:
            return detached(function(*args, **kwargs), but=(args, kwargs))
        if may_require_grad(written):
            raise TraceError(f"{function.__name__}: forward writes to a tensor that requires grad while gradients are off, "
                             "expected one that does not; write to a detached clone of it")
        args, kwargs = detached((args, kwargs), but=written)
        return function(*args, **kwargs)


def destination(function, args, kwargs):
    """What the function writes to: `out`, or its first argument; None if it writes to nothing."""
    name = getattr(function, "__name__", "")
    is_in_place = name == "__setitem__" or name.endswith("_") and not name.endswith("__")
    return args[0] if is_in_place else kwargs.get("out")


def may_require_grad(values):
    """Whether a tensor among the nested `values` requires grad, or is a parameter."""
    return any(isinstance(value, torch.Tensor) and (value.requires_grad or isinstance(value, torch.nn.Parameter))
               for value in tree_leaves(values))


def detached(values, but=()):
    """The nested `values` with a detach on each tensor that can have a gradient and is not in `but`."""
    kept = {id(value) for value in tree_leaves(but)}

    def cut(tensor):
        can = tensor.is_floating_point() or tensor.is_complex()
        return tensor.detach() if can and id(tensor) not in kept else tensor

    return tree_map_only(torch.Tensor, cut, values)


@contextlib.contextmanager
def tracing_gradients():
    """Context for tracing: gradients are on, and a detach is inserted where the module turns them off."""
    def detach_scripted(module, args, result):  # Its operators are not called one by one.
        if isinstance(module, torch.jit.ScriptModule) and not torch.is_grad_enabled():
            return detached(result, but=args)

    hook = torch.nn.modules.module.register_module_forward_hook(detach_scripted)
    try:
        with torch.enable_grad(), DetachUnderNoGrad():
            yield
    finally:
        hook.remove()


def check_function(cls, args):
    """Refuses a torch.autograd.Function of which the trace would have the forward alone."""
    if torch.is_grad_enabled() and may_require_grad(args):
        raise TraceError(f"{cls.__module__}.{cls.__qualname__}: found a torch.autograd.Function, whose backward a trace does "
                         "not record, expected operators with derivatives of their own; write it with these, or trace "
                         "without --train")


def check_can_train(module):
    """Refuses parts whose mode is fixed: those of torch.jit.freeze, and those that were traced in evaluation mode."""
    for path, part in module.named_modules():
        is_frozen = isinstance(part, torch.jit.ScriptModule) and not hasattr(part, "training")
        if is_frozen or isinstance(part, torch.jit.TracedModule) and not part.training:
            raise TraceError(f"{path or 'module'}: {'frozen by torch.jit.freeze' if is_frozen else 'traced in evaluation mode'}, expected a "
                             "module whose mode can be set; give the module that it was made from")


def check_script(script):
    """Refuses scripted code that turns gradients off: a detach cannot be inserted there."""
    graph = script.inlined_graph
    if any("grad_mode" in node.inputsAt(0).type().str() for node in graph.findAllNodes("prim::Enter")):
        raise TraceError("scripted code turns gradients off, which a training step would not see, expected detach() on "
                         "what has no gradient; call it, or do not script the module")
