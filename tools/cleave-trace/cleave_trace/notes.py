"""What a user should know of a trace: what it fixes and what it leaves out."""

import contextlib
import os
import site
import sys
import warnings

import torch

from cleave_trace import gradients
from cleave_trace.errors import one_line

MOST = 5  # places, or names, that are told of one by one

# What PyTorch's tracer warns of, by a part of its words. What it says of torch.tensor() is true of constants too, and left out.
FIXED = {
    "to a Python boolean": "a condition on a tensor or a size",
    "to a Python integer": "an integer taken from a tensor or a size",
    "to a Python float": "a number taken from a tensor",
    "to a Python number": "a number taken from a tensor",
    "to a Python index": "an index taken from a tensor or a size",
    "to a Python list": "a list taken from a tensor",
    "to a NumPy array": "an array taken from a tensor",
    "Iterating over a tensor": "the number of a loop's turns over a tensor",
    "Using len to get tensor shape": "a length",
    "results are registered as constants": None,
}


@contextlib.contextmanager
def fixed_values(root):
    """Yields a list that has, at the end, what the tracer fixed within: a line for each place in the source."""
    paths = {id(module): path for path, module in root.named_modules()}
    places, found = {}, []

    def keep(message, category, filename, line, *_):
        text = one_line(message)
        what = next((what for words, what in FIXED.items() if words in text), text)
        if filename == gradients.__file__:
            filename, line = calling_line()
        if what:
            places.setdefault((filename, line, what), calling_module(paths))

    with warnings.catch_warnings():
        warnings.simplefilter("always", torch.jit.TracerWarning)
        warnings.showwarning = keep
        yield found
    for (filename, line, what), path in places.items():
        where = f"{path}: " if path else ""
        found.append(f"{where}{short(filename)}:{line}: {what} stays as the example has it; script the module if it may change")


def calling_module(paths):
    """The path of the innermost module whose method is running."""
    frame = sys._getframe(1)
    while frame:
        path = paths.get(id(frame.f_locals.get("self")))
        if path is not None:
            return path
        frame = frame.f_back
    return ""


def calling_line():
    """File and line where the module called the function that gradients.DetachUnderNoGrad is calling."""
    between = (gradients.__file__, torch.overrides.__file__, torch._tensor.__file__)
    frame = sys._getframe(1)
    while frame.f_code.co_filename != gradients.__file__:
        frame = frame.f_back
    while frame.f_code.co_filename in between:
        frame = frame.f_back
    return frame.f_code.co_filename, frame.f_lineno


def short(filename):
    """A file's name within its package's folder, or below the folder that we are in."""
    for folder in (*site.getsitepackages(), os.getcwd()):
        if filename.startswith(folder + os.sep):
            return os.path.relpath(filename, folder)
    return filename


def shown(items, what):
    """The first of `items`, and how many more there are."""
    items = list(items)
    more = len(items) - MOST
    return items if more <= 0 else [*items[:MOST], f"and {more} more {what}"]


def constants(scalars):
    """Of the scalar arguments that a trace holds; `scalars` by path."""
    if not scalars:
        return []
    given = ", ".join(shown((f"{path}={text}" for path, text in scalars.items()), "arguments"))
    return [f"{given}: constant in the trace, which takes tensors only; script the module to leave it open"]


def left_out(scalars):
    """Of what forward returns beside tensors; `scalars` by path."""
    if not scalars:
        return []
    given = ", ".join(shown((f"{path}={text}" for path, text in scalars.items()), "values"))
    return [f"{given}: returned by forward and left out, since it is no tensor; return torch.tensor(…) of it to keep it"]
