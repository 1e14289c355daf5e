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
    """Detaches what a function computes from tensors that require grad, or parameters, while gradients are off.

    Refuses what changes gradients and leaves no operator in a trace: hooks, and writes through a detached alias.
    """

    def __init__(self):
        super().__init__()
        # Storages of tensors that require grad and have a detached alias, by address; kept, so that none is made there anew.
        self.aliased = {}

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        name = getattr(function, "__name__", "")
        check_call(name, args, kwargs)
        if function == DATA or name == "detach":
            if may_require_grad(args[0]):
                self.aliased[args[0].untyped_storage()._cdata] = args[0]
            return args[0].detach()  # The tracer makes a constant of `.data`.
        written = destination(function, args, kwargs)
        for value in tree_leaves(written):
            if isinstance(value, torch.Tensor) and not value.requires_grad and value.untyped_storage()._cdata in self.aliased:
                raise TraceError(f"{name}: forward writes through detach() or .data to a tensor that requires grad, which a "
                                 "trace records as a new value without a gradient; write to a clone of it")
        if torch.is_grad_enabled() or not may_require_grad((args, kwargs)):
            return function(*args, **kwargs)
        if written is None:
            return detached(function(*args, **kwargs), but=(args, kwargs))
        if may_require_grad(written):
            raise TraceError(f"{name}: forward writes to a tensor that requires grad while gradients are off, "
                             "expected one that does not; write to a detached clone of it")
        args, kwargs = detached((args, kwargs), but=written)
        return function(*args, **kwargs)


def check_call(name, args, kwargs):
    """Refuses calls that a trace does not record, or not as they are."""
    if name in ("register_hook", "register_post_accumulate_grad_hook"):
        raise TraceError(f"{name}: found a hook on gradients, which a trace does not record, expected none; remove it")
    if name == "embedding" and (kwargs.get("max_norm") or len(args) > 3 and args[3]):
        raise TraceError("embedding: found max_norm, with which forward writes to the weight, expected None; "
                         "bound the norms in the training loop")


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
    """Refuses hooks on gradients, and parts whose mode is fixed: those of torch.jit.freeze, and those that were traced in evaluation mode."""
    for path, parameter in module.named_parameters():
        if parameter._backward_hooks or getattr(parameter, "_post_accumulate_grad_hooks", None):
            raise TraceError(f"{path}: found a hook on its gradient, which a trace does not record, expected none; remove it")
    for path, part in module.named_modules():
        if getattr(part, "_backward_hooks", None) or getattr(part, "_backward_pre_hooks", None):
            raise TraceError(f"{path or 'module'}: found a backward hook, which a trace does not record, expected none; remove it")
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
