"""Inputs of the kind of the example's: of other sizes, and with other values."""

import torch

MAX_ALONE = 6  # inputs up to which values of one alone are changed, where changing all at once fails


def resized(example, groups, sizes, halve_first=True):
    """The inputs `example`, by path, with the dimensions of `groups` at `sizes`.

    Smaller ones are cut, larger ones repeated. With `halve_first` the first copy of a repeated tensor is halved, so that
    extremes and sums depend on the size.
    """
    found = dict(example)
    for group, size in zip(groups, sizes):
        for path, dim in group.dims:
            if size != group.traced:
                found[path] = stretched(found[path], dim, size, halve_first and not is_mask(example[path]))
    return found


def stretched(tensor, dim, size, halve_first):
    old = tensor.shape[dim]
    if old == 0:
        return tensor.new_zeros([size if axis == dim else other for axis, other in enumerate(tensor.shape)])
    longer = tensor.index_select(dim, torch.arange(size) % old)
    if halve_first and size > old:
        longer.narrow(dim, 0, old).copy_(halved(tensor, None))
    return longer


def is_mask(tensor):
    """Bools, or integers of which all are 0 or 1 and some are 1."""
    if tensor.dtype == torch.bool:
        return True
    return not (tensor.is_floating_point() or tensor.is_complex()) and tensor.numel() > 0 and bool(
        ((tensor == 0) | (tensor == 1)).all() and (tensor == 1).any())


def is_inexact(tensor):
    return tensor.is_floating_point() or tensor.is_complex()


def bounds(tensor):
    return tensor.min(), tensor.max()


# Each takes a tensor of one or more elements and a torch.Generator, and returns one of the same shape whose values stay in the
# example's range, or None where the kind means nothing. ----------------------------------------------------------------


def permuted(tensor, generator):
    return tensor.reshape(-1)[torch.randperm(tensor.numel(), generator=generator)].reshape(tensor.shape)


def rolled(tensor, generator):
    dims = range(tensor.dim())
    return tensor.roll([max(1, tensor.shape[dim] // 3) for dim in dims], list(dims)) if tensor.dim() else None


def shifted(tensor, generator):
    """By one place, so that what stands side by side mostly stays so."""
    return tensor.roll(1, -1) if tensor.dim() else None


def swapped(tensor, generator):
    """Samples in reverse order."""
    return tensor.flip(0) if tensor.dim() else None


def halved(tensor, generator):
    if is_mask(tensor):
        return None
    if is_inexact(tensor):
        return tensor / 2
    low, _ = bounds(tensor)
    return (low + (tensor - low) // 2).to(tensor.dtype)


def mirrored(tensor, generator):
    if tensor.is_complex():
        return -tensor
    if is_mask(tensor):
        return None
    low, high = bounds(tensor)
    return (low + (high - tensor)).to(tensor.dtype)


def negated(tensor, generator):
    return -tensor if has_both_signs(tensor) else None


def doubled(tensor, generator):
    return tensor * 2 if has_both_signs(tensor) else None


def enlarged(tensor, generator):
    if has_both_signs(tensor):
        return tensor * 32
    return tensor * 16 if is_single(tensor) else None


def increased(tensor, generator):
    return tensor + 1 if is_single(tensor) else None


def lowered(tensor, generator):
    """For integers that are all equal, such as lengths of samples without padding: one or two less, not below 1."""
    if is_inexact(tensor) or is_mask(tensor) or tensor.numel() < 2 or bounds(tensor)[0] != bounds(tensor)[1] or tensor.min() < 2:
        return None
    half = torch.arange(tensor.numel()).reshape(tensor.shape) >= (tensor.numel() + 1) // 2  # Lengths stay in descending order.
    return torch.clamp(tensor - 1 - half.to(tensor.dtype), min=1)


def is_single(tensor):
    """A tensor of one number, which other kinds of changes leave as it is."""
    return tensor.numel() == 1 and tensor.dtype != torch.bool


def has_both_signs(tensor):
    return tensor.is_complex() or tensor.is_floating_point() and bool((tensor < 0).any() and (tensor > 0).any())


def drawn(tensor, generator):
    """Values drawn anew between the example's least and greatest."""
    if tensor.is_complex():
        return torch.view_as_complex(drawn(torch.view_as_real(tensor), generator))
    if tensor.dtype == torch.bool:
        return permuted(tensor, generator)
    if not tensor.is_floating_point():
        low, high = (bound.item() for bound in bounds(tensor))
        return torch.randint(low, min(high + 1, 2**62), tensor.shape, generator=generator).to(tensor.dtype)
    if not tensor.isfinite().all():
        return permuted(tensor, generator)
    values = tensor.double()
    deviation = values.std().item() if values.numel() > 1 else 0.0
    normal = torch.randn(tensor.shape, generator=generator, dtype=torch.float64) * deviation + values.mean()
    return normal.clamp(*bounds(values)).to(tensor.dtype)


def trailing(tensor, generator):
    return cleared(tensor, from_end=True)


def leading(tensor, generator):
    return cleared(tensor, from_end=False)


def cleared(tensor, from_end):
    """A mask whose last or first positions are 0 in every other sample."""
    if not is_mask(tensor) or tensor.dim() < 1 or tensor.shape[-1] < 2:
        return None
    found = tensor.clone()
    some = found[::2] if tensor.dim() > 1 else found
    length = max(1, tensor.shape[-1] // 3)
    (some[..., -length:] if from_end else some[..., :length]).zero_()
    return found


KINDS = {"drawn": drawn, "permuted": permuted, "mirrored": mirrored, "halved": halved, "trailing": trailing,
         "leading": leading, "negated": negated, "doubled": doubled, "enlarged": enlarged, "increased": increased, "lowered": lowered,
         "rolled": rolled, "shifted": shifted, "swapped": swapped}


def changed(example, kind, seed, only=None):
    """The inputs `example` with values of `kind`, of those in `only` or of all; None where nothing changes."""
    generator = torch.Generator().manual_seed(seed)
    found, is_other = dict(example), False
    for path, tensor in example.items():
        if only is not None and path not in only or tensor.numel() == 0 or tensor.layout != torch.strided or tensor.is_quantized:
            continue
        new = KINDS[kind](tensor, generator)
        if new is not None and not torch.equal(new, tensor):
            found[path], is_other = new.contiguous(), True
    return found if is_other else None


def subsets(example):
    """Inputs to change where changing all fails: those of one shape, then each alone."""
    shapes = {}
    for path, tensor in example.items():
        shapes.setdefault(tuple(tensor.shape), []).append(path)
    alike = [tuple(paths) for paths in shapes.values() if 1 < len(paths) < len(example)]
    return [*alike, *((path,) for path in example if len(example) > 1)][:MAX_ALONE]
