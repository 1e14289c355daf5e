"""One comparison: the module and its trace on the same inputs."""

import dataclasses
import time

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from cleave_trace import tracing
from cleave_trace.errors import one_line
from cleave_trace.witnesses import variations

SAME, DIFFERS, TRACE_FAILS, MODULE_FAILS = "same", "differs", "trace fails", "module fails"
MIN_SCALE = 1e-2  # tolerances are relative to an output's largest magnitude, or to this where it is smaller
MIN_MASK, MASK_GAP = 1e4, 100  # as those of tools/driver/verify/Comparison.cpp


@dataclasses.dataclass
class Outcome:
    kind: str
    text: str = ""  # what happened, for `at 64 …`
    outputs: dict | None = None  # the module's
    inputs: dict | None = None
    seconds: float = 0.0

    @property
    def is_same(self):
        return self.kind == SAME

    @property
    def diverges(self):
        """Whether the module runs and the trace does not follow it."""
        return self.kind in (DIFFERS, TRACE_FAILS)


class Checker:
    def __init__(self, calls, example, groups, at_traced):
        """`at_traced` is the Outcome at the example's sizes."""
        self.calls, self.example, self.groups = calls, example, groups
        self.known = {tuple(group.traced for group in groups): at_traced}

    def at(self, sizes):
        """The outcome at these sizes of the groups."""
        sizes = tuple(sizes)
        if sizes not in self.known:
            outcome = self.compare(variations.resized(self.example, self.groups, sizes))
            grows = any(size > group.traced for group, size in zip(self.groups, sizes))
            if outcome.kind == MODULE_FAILS and grows:
                outcome = self.compare(variations.resized(self.example, self.groups, sizes, natural=False))
            self.known[sizes] = outcome
        return self.known[sizes]

    def fails_within(self, sizes, seconds):
        """Whether the module fails at these sizes within `seconds`."""
        sizes = tuple(sizes)
        if sizes in self.known:
            return self.known[sizes].kind == MODULE_FAILS
        try:
            with Deadline(seconds):
                self.calls.of_module(variations.resized(self.example, self.groups, sizes, natural=False))
        except DeadlineExceeded:
            return False
        except Exception as error:
            self.known[sizes] = Outcome(MODULE_FAILS, failure(error))
            return True
        return False

    def compare(self, inputs):
        begin = time.thread_time()
        outcome = self.compare_now(inputs)
        outcome.seconds, outcome.inputs = time.thread_time() - begin, inputs
        return outcome

    def compare_now(self, inputs):
        try:
            expected = self.calls.of_module(inputs)
        except Exception as error:
            return Outcome(MODULE_FAILS, failure(error))
        if self.calls.script is None:
            return Outcome(SAME, outputs=expected)
        try:
            found = self.calls.of_trace(inputs)
        except Exception as error:
            return Outcome(TRACE_FAILS, f"the trace fails: {last_line(error)}", expected)
        text = difference(expected, found)
        return Outcome(DIFFERS, text, expected) if text else Outcome(SAME, outputs=expected)


class DeadlineExceeded(BaseException):
    """Not an Exception, which a module may catch."""


class Deadline(TorchDispatchMode):
    """Raises DeadlineExceeded at the first operator after `seconds`."""

    def __init__(self, seconds):
        super().__init__()
        self.end = time.thread_time() + seconds

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if time.thread_time() > self.end:
            raise DeadlineExceeded
        return function(*args, **(kwargs or {}))


def failure(error):
    return f"the module fails: {type(error).__name__}: {one_line(error, 160)}"


def last_line(error):
    """What an exception of TorchScript says after its traceback."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    return one_line(lines[-1] if lines else type(error).__name__, 160)


def difference(expected, found):
    """In what `found` differs from `expected`, outputs by path; empty if in nothing."""
    if list(expected) != list(found):
        return f"the trace returns {', '.join(found)}, the module {', '.join(expected)}"
    for path, value in expected.items():
        other = found[path]
        if value.shape != other.shape or value.dtype != other.dtype:
            return f"the trace answers {path} as {tracing.describe(other)}, the module as {tracing.describe(value)}"
        if not is_close(value, other):
            apart = value.to(torch.complex128) - other.to(torch.complex128)
            apart = torch.where(apart.isfinite(), apart, 0).abs().max().item() if apart.numel() else 0.0
            return f"the trace differs from the module by {apart:.3g} in {path}"
    return ""


def is_close(value, other):
    if not (value.is_floating_point() or value.is_complex()):
        return torch.equal(value, other)
    if torch.equal(value, other):
        return True
    relative = max(tracing.TOLERANCE, 8 * torch.finfo(value.dtype).eps)
    tolerance = relative * max(MIN_SCALE, largest_without_masks(value, other))
    return torch.allclose(value, other, rtol=0, atol=tolerance, equal_nan=True)


def largest_without_masks(value, other):
    """The largest finite magnitude in `value`.

    Masks are left out (-1e9, the least float): elements of at least MIN_MASK that `other` has, too, and that are at least MASK_GAP
    times as large as all others. Beside them a difference of the others would not count.
    """
    finite, sizes = value.isfinite(), value.abs()
    masks = finite & (value == other) & (sizes >= MIN_MASK)
    largest = sizes[finite & ~masks].max().item() if (finite & ~masks).any() else 0.0
    kept = sizes[masks & (sizes < MASK_GAP * largest)]
    return max(largest, kept.max().item() if kept.numel() else 0.0)


def has_nan(outputs):
    return any(value.is_floating_point() and bool(value.isnan().any()) for value in outputs.values())
