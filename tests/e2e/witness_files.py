"""Files of witnesses as docs/witnesses.md has them, written here apart from cleave-trace."""

import json
import math
import zipfile

import torch
from safetensors.torch import save_file

UNLIMITED = 2**63 - 1


def splitmix64(z):
    mask = 2**64 - 1
    z = (z + 0x9E3779B97F4A7C15) & mask
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & mask
    z = (z ^ z >> 27) * 0x94D049BB133111EB & mask
    return z ^ z >> 31


def stored(tensor, key):
    """The tensors of an output, by name."""
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor)
    if tensor.numel() <= 4096:
        return {key: tensor.clone().contiguous()}
    shape = list(tensor.shape)
    kept = max(rank for rank in range(len(shape) + 1) if math.prod(shape[:rank]) <= 4096)
    block = math.prod(shape[kept:])
    rows = tensor.reshape(-1, block).double()
    signs = torch.tensor([1.0 if splitmix64(i) % 2 == 0 else -1.0 for i in range(block)], dtype=torch.float64)
    finite = torch.where(rows.isfinite(), rows, 0.0)
    positions = [splitmix64(1000003 + j) % tensor.numel() for j in range(64)]
    found = {f"{key}.shape": torch.tensor(shape), f"{key}.largest": finite.abs().max(),
             f"{key}.projection": ((finite * signs).sum(1) / math.sqrt(block)).reshape(shape[:kept]),
             f"{key}.samples": tensor.reshape(-1)[positions].double()}
    if not rows.isfinite().all():
        found[f"{key}.nonfinite"] = (~rows.isfinite()).sum(1).reshape(shape[:kept])
    return found


def serialization_id(model):
    with zipfile.ZipFile(model) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".data/serialization_id"))
        return archive.read(name).decode()


def dimension(dims, traced, least=1, greatest=UNLIMITED, **more):
    return {"dims": [list(pair) for pair in dims], "traced": traced, "min": least, "max": greatest, "divisible_by": 1,
            "below": "", "above": "", "between": "", "where": "",
            "diverges": False, **more}


def path_beside(model):
    return model.with_suffix(".witnesses.safetensors")


def write(path, witnesses, dimensions=(), warnings=(), **more):
    """Beside the model `path`. `witnesses`: name to (inputs, outputs), both by their paths; `more` changes the description."""
    tensors, entries = {}, []
    for index, (name, (inputs, outputs)) in enumerate(witnesses.items()):
        entry = {"name": name, "inputs": {}, "outputs": {}}
        for number, (name, tensor) in enumerate(inputs.items()):
            key = entry["inputs"][name] = f"w{index}.in.{number}"
            tensors[key] = tensor.clone().contiguous()
        for number, (name, tensor) in enumerate(outputs.items()):
            key = entry["outputs"][name] = f"w{index}.out.{number}"
            tensors.update(stored(tensor, key))
        entries.append(entry)
    description = {"version": 1, "model": serialization_id(path), "module": "Net", "warnings": list(warnings),
                   "dimensions": list(dimensions), "witnesses": entries, **more}
    text = json.dumps(description).encode()
    save_file({"description": torch.frombuffer(bytearray(text), dtype=torch.uint8), **tensors}, path_beside(path))
