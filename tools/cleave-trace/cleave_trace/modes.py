"""Operators whose training mode is fixed, as those of traced, frozen and exported modules are."""

import torch

from cleave_trace.errors import TraceError

NAMES = ("train", "training")  # as schemas call the argument
ON = ("operators have their training mode fixed to be on, as those of a module traced, frozen or exported in training mode, so "
      "that outputs may be random; call eval() on the module before that")


def check(modes, train):
    """Notes on the set of `modes` that a module has fixed; refuses a fixed evaluation mode with `train`."""
    if train and False in modes:
        raise TraceError("module: traced, frozen or exported in evaluation mode, expected a module whose mode can be set; give the "
                         "module that it was made from")
    return [ON] if True in modes and not train else []


def of_script(module):
    """The modes that a scripted module has fixed; none where it reads its own mode."""
    modes = set()
    for node in nodes(module.inlined_graph):
        if node.kind() == "prim::GetAttr" and node.s("name") == "training":
            return set()
        if node.schema() != "(no schema)":
            arguments = torch._C.parse_schema(node.schema()).arguments
            modes.update(value.toIValue() for argument, value in zip(arguments, node.inputs())
                         if argument.name in NAMES and value.node().kind() == "prim::Constant")
    return modes


def nodes(block):
    for node in block.nodes():
        yield node
        for inner in node.blocks():
            yield from nodes(inner)


def of_program(program):
    """The modes that a program of torch.export has fixed."""
    return {value for node in program.graph.nodes if isinstance(node.target, torch._ops.OpOverload)
            for argument, value in zip(node.target._schema.arguments, node.args) if argument.name in NAMES}
