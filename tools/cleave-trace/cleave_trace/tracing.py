"""From a module and an example call to a TorchScript module that answers as the original does."""

import contextlib
import copy
import dataclasses
import inspect
import time

import torch
from torch import nn

from cleave_trace import gradients, marking, notes, signatures, trees
from cleave_trace.calls import Calls
from cleave_trace.errors import TraceError, one_line
from cleave_trace.state import Buffers, State

# Of an output's largest value. A trace may take another kernel than the module (attention with a mask of ones, say), so
# bits may differ; what this allows is far below what a wrongly fixed branch or size does to an answer.
TOLERANCE = 1e-4
# A scripted module keeps its state from call to call, and so does its plan.
REMEDY_FOR_STATE = "give torch.jit.script(module), which keeps it, or take {} as an argument and return it"


@dataclasses.dataclass
class Trace:
    module: torch.jit.ScriptModule
    inputs: dict[str, torch.Tensor]  # by path
    outputs: dict[str, torch.Tensor]  # what the trace answers, by path
    scalars: dict[str, str]  # what `cleave compile` needs besides, as --input NAME=VALUE, by path
    warnings: list[str]  # what the trace fixed, by place in the source
    notes: list[str]  # what it leaves out
    expected: dict[str, torch.Tensor]  # what the module answers, by path
    calls: Calls | None  # to call both with other inputs; None if the module keeps what it computes
    call_seconds: float  # of one call of each


@contextlib.contextmanager
def no_fused_layers():
    """torch.nn.TransformerEncoderLayer and MultiheadAttention as the operators that they are made of, which can be split."""
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)


@contextlib.contextmanager
def properties_unread():
    """Within it, torch.jit.trace reads no property of a module. It reads all attributes, to find methods marked as exported.

    A property may fail, or copy all weights to stack them.
    """
    internal = torch._jit_internal

    def is_exported(item):
        return callable(item) and internal.get_torchscript_modifier(item) is internal.FunctionModifiers.EXPORT

    def has_exported_methods(module):
        return any(is_exported(inspect.getattr_static(module, name, None)) for name in dir(module))

    before = internal.module_has_exports
    internal.module_has_exports = has_exported_methods
    try:
        yield
    finally:
        internal.module_has_exports = before


@contextlib.contextmanager
def shallowest_paths(root):
    """Within it, torch.jit.trace calls a module that is there under several paths by the shallowest, of equals by the first.

    It would take the last. Wrappers register what they wrap a second time, deeper.
    """
    def rename(module, args):
        if module is not root or (paths := torch.jit._trace._trace_module_map) is None:
            return
        found, level = {root: "__module"}, [root]
        while level:
            below = []
            for parent in level:
                for name, child in parent.named_children():
                    if child not in found:
                        found[child] = f"{found[parent]}.{name}"
                        below.append(child)
            level = below
        paths.update((child, path) for child, path in found.items() if child is not root)

    handle = nn.modules.module.register_module_forward_pre_hook(rename)
    try:
        yield
    finally:
        handle.remove()


@torch.no_grad()
def trace(module, example, seed=0, train=False):
    """Traces `module` on `example`: a tensor, a tuple of positional arguments or a dictionary of keyword arguments.

    `module` is in the mode to trace and is used up: it keeps the classes that marking gives it. With `train`, the trace
    also says where gradients are off, and buffers are left as they were.
    """
    bound = bind(module, example)
    if not trees.leaves(marking.named_arguments(bound)):
        raise TraceError("example inputs: no tensor among them, expected at least one; give the arguments of forward")
    if isinstance(module, torch.jit.ScriptModule):
        return pass_on(module, bound, seed, train)
    before = Snapshot(module, bound)
    restore_buffers = before.restore_buffers if train else lambda: None
    state, begin = State(module), time.thread_time()

    def call():
        with torch.set_grad_enabled(train):
            return answer(lambda: module(*bound.args, **bound.kwargs), "the module fails on its example inputs", seed)

    answered = trees.plain(call())
    seconds = time.thread_time() - begin
    expected = copies(some_leaves(answered))
    restore_buffers()
    state = begin_anew(state, module, lambda: check_again(before, expected, call()))
    restore_buffers()

    inputs = marking.take_tensors_only(module, bound)
    marking.rename_reserved(module)
    marking.mark_outputs(module)
    values = tuple(inputs.values())

    def record(values):
        functions = marking.functions_inlined(gradients.check_function if train else None)
        own_gradients = gradients.tracing_gradients() if train else contextlib.nullcontext()
        with functions, no_fused_layers(), properties_unread(), shallowest_paths(module), own_gradients:
            script = answer(lambda: torch.jit.trace(module, values, strict=False, check_trace=False),
                            "TorchScript cannot trace the module", seed)
            return marking.keep_marked(module, script)

    with notes.fixed_values(module) as fixed:
        script = record(values)
    if train:
        gradients.check_script(script)
    restore_buffers()
    begin = time.thread_time()
    found = answer(lambda: script(*values), "the trace fails on its example inputs", seed)
    seconds += time.thread_time() - begin
    outputs = copies(trees.leaves(found, "output"))
    restore_buffers()
    try:
        check_same(expected, outputs)
    except TraceError:
        before.check_unchanged()
        again = answer(lambda: module(*values), "the module fails when called again", seed)
        check_stateless(expected, trees.leaves(again, "output"))
        raise
    scalars = trees.scalars(marking.named_arguments(bound))
    left_out = notes.left_out(trees.scalars(answered, "output"))
    calls = Calls(module, module, script, values, state, seed, train, record)
    return Trace(script, trees.leaves(inputs), outputs, {}, fixed, [*notes.constants(scalars), *left_out],
                 expected, calls, seconds)


def begin_anew(state, module, check):
    """Puts back what the first call left in Python, so that the trace does not find what it computed.

    Returns the State to which all later calls return. `check` calls the module once more and refuses one that answers
    otherwise then.
    """
    now = State(module)
    if now.names_of_tensors() != state.names_of_tensors():
        return now  # The call has made what the module needs.
    if state.has_changed():
        check()
        state.restore_attributes()
    return state


def check_again(before, expected, answered):
    found = copies(some_leaves(trees.plain(answered)))
    try:
        check_stateless(expected, found)
    except TraceError:
        before.check_unchanged()
        raise


def pass_on(module, bound, seed, train):
    """A scripted module stays as it is, with all its arguments; what it keeps from call to call, too: a copy is called."""
    if train:
        gradients.check_script(module)
    inputs = trees.leaves(marking.named_arguments(bound))
    tensors = iter([tensor.clone() for tensor in trees.leaves((bound.args, bound.kwargs)).values()])
    args, kwargs = trees.fill((bound.args, bound.kwargs), tensors)
    called, begin = copy.deepcopy(module), time.thread_time()
    state = Buffers(called)

    def call(args, kwargs):
        return called(*args, **kwargs)

    answered = trees.plain(answer(lambda: call(args, kwargs), "the module fails on its example inputs", seed))
    seconds, outputs = time.thread_time() - begin, copies(some_leaves(answered))
    calls = Calls(called, call, None, (bound.args, bound.kwargs), state, seed, train)
    if not (train or state.is_same()) or not answers_again(calls, inputs, outputs):
        calls = None
    return Trace(module, inputs, outputs, trees.scalars(marking.named_arguments(bound)), [],
                 notes.left_out(trees.scalars(answered, "output")), outputs, calls, seconds)


def answers_again(calls, inputs, outputs):
    """Whether a scripted module answers as before."""
    calls.state.restore()
    try:
        check_stateless(outputs, calls.of_module(inputs))
    except Exception:
        return False
    return True


def some_leaves(answered):
    """The tensors that a call returned, by path; there are some."""
    found = trees.leaves(trees.traceable(answered), "output")
    if not found:
        raise TraceError("output: forward returns no tensor, expected at least one; return what it computes")
    return found


def copies(tensors):
    """Tensors by path that no longer change when a buffer does."""
    return {path: value.clone() for path, value in tensors.items()}


class Snapshot:
    """What a call of a module must leave alone: its inputs and its buffers."""

    def __init__(self, module, bound):
        self.inputs = trees.leaves(marking.named_arguments(bound))
        self.module = module
        self.before = copies(self.inputs)
        self.places = dict(module.named_buffers())
        self.buffers = copies(self.places)

    def restore_buffers(self):
        """Undoes what a call wrote to buffers, as normalization does in training mode."""
        for path, value in self.module.named_buffers():
            if value is not self.places.get(path):
                raise TraceError(f"{path}: forward sets this buffer, which a trace does not record, expected one that is "
                                 "written in place; use copy_")
            value.copy_(self.buffers[path])

    def check_unchanged(self):
        for path, value in self.inputs.items():
            if not same_bits(value, self.before[path]):
                raise TraceError(f"input {path}: forward changes it in place, so that tracing does not see what it was, "
                                 f"expected inputs left as they are; begin forward with a clone of it")
        for path, value in self.module.named_buffers():
            if path in self.buffers and not same_bits(value, self.buffers[path]):
                raise TraceError(f"{path}: forward changes this buffer, so that each call answers otherwise, expected a "
                                 f"module without state; {REMEDY_FOR_STATE.format('it')}")


def same_bits(value, other):
    return value.shape == other.shape and torch.equal(value.nan_to_num(), other.nan_to_num())


def check_stateless(found, again):
    """Refuses a module that answers otherwise when it is called once more."""
    for path, value in found.items():
        other = again.get(path)
        if other is None or value.shape != other.shape or value.dtype != other.dtype or not is_close(value, other):
            raise TraceError(f"{path}: forward answers otherwise when it is called again, expected a module without state; "
                             + REMEDY_FOR_STATE.format("what it keeps"))


def bind(module, example):
    """The example call, matched with the arguments of the module's forward."""
    if isinstance(example, torch.Tensor):
        args, kwargs = (example,), {}
    elif isinstance(example, dict):
        args, kwargs = (), example
    elif isinstance(example, (tuple, list)):
        args, kwargs = tuple(example), {}
    else:
        raise TraceError(f"example inputs: a {type(example).__name__}, expected a tensor, a tuple of arguments or a "
                         "dictionary of keyword arguments; wrap it in a tuple")
    signature = signatures.of(module)
    try:
        return signature.bind(*args, **kwargs)
    except TypeError as error:
        raise TraceError(f"example inputs: {error}, expected forward{signature}; give one value an argument") from error


def answer(run, failure, seed):
    """What `run` returns, with random operators seeded; what it raises becomes a TraceError beginning with `failure`."""
    torch.manual_seed(seed)
    try:
        return run()
    except TraceError:
        raise
    except Exception as error:
        raise TraceError(f"{failure}: {type(error).__name__}: {one_line(error)}; "
                         "pass --traceback to see where") from error


def check_same(expected, found):
    """Refuses a trace whose outputs are not those of the module."""
    if list(expected) != list(found):
        raise TraceError(f"output: the trace returns {', '.join(found)}, expected {', '.join(expected)}; return tensors "
                         "in tuples, lists or dictionaries")
    for path, value in expected.items():
        other = found[path]
        if value.shape != other.shape or value.dtype != other.dtype:
            raise TraceError(f"{path}: the trace answers with {describe(other)}, expected {describe(value)}; "
                             "script the submodule that chooses by value")
        if not is_close(value, other):
            difference = (value.to(torch.complex128) - other.to(torch.complex128)).abs().max().item()
            raise TraceError(f"{path}: the trace differs from the module by {difference:.3g}, expected the same answer; "
                             "script the submodule that chooses by value")


def is_close(value, other):
    if not (value.is_floating_point() or value.is_complex()):
        return torch.equal(value, other)
    finite = value[value.isfinite()].abs()
    largest = finite.max().item() if finite.numel() else 1.0
    tolerance = max(TOLERANCE, 8 * torch.finfo(value.dtype).eps) * max(1.0, largest)
    return torch.allclose(value, other, rtol=0, atol=tolerance, equal_nan=True)


def describe(tensor):
    """Type and shape as `cleave` writes them: `f32[4,128]`."""
    return f"{dtype_name(tensor)}[{','.join(map(str, tensor.shape))}]"


def dtype_name(tensor):
    return DTYPE_NAMES.get(tensor.dtype, str(tensor.dtype).removeprefix("torch."))


DTYPE_NAMES = {torch.bool: "bool", torch.uint8: "u8", torch.int8: "i8", torch.int16: "i16", torch.int32: "i32",
               torch.int64: "i64", torch.float16: "f16", torch.bfloat16: "bf16", torch.float32: "f32",
               torch.float64: "f64", torch.complex64: "c64", torch.complex128: "c128"}
