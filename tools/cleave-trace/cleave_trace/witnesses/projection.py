"""An output in a small form: as it is, or as signed sums of its rows and some of its elements (docs/witnesses.md)."""

import math

import numpy
import torch

WHOLE = 4096  # elements that an output may have to be kept as it is, and sums that are kept of a larger one
SAMPLES = 64
FIRST_SAMPLE = 1000003


def splitmix64(values):
    """The pseudo-random numbers at these positions, as unsigned 64-bit integers."""
    with numpy.errstate(over="ignore"):
        z = numpy.asarray(values, dtype=numpy.uint64) + numpy.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> numpy.uint64(30))) * numpy.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> numpy.uint64(27))) * numpy.uint64(0x94D049BB133111EB)
        return z ^ (z >> numpy.uint64(31))


def signs(count):
    """+1 or -1 at each position of a block."""
    bits = splitmix64(numpy.arange(count, dtype=numpy.uint64)) & numpy.uint64(1)
    return torch.from_numpy(1.0 - 2.0 * bits.astype(numpy.float64))


def project(tensor, key):
    """The tensors that stand for `tensor` in a file of witnesses, by name; all begin with `key`."""
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor.resolve_conj())
    tensor = tensor.detach().contiguous()
    if tensor.numel() <= WHOLE:
        return {key: tensor.clone()}
    shape = list(tensor.shape)
    kept = max(rank for rank in range(len(shape) + 1) if math.prod(shape[:rank]) <= WHOLE)
    block = math.prod(shape[kept:])
    rows = tensor.reshape(-1, block)
    sign = signs(block)
    sums, bad = [], []
    rows_at_once = max(1, (1 << 22) // block)
    largest = 0.0
    for part in rows.split(rows_at_once):
        part = part.double()
        is_finite = part.isfinite()
        part = torch.where(is_finite, part, 0.0)
        largest = max(largest, part.abs().max().item())
        sums.append(part @ sign / math.sqrt(block))
        bad.append((~is_finite).sum(1))
    positions = splitmix64(numpy.arange(SAMPLES, dtype=numpy.uint64) + numpy.uint64(FIRST_SAMPLE)) % numpy.uint64(tensor.numel())
    bad = torch.cat(bad)
    found = {f"{key}.shape": torch.tensor(shape), f"{key}.projection": torch.cat(sums).reshape(shape[:kept]),
             f"{key}.samples": tensor.reshape(-1)[torch.from_numpy(positions.astype(numpy.int64))].double(),
             f"{key}.largest": torch.tensor(largest, dtype=torch.float64)}
    if bad.any():
        found[f"{key}.nonfinite"] = bad.reshape(shape[:kept])
    return found
