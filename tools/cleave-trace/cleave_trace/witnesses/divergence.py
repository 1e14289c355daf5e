"""The first operator at which two traces of a module differ."""

import hashlib

import torch

MAX_TIES = 0.02  # of the elements of an output


def where(calls, inputs):
    """The path of the module at whose operators the trace and one made on `inputs` diverge; empty if they do not, or unknown."""
    try:
        other = calls.second_trace(inputs)
        return first_difference(calls.script.inlined_graph, other.inlined_graph) or ""
    except Exception:
        return ""


def is_tie(calls, inputs, expected):
    """Whether the module runs the same operators on these inputs and outputs differ in few elements, as where rounding changes
    which elements a top-k selects."""
    try:
        other = calls.second_trace(inputs)
        if first_difference(calls.script.inlined_graph, other.inlined_graph) is not None:
            return False
        found = calls.of_trace(inputs)
        differ = {path: ~torch.isclose(found[path], value, rtol=1e-3, atol=1e-4, equal_nan=True) for path, value in expected.items()}
        return all(elements.sum().item() <= MAX_TIES * elements.numel() for elements in differ.values())
    except Exception:
        return False


def first_difference(graph, other):
    """The module path of the first node that differs, empty where it is unknown; None if no node differs."""
    before = ""
    nodes, others = list(walk(graph)), list(walk(other))
    for (description, path), (changed, changed_path) in zip(nodes, others):
        if description != changed:
            return path or changed_path or before
        before = path
    if len(nodes) != len(others):
        longer = max(nodes, others, key=len)
        return longer[min(len(nodes), len(others))][1]
    return None


def walk(graph):
    """(what a node does and reads, its module path) of each node of a graph, in order; constants are told apart by value."""
    numbers = {}

    def number_of(values):
        return tuple(numbers.setdefault(value.debugName(), len(numbers)) for value in values)

    def visit(block, last):
        number_of(block.inputs())
        for node in block.nodes():
            yield (node.kind(), value(node), number_of(node.inputs()), node.outputsSize()), module_path(node.scopeName())
            number_of(node.outputs())
            for inner in node.blocks():
                yield from visit(inner, inner.returnNode())
        yield ("return", None, number_of(last.inputs()), 0), ""

    yield from visit(graph, graph.return_node())


def value(node):
    """A constant's value, or the names of the attributes that a node reads."""
    if node.kind() == "prim::GetAttr":
        return node.s("name")
    if node.kind() != "prim::Constant" or not node.hasAttribute("value"):
        return None
    kind = node.kindOf("value")
    if kind == "t":
        tensor = node.t("value")
        if tensor.layout != torch.strided or tensor.is_quantized:
            return object()  # Equal to no other.
        elements = tensor.detach().resolve_conj().resolve_neg().reshape(-1).view(torch.uint8).numpy()
        return str(tensor.dtype), tuple(tensor.shape), hashlib.sha256(elements).digest()
    return getattr(node, kind)("value") if kind in ("i", "f", "s", "is", "fs") else None


def module_path(scope):
    """`__module.transformer/__module.transformer.h.0` names transformer.h.0."""
    last = scope.rpartition("/")[2]
    _, found, path = last.partition("__module.")
    return path if found else ""
