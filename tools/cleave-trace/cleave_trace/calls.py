"""A module and its trace, to be called with other tensors than those of the example."""

import contextlib

import torch

from cleave_trace import trees


class Calls:
    """`eager` calls `module` with arguments like the nested tuple `template`, `script` the trace, None for a scripted module.

    `state` is put back after each call. `record` traces the module on such arguments.
    """

    def __init__(self, module, eager, script, template, state, seed, train, record=None):
        self.module, self.eager, self.script, self.template, self.state = module, eager, script, template, state
        self.seed, self.train, self.record = seed, train, record

    def arguments(self, tensors):
        """The template with `tensors`, by path in the order of the example inputs."""
        return trees.fill(self.template, iter([tensor.clone() for tensor in tensors.values()]))

    def of_module(self, tensors):
        """The module's answer to `tensors`, inputs by path; outputs by path."""
        return self.call(self.eager, tensors)

    def of_trace(self, tensors):
        return self.call(self.script, tensors)

    def call(self, callee, tensors):
        with self.restored(), torch.set_grad_enabled(self.train):
            found = callee(*self.arguments(tensors))
            return {path: value.detach().clone() for path, value in trees.leaves(trees.traceable(trees.plain(found)),
                                                                                "output").items()}

    def second_trace(self, tensors):
        """The module traced on `tensors`."""
        with self.restored():
            return self.record(self.arguments(tensors))

    @contextlib.contextmanager
    def restored(self):
        torch.manual_seed(self.seed)
        try:
            with torch.jit.optimized_execution(False):
                yield
        finally:
            if self.state:
                self.state.restore()
