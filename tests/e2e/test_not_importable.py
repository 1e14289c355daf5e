"""Models that cannot be compiled, and files that hold none: one error that says which part and why."""

import random
import zipfile
from typing import List

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from conftest import cleave

X = torch.linspace(-1, 1, 24).reshape(4, 6)


class NoWeights(nn.Module):
    def forward(self, x):
        return torch.softmax(x, -1)


class NoTensorOut(nn.Module):
    def forward(self, x):
        return "a", 5


class CountOut(nn.Module):
    def forward(self, x):
        return x, int(x.sum())


class ListOfUnknownLength(nn.Module):
    def forward(self, x):
        rows: List[torch.Tensor] = []
        for i in range(int(x.abs().sum())):
            rows.append(x[0])
        return rows


class ModuleOut(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(6, 6)

    @torch.jit.export
    def other(self, x):
        return self.inner(x)


class Quantized(nn.Module):
    def __init__(self):
        super().__init__()
        self.part = nn.Sequential(nn.Linear(6, 6))

    def forward(self, x):
        return self.part(x)


class QuantizedTensor(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("table", torch.quantize_per_tensor(torch.ones(6), 0.1, 0, torch.qint8))

    def forward(self, x):
        return x + self.table.dequantize()


class SparseTensor(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("table", torch.eye(6).to_sparse())

    def forward(self, x):
        return torch.mm(x, self.table.to_dense())


class QuantizedRows(QuantizedTensor):
    def __init__(self):
        super().__init__()
        self.table = torch.quantize_per_channel(torch.eye(6), torch.full((6,), 0.1), torch.zeros(6), 0, torch.qint8)


class Complex128(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("table", torch.ones(6, dtype=torch.complex128))

    def forward(self, x):
        return x * self.table


class Wide(nn.Module):
    """A file of some kilobytes, with a weight of 64 TiB."""

    def __init__(self):
        super().__init__()
        self.register_buffer("table", torch.ones(1).expand(1 << 44))

    def forward(self, x):
        return x + self.table[:6]


class KeyOut(nn.Module):
    def forward(self, x):
        return {0.5: x + 1}


class Renormalizes(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(torch.ones(5, 3))

    def forward(self, x):
        rows = x.abs().long()
        return nn.functional.embedding(rows, self.table, max_norm=1.0)


class RenormalizesBags(Renormalizes):
    def forward(self, x):
        return nn.functional.embedding_bag(x.abs().long(), self.table, max_norm=1.0)


class WritesUnsaid(Renormalizes):
    def forward(self, x):
        rows = x.abs().long()
        return nn.functional.embedding(rows, nn.functional._no_grad_embedding_renorm_(self.table, rows, 1.0, 2.0))


@pytest.mark.parametrize("module, words", [
    (NoTensorOut, ["forward returns no tensor"]),
    (CountOut, ["output.1 is a int"]),
    (ListOfUnknownLength, ["model.pt: ", "output is a Tensor[]"]),
    (ModuleOut, ["no forward method"]),
    (QuantizedTensor, ["model.pt: ", "table", "QInt8"]),
    (SparseTensor, ["model.pt: table is a tensor of dtype Float (Sparse), expected a dense one; store it as to_dense() gives it"]),
    (QuantizedRows, ["model.pt: table is a quantized tensor of dtype QInt8, expected floats or integers"]),
    (Complex128, ["table", "complex128"]),
    (KeyOut, ["output", "dict key"]),
    (Wide, ["model.pt: it has 0 MB, and its weights would be 70368744 MB in a plan, 'table' the largest"]),
], ids=lambda value: value.__name__ if isinstance(value, type) else "")
def test_refused(compiler, module, words):
    error = compiler.refuse(module(), x=X)
    assert all(word in error for word in words), error


@pytest.mark.parametrize("module, words", [
    (nn.Sequential(nn.Embedding(5, 3, max_norm=1.0)), ["model.pt: 0: calls embedding with max_norm", "trace the model"]),
    (Renormalizes(), ["model.pt: calls embedding with max_norm"]),
    (RenormalizesBags(), ["model.pt: calls embedding_bag with max_norm"]),
    (WritesUnsaid(), ["aten._no_grad_embedding_renorm_ writes its argument in place"]),
], ids=["layer", "function", "bag", "unsaid"])
def test_norms_that_torchscript_leaves_out_are_refused(compiler, module, words):
    inputs = {"input": torch.tensor([[0, 1]])} if isinstance(module, nn.Sequential) else {"x": X}
    error = compiler.refuse(torch.jit.script(module.eval()), **inputs)
    assert all(word in error for word in words), error


@pytest.mark.parametrize("max_norm", [None, 1.0])
def test_norms_are_kept(compiler, max_norm):
    module = nn.Sequential(nn.Embedding(5, 3, max_norm=max_norm)).eval()
    rows = torch.tensor([[0, 1]])
    with torch.no_grad():
        traced = torch.jit.trace(module, rows) if max_norm else torch.jit.script(module)
    compiler.compile(traced, input=rows)


def test_packed_parameters_are_named(compiler):
    torch.backends.quantized.engine = "fbgemm" if "fbgemm" in torch.backends.quantized.supported_engines else "qnnpack"
    quantized = torch.ao.quantization.quantize_dynamic(Quantized().eval(), {nn.Linear}, dtype=torch.float16)
    error = compiler.refuse(torch.jit.trace(quantized, X), x=X)
    assert "model.pt: part.0: " in error and "part.0._packed_params" in error and "LinearPackedParams" in error, error


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(6, 6)

    def forward(self, x):
        return self.lstm(x)[0]


@pytest.mark.parametrize("save", [lambda module: torch.jit.trace(module, X[:, None]), torch.jit.script], ids=["trace", "script"])
def test_quantized_recurrent_layers_name_a_remedy(compiler, save):
    torch.backends.quantized.engine = "fbgemm" if "fbgemm" in torch.backends.quantized.supported_engines else "qnnpack"
    error = compiler.refuse(save(torch.ao.quantization.quantize_dynamic(Recurrent().eval(), {nn.LSTM})), x=X[:, None])
    assert "lstm" in error and error.endswith("; leave this module out of quantization, of which only layers that are Linear, "
                                              "in int8, can be taken: quantize_dynamic(model, {torch.nn.Linear})"), error


class PackedStride(nn.Module):
    def __init__(self):
        super().__init__()
        weight = torch.quantize_per_tensor(torch.ones(2, 2, 1, 1), 1.0, 0, torch.qint8)
        self.packed = torch.ops.quantized.conv2d_prepack(weight, None, [1, 1], [0, 0], [1, 1], 1)

    def forward(self, x):
        return x + self.packed.stride()[0]


def test_methods_of_libraries_are_named(compiler):
    torch.backends.quantized.engine = "fbgemm" if "fbgemm" in torch.backends.quantized.supported_engines else "qnnpack"
    error = compiler.refuse(torch.jit.script(nn.Sequential(PackedStride())), input=X)
    assert "model.pt: 0: calls stride of 0.packed" in error and "Conv2dPackedParams" in error, error


def save_state(path):
    torch.save(nn.Linear(6, 6).state_dict(), path)


def save_pickled_module(path):
    torch.save(nn.Linear(6, 6), path)


def save_exported(path):
    torch.export.save(torch.export.export(nn.Linear(6, 6), (X,)), path)


def save_zip(path):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("model/data.pkl", b"nothing")
        archive.writestr("model/constants.pkl", b"nothing")


def save_tensor(path):
    torch.jit.save(torch.jit.script(NoWeights()), path)
    with zipfile.ZipFile(path) as archive:
        records = {item: archive.read(item) for item in archive.namelist()}
    write = torch._C.PyTorchFileWriter(str(path))
    for name, content in records.items():
        name = name.split("/", 1)[1]
        if name not in ("version", "byteorder", ".data/serialization_id"):
            content = b"\x80\x02K\x05." if name == "data.pkl" else content
            write.write_record(name, content, len(content))
    write.write_end_of_file()


def save_old_state(path):
    torch.save(nn.Linear(6, 6).state_dict(), path, _use_new_zipfile_serialization=False)


def save_weights(path):
    save_file(nn.Linear(6, 6).state_dict(), path)


@pytest.mark.parametrize("save, what", [
    (save_state, "is a file of torch.save, "), (save_pickled_module, "is a file of torch.save, "),
    (save_old_state, "is a file of torch.save, "), (save_weights, "is a safetensors file, "),
    (save_exported, "is a torch.export archive (.pt2), "), (save_zip, ""), (save_tensor, ""),
], ids=lambda value: getattr(value, "__name__", ""))
def test_other_files_than_torchscript(compiler, save, what):
    compiler.save(NoWeights(), {"x": X})
    save(compiler.folder / "model.pt")
    error = compiler.refuse_saved()
    assert error.startswith(f"error: model.pt: {what}") and "TorchScript" in error, error
    assert not what or "trace" in error and "cleave-trace" in error, error


def test_an_exported_program_is_named_without_inputs(compiler):
    """Before anything else that is missing; also where a plan is compared with it."""
    compiler.compile(nn.Linear(6, 6), input=X)
    save_exported(compiler.folder / "model.pt2")
    said = "error: model.pt2: is a torch.export archive (.pt2), expected TorchScript; .pt2 files cannot be compiled yet: "
    assert cleave("compile", "model.pt2", "-o", "new.plan", cwd=compiler.folder, status=1).err.startswith(said)
    assert cleave("verify", "model.plan", "--model", "model.pt2", cwd=compiler.folder, status=1).err.startswith(said)
    assert not (compiler.folder / "new.plan").exists()


def test_a_flipped_bit_anywhere(compiler):
    compiler.save(nn.Linear(6, 6), {"input": X})
    path = compiler.folder / "model.pt"
    content = path.read_bytes()
    for bit in random.Random(0).sample(range(8 * len(content)), 16):
        damaged = bytearray(content)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        error = compiler.refuse_saved()
        assert error.startswith("error: model.pt: "), (bit, error)
