"""Writes seeds.txt: calls of libtorch's operators that return a result, from which `operatorCalls` makes hostile ones.

They are recorded from the sample inputs of PyTorch's own operator tests (torch.testing's OpInfo), traced, so that operators are
seen as traces of models have them, and below autograd, forward and backward, so that those of training are seen too. Needs
the package expecttest, which those tests import.
"""

import argparse
import collections
import pathlib
import warnings

import torch
from torch import nn
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._python_dispatch import TorchDispatchMode

DTYPES = {
    torch.float32: "f32", torch.float64: "f64", torch.float16: "f16", torch.bfloat16: "bf16", torch.int64: "i64",
    torch.int32: "i32", torch.int16: "i16", torch.int8: "i8", torch.uint8: "u8", torch.bool: "bool",
    torch.complex64: "c64", torch.complex128: "c128",
}
WRITTEN = pathlib.Path(__file__).with_name("written_seeds.txt")
LARGEST = 4096      # elements of a tensor of a seed
SAMPLES = 6         # of one OpInfo and dtype
KEPT = 3            # seeds an operator


class CannotWrite(Exception):
    """A value that the text of a call has no words for."""


def number(value):
    return repr(value) if isinstance(value, int) else f"{value:.4g}"


def tensor_text(tensor):
    if tensor.layout != torch.strided or tensor.device.type != "cpu" or tensor.numel() > LARGEST:
        raise CannotWrite
    if tensor.dtype not in DTYPES or tensor.is_conj() or tensor.is_neg():
        raise CannotWrite
    sizes = ",".join(map(str, tensor.shape))
    strides = "" if tensor.is_contiguous() else ",".join(map(str, tensor.stride()))
    flat = tensor.detach().reshape(-1)
    if tensor.is_complex() or tensor.numel() == 0:
        fill = "n"
    elif tensor.numel() <= (16 if tensor.is_floating_point() else 64):
        fill = "v=" + ",".join(number(x) for x in (flat.double() if tensor.is_floating_point() else flat.long()).tolist())
    else:
        low, high = flat.double().min().item(), flat.double().max().item()
        fill = f"r={low:.4g},{high:.4g}"
    return f"t:{DTYPES[tensor.dtype]}:{sizes}:{strides}:{fill}"


def text_of(value, kind):
    """A value of an argument whose type is written `kind`."""
    if value is None:
        return "none"
    if isinstance(value, torch.Tensor):
        return tensor_text(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return f"i:{value}"
    if isinstance(value, float):
        return f"f:{value!r}"
    if isinstance(value, complex):
        return f"c:{value.real!r},{value.imag!r}"
    if isinstance(value, str):
        return "s:" + "".join(c if c.isalnum() or c in "_-." else f"%{ord(c):02x}" for c in value)
    if isinstance(value, torch.device):
        return f"d:{value}"
    if isinstance(value, torch.dtype):
        return f"i:{dtype_number(value)}"
    if isinstance(value, torch.layout):
        return f"i:{int(value == torch.sparse_coo)}" if value in (torch.strided, torch.sparse_coo) else "none"
    if isinstance(value, torch.memory_format):
        return f"i:{[torch.contiguous_format, torch.preserve_format, torch.channels_last, torch.channels_last_3d].index(value)}"
    if isinstance(value, (list, tuple)) and kind.endswith("]"):
        element = kind[: kind.rindex("[")]
        return " ".join([f"[{element}", *(text_of(item, element) for item in value), "]"])
    raise CannotWrite


def dtype_number(dtype):
    numbers = ["uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "complex32", "complex64",
               "complex128", "bool", "qint8", "quint8", "qint32", "bfloat16"]
    return numbers.index(str(dtype).removeprefix("torch."))


class Recorder(TorchDispatchMode):
    """Records the text of every operator call that succeeds, by operator name."""

    def __init__(self):
        super().__init__()
        self.calls = collections.defaultdict(set)

    def keep(self, schema, values):
        name = schema.name + ("." + schema.overload_name if schema.overload_name else "")
        if any(a.alias_info is not None and a.alias_info.is_write for a in schema.arguments):
            return
        try:
            texts = [text_of(v, schema_type(a)) for a, v in zip(schema.arguments, values, strict=True)]
        except (CannotWrite, ValueError):
            return
        self.calls[name].add(" ".join([name, *texts]))

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        schema = func._schema
        values = [args[i] if i < len(args) else kwargs[a.name] if a.name in kwargs else a.default_value
                  for i, a in enumerate(schema.arguments)]
        result = func(*args, **kwargs)
        self.keep(schema, values)
        return result


def schema_type(argument):
    """`Tensor?[]`, `int[]`: as a schema writes it, without the size of a list and whether it may be missing."""
    text = str(argument.type)
    for python, word in (("List[Optional[Tensor]]", "Tensor?[]"), ("List[Tensor]", "Tensor[]"), ("List[int]", "int[]"),
                         ("List[float]", "float[]"), ("List[bool]", "bool[]"), ("List[number]", "Scalar[]"),
                         ("List[str]", "str[]"), ("List[complex]", "complex[]")):
        if python in text:
            return word
    return text


def run_traced(recorder, function, tensors):
    """Calls what a trace of `function` calls, one operator at a time."""
    graph = torch.jit.trace(function, tuple(tensors), check_trace=False, strict=False).graph
    values = dict(zip([i.debugName() for i in graph.inputs()], tensors))
    for node in graph.nodes():
        inputs = [values[i.debugName()] for i in node.inputs()]
        outputs = [o.debugName() for o in node.outputs()]
        kind = node.kind()
        if kind == "prim::Constant":
            values[outputs[0]] = next(iter(node.outputs())).toIValue()
        elif kind in ("prim::ListConstruct", "prim::TupleConstruct"):
            values[outputs[0]] = inputs if kind == "prim::ListConstruct" else tuple(inputs)
        elif kind in ("prim::ListUnpack", "prim::TupleUnpack"):
            values.update(zip(outputs, inputs[0]))
        else:
            schema = torch._C.parse_schema(node.schema())
            call = torch._C._get_operation_overload(schema.name, schema.overload_name)[0]
            named = [argument.kwarg_only for argument in schema.arguments]
            results = call(*(v for v, is_named in zip(inputs, named) if not is_named),
                           **{a.name: v for a, v, is_named in zip(schema.arguments, inputs, named) if is_named})
            recorder.keep(schema, inputs)
            if len(outputs) == 1:
                values[outputs[0]] = results
            else:
                values.update(zip(outputs, results))


def flatten(sample):
    leaves, spec = torch.utils._pytree.tree_flatten((sample.input, sample.args, sample.kwargs))
    places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
    return leaves, spec, places


def record(recorder, op, sample):
    leaves, spec, places = flatten(sample)
    if any(leaves[i].numel() > LARGEST for i in places):
        return

    def call(*tensors):
        filled = list(leaves)
        for place, tensor in zip(places, tensors):
            filled[place] = tensor
        value, args, kwargs = torch.utils._pytree.tree_unflatten(filled, spec)
        return op(value, *args, **kwargs)

    tensors = [leaves[i].detach() for i in places]
    try:
        run_traced(recorder, call, [t.clone() for t in tensors])
    except Exception:  # noqa: BLE001  what cannot be traced is still seen below autograd
        pass
    tensors = [t.requires_grad_(t.is_floating_point() or t.is_complex()) for t in tensors]
    try:
        with recorder:
            results = torch.utils._pytree.tree_leaves(call(*tensors))
            sums = [r.abs().sum() for r in results if isinstance(r, torch.Tensor) and r.requires_grad]
            if sums:
                torch.stack([s.double() for s in sums]).sum().backward()
    except Exception:  # noqa: BLE001  some samples are meant to fail
        pass


def modules():
    """Layers that no OpInfo has, and what they are called with."""
    sequence, square = torch.randn(5, 2, 6), torch.randn(2, 3, 8, 8)
    for layer in (nn.LSTM, nn.GRU, nn.RNN):
        yield layer(6, 4), sequence
        yield layer(6, 4, num_layers=2, bidirectional=True, batch_first=True), sequence
    yield nn.RNN(6, 4, nonlinearity="relu"), sequence
    for cell in (nn.LSTMCell, nn.GRUCell, nn.RNNCell):
        yield cell(6, 4), sequence[0]
    yield nn.TransformerEncoderLayer(6, 2, 8, batch_first=True), sequence
    yield nn.Conv3d(2, 4, 3, padding=1), torch.randn(1, 2, 4, 4, 4)
    yield nn.ConvTranspose1d(2, 4, 3), torch.randn(1, 2, 5)
    yield nn.ConvTranspose3d(2, 4, 3), torch.randn(1, 2, 3, 3, 3)
    for dims, image in ((1, square[:, :, 0]), (2, square), (3, square.unsqueeze(2))):
        yield getattr(nn, f"Conv{dims}d")(3, 4, 3, padding="same"), image
    yield nn.EmbeddingBag(10, 4), torch.randint(10, (3, 4))
    yield nn.LocalResponseNorm(2), square
    for function in (
        lambda x: torch.nn.functional.affine_grid(x[:, :2, :3, 0], (2, 3, 4, 5)),
        lambda x: torch.linalg.cholesky(x[0, 0] @ x[0, 0].mT + torch.eye(8)),
        lambda x: torch.ctc_loss(x[0, :, :, :].log_softmax(-1), torch.ones(8, 2).long(), torch.full((8,), 3), torch.full((8,), 2)),
        lambda x: torch.nn.utils.rnn.pack_padded_sequence(x[0], [3] * 8)[0],
    ):
        yield function, square


def record_modules(recorder):
    for module, example in modules():
        if isinstance(module, nn.Module):
            module.eval().requires_grad_(False)
        try:
            with torch.no_grad():
                run_traced(recorder, lambda value, called=module: called(value), [example])
        except Exception as error:  # noqa: BLE001
            print(f"note: {module}: not traced: {str(error)[:200]}")
        try:
            if isinstance(module, nn.Module):
                module.requires_grad_(True)
            with recorder:
                module(example)
        except Exception as error:  # noqa: BLE001
            print(f"note: {module}: {str(error)[:200]}")


def spread_by_length(texts):
    """At most KEPT texts, evenly spaced in the list sorted by length, so that long calls with every argument are included."""
    ordered = sorted(texts, key=lambda text: (len(text), text))
    ordered = [text for text in ordered if len(text) < 1500]
    return ordered[:: max(1, len(ordered) // KEPT)][:KEPT] if ordered else []


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="operators whose OpInfo name contains this")
    parser.add_argument("output", type=pathlib.Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    recorder = Recorder()
    for op in op_db:
        if options.only not in op.name:
            continue
        for dtype in (torch.float32, torch.int64, torch.complex64, torch.bool, torch.bfloat16):
            if dtype not in op.supported_dtypes("cpu"):
                continue
            try:
                samples = list(zip(range(200), op.sample_inputs("cpu", dtype)))
            except Exception:  # noqa: BLE001  samples that need what is not here
                continue
            for _, sample in samples[:: max(1, len(samples) // SAMPLES)]:
                record(recorder, op, sample)
    record_modules(recorder)
    written = [line for line in WRITTEN.read_text().splitlines() if line and not line.startswith("#")]
    lines = sorted(written) + sorted(line for texts in recorder.calls.values() for line in spread_by_length(texts))
    options.output.write_text("\n".join(lines) + "\n")
    print(f"{len(recorder.calls)} operators, {len(lines)} calls")


main()
