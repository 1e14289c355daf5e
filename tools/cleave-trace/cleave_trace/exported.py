"""Programs of torch.export as modules that can be traced."""

import functools
import inspect

import torch
from torch.export import ExportedProgram, load, unflatten

from cleave_trace import modes
from cleave_trace.errors import TraceError, one_line

FIXED_SIZES = ("exported with fixed sizes, which stay as the export has them; pass dynamic_shapes to torch.export.export to leave "
               "them open")


def from_file(path, train):
    """The (module, example inputs, notes) of a file that torch.export.save wrote."""
    try:
        program = load(path)
    except Exception as error:
        raise TraceError(f"torch.export.load fails: {type(error).__name__}: {one_line(error)}; export it again with PyTorch "
                         f"{torch.__version__.partition('+')[0]}") from error
    return built(program, None, train)


def built(program, example, train):
    """The (module, example inputs, notes) of an ExportedProgram; without `example`, with the inputs that it was exported with.

    Submodules have the paths that they had before the export. `program` is used up.
    """
    if example is None and not program.example_inputs:
        raise TraceError("the program has no example inputs, expected those that it was exported with; return (program, example "
                         "inputs) from a function")
    notes = [] if program.range_constraints else [FIXED_SIZES]
    notes += modes.check(modes.of_program(program), train)
    for node in list(program.graph.nodes):
        record_sizes(node)
    program.graph.eliminate_dead_code()
    try:
        module = unflatten(program)
    except Exception as error:
        raise TraceError(f"torch.export.unflatten fails: {type(error).__name__}: {one_line(error)}; trace the module that it was "
                         "exported from") from error
    for node in module.graph.nodes:
        if node.op == "placeholder":
            node.meta.pop("val", None)  # Checks of sizes, which cannot be traced.
    module.train(train)
    return name_arguments(module, program), example_of(program) if example is None else example, notes


def example_of(program):
    args, kwargs = program.example_inputs
    return {**dict(zip(positional_names(program), args)), **kwargs}


def positional_names(program):
    count = program.call_spec.in_spec.children()[0].num_children
    names = program.module_call_graph[0].signature.forward_arg_names
    return names[:count] if names else [f"input_{position}" for position in range(count)]


def name_arguments(module, program):
    """Gives `module`, whose forward takes anything, the arguments with which the program was exported."""
    forward = type(module).forward

    def named_forward(*args, **kwargs):
        return forward(module, *args, **kwargs)

    kinds = {name: inspect.Parameter.POSITIONAL_OR_KEYWORD for name in positional_names(program)}
    kinds.update(dict.fromkeys(program.call_spec.in_spec.children()[1].context, inspect.Parameter.KEYWORD_ONLY))
    named_forward.__signature__ = inspect.Signature([inspect.Parameter(name, kind) for name, kind in kinds.items()])
    module.forward = named_forward
    return module


def record_sizes(node):
    """Makes a node call what TorchScript's tracer records with its sizes: Python's functions in place of overloads of operators.

    Nodes that only check something are erased.
    """
    if not isinstance(node.target, torch._ops.OpOverload):
        return
    schema = node.target._schema
    if not schema.returns and not schema.is_mutable and not node.users:
        node.graph.erase_node(node)
    elif node.target is torch.ops.aten.sym_size.int:
        node.target = torch.Tensor.size
    elif any(isinstance(given.meta.get("val"), torch.SymInt) for given in node.all_input_nodes):
        node.target = in_python(node.target)


def in_python(overload):
    name = overload._schema.name.partition("::")[2]
    places = (torch.Tensor, torch, torch.nn.functional, torch._C._nn)
    function = slices if name == "slice" else next((getattr(place, name) for place in places if hasattr(place, name)), overload)

    @functools.wraps(function)
    def call(*args, **kwargs):
        try:
            return function(*args, **kwargs)
        except TypeError:  # The function takes its arguments otherwise.
            return overload(*args, **kwargs)

    return call


def slices(tensor, dim=0, start=None, end=None, step=1):
    return tensor[(slice(None),) * (dim % tensor.dim()) + (slice(start, end, step),)]
