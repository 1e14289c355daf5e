"""Inputs of the kind of the example's: of other sizes, and with other values."""

import torch

NUMBERS = 8  # to which one integer is set, from 0
MAX_ALONE = 6  # inputs up to which values of one alone are changed, where changing all at once fails


def resized(example, groups, sizes, natural=True):
    """The inputs `example`, by path, with the dimensions of `groups` at `sizes`.

    Smaller ones are cut, larger ones repeated. With `natural`, positions count on, lengths follow their size, and the first copy of
    another repeated tensor is halved, so that extremes and sums depend on the size.
    """
    found = dict(example)
    if natural:
        found = {path: lengthened(tensor, groups, sizes) for path, tensor in example.items()}
    for group, size in zip(groups, sizes):
        for path, dim in group.dims:
            if size != group.traced:
                if natural and counts_along(found[path], dim):
                    found[path] = counted(found[path], dim, size)
                else:
                    found[path] = stretched(found[path], dim, size, natural and not is_mask(found[path]))
    return found


def lengthened(tensor, groups, sizes):
    """Integers of which the largest is a size of the example, such as lengths and ends of segments, follow that size."""
    if not is_integral(tensor) or tensor.numel() == 0 or tensor.max() < 3:
        return tensor
    followed = [(group.traced, size) for group, size in zip(groups, sizes) if group.traced == tensor.max()]
    traced, size = followed[-1] if followed else (1, 1)  # Of equal sizes the later one: lengths count positions.
    return tensor if size == traced else tensor * size // traced


def stretched(tensor, dim, size, halve_first):
    old = tensor.shape[dim]
    if old == 0:
        return tensor.new_zeros([size if axis == dim else other for axis, other in enumerate(tensor.shape)])
    longer = tensor.index_select(dim, torch.arange(size) % old)
    if halve_first and size > old and tensor.numel():
        longer.narrow(dim, 0, old).copy_(halved(tensor, None))
    return longer


def counts_along(tensor, dim):
    """Whether it is of integers that go up by one along `dim`, as positions do; two may be anything."""
    return is_integral(tensor) and tensor.shape[dim] > 2 and tensor.numel() > 0 and bool((tensor.diff(dim=dim) == 1).all())


def counted(tensor, dim, size):
    steps = torch.arange(size, dtype=tensor.dtype).reshape([size if axis == dim else 1 for axis in range(tensor.dim())])
    return tensor.narrow(dim, 0, 1) + steps


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


# Each takes a tensor of one or more elements and a torch.Generator, and returns one of the same shape, or None where the kind
# means nothing. Integers that may be ids, which differ from one another, stay between the example's least and greatest. ---------


def permuted(tensor, generator):
    return tensor.reshape(-1)[torch.randperm(tensor.numel(), generator=generator)].reshape(tensor.shape)


def rolled_by_a_third(tensor, generator):
    dims = range(tensor.dim())
    return tensor.roll([max(1, tensor.shape[dim] // 3) for dim in dims], list(dims)) if tensor.dim() else None


def shifted_by_one(tensor, generator):
    """By one place, so that what stands side by side mostly stays so."""
    return tensor.roll(1, -1) if tensor.dim() else None


def samples_reversed(tensor, generator):
    """Samples in reverse order."""
    return tensor.flip(0) if tensor.dim() else None


def last_two_swapped(tensor, generator):
    """For integers such as heights and widths, whose product matters: the last two in each other's place."""
    if not is_integral(tensor) or tensor.dim() < 1 or tensor.shape[-1] < 2:
        return None
    return torch.cat([tensor[..., :-2], tensor[..., -2:].flip(-1)], -1)


def last_two_reshaped(tensor, generator):
    """For rows of two or three such integers: one of the last two half, the other twice as large."""
    if not is_integral(tensor) or tensor.dim() != 2 or tensor.shape[1] not in (2, 3) or (tensor[:, -2] % 2).any():
        return None
    found = tensor.clone()
    found[..., -2] //= 2
    found[..., -1] *= 2
    return found


def segment_ends_moved(tensor, generator):
    """For ends of segments: those between the first and the last one less."""
    if not is_integral(tensor) or tensor.dim() != 1 or len(tensor) < 3 or counts_along(tensor, 0):
        return None
    found = tensor.clone()
    found[1:-1] -= 1
    return found if (tensor.diff() > 0).all() and (found.diff() > 0).all() else None


def halved(tensor, generator):
    if is_mask(tensor):
        return None
    if is_inexact(tensor):
        return tensor / 2
    low, _ = bounds(tensor)
    return (low + (tensor - low) // 2).to(tensor.dtype)


def reflected(tensor, generator):
    if tensor.is_complex():
        return -tensor
    if is_mask(tensor):
        return None
    low, high = bounds(tensor)
    return (low + (high - tensor)).to(tensor.dtype)


def negated(tensor, generator):
    return -tensor if is_inexact(tensor) else None


def doubled(tensor, generator):
    return tensor * 2 if is_inexact(tensor) else None


def enlarged(tensor, generator):
    if is_inexact(tensor):
        return tensor * 32
    return tensor * 16 if is_single(tensor) else None


def number_plus_one(tensor, generator):
    return tensor + 1 if is_single(tensor) else None


def lengths_shortened(tensor, generator):
    """For integers that are all equal, such as lengths of samples without padding: one or two less, not below 1."""
    if not is_integral(tensor) or not is_constant(tensor) or tensor.min() < 2:
        return None
    return torch.clamp(tensor - 1 - second_half(tensor).to(tensor.dtype), min=1)  # Lengths stay in descending order.


def half_plus_one(tensor, generator):
    """For integers that are all equal, such as kinds of tokens: one more in the second half, 0 in place of negative labels."""
    higher = all_plus_one(tensor, generator)
    return torch.where(second_half(tensor), higher, tensor) if higher is not None else None


def all_plus_one(tensor, generator):
    is_padding = is_mask(tensor) and tensor.dim() > 1
    if not is_integral(tensor) or not is_constant(tensor) or tensor.numel() < 2 or is_padding:
        return None
    return torch.clamp(tensor + 1, min=0)


def all_zero(tensor, generator):
    """For integers that are all equal, such as a time, of which the first is often special."""
    is_padding = is_mask(tensor) and tensor.dim() > 1
    return torch.zeros_like(tensor) if is_integral(tensor) and is_constant(tensor) and not is_padding else None


def all_equal(tensor, generator):
    """For an integer of each sample, such as its length: all are the one in their middle."""
    if not is_integral(tensor) or tensor.dim() < 1 or tensor.numel() > len(tensor) or is_mask(tensor):
        return None
    return torch.full_like(tensor, tensor.median())


def zeros_replaced(tensor, generator):
    """For floating-point zeros, such as additive masks and first states."""
    if not tensor.is_floating_point() or tensor.any():
        return None
    return torch.randn(tensor.shape, generator=generator).to(tensor.dtype)


def flag_inverted(tensor, generator):
    return ~tensor if tensor.dtype == torch.bool and tensor.numel() == 1 else None


def set_to(number):
    """For one integer, such as the choice of a task."""
    return lambda tensor, generator: torch.full_like(tensor, number) if is_integral(tensor) and tensor.numel() == 1 else None


def second_half(tensor):
    return torch.arange(tensor.numel()).reshape(tensor.shape) >= (tensor.numel() + 1) // 2


def is_integral(tensor):
    return not is_inexact(tensor) and tensor.dtype != torch.bool


def is_constant(tensor):
    """Whether all elements are equal."""
    return bool((tensor == tensor.reshape(-1)[0]).all())


def is_single(tensor):
    """A tensor of one number, which other kinds of changes leave as it is."""
    return tensor.numel() == 1 and tensor.dtype != torch.bool


def random_values(tensor, generator):
    """Values drawn anew between the example's least and greatest."""
    if tensor.is_complex():
        return torch.view_as_complex(random_values(torch.view_as_real(tensor), generator))
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


# Masks: some positions of samples are hidden. In a mask that is False everywhere, which may mark what is hidden, they are set.


def end_hidden(tensor, generator):
    return hidden_at(tensor, lambda sample, samples, length: (length - max(1, length // 3), length) if sample % 2 == 0 else (0, 0))


def beginning_hidden(tensor, generator):
    return hidden_at(tensor, lambda sample, samples, length: (0, max(1, length // 3)) if sample % 2 == 0 else (0, 0))


def samples_shortened(tensor, generator):
    """Samples of a quarter, half and three quarters of the length."""
    return hidden_at(tensor, lambda sample, samples, length: (max(1, length * (1 + sample % 3) // 4), length))


def sample_hidden(tensor, generator):
    """The last of several samples is hidden as a whole."""
    return hidden_at(tensor, lambda sample, samples, length: (0, length) if 0 < sample == samples - 1 else (0, 0))


def hidden_at(tensor, span):
    """The mask with the positions `span(sample, samples, length)`, (begin, end), of each sample hidden; None if it is no mask."""
    hidden = hidden_value(tensor)
    if hidden is None or tensor.dim() < 1 or tensor.shape[-1] < 2:
        return None
    found = tensor.clone()
    rows = found if tensor.dim() > 1 else found[None]
    for sample, row in enumerate(rows):
        begin, end = span(sample, len(rows), tensor.shape[-1])
        row[..., begin:end] = hidden
    return found


def hidden_value(tensor):
    """What hidden positions of a mask are; None for what is no mask. Floating-point numbers that are all equal may be one."""
    if tensor.dtype == torch.bool:
        return not tensor.any()
    is_float_mask = tensor.is_floating_point() and tensor.numel() > 1 and is_constant(tensor) and tensor.any()
    return 0 if is_mask(tensor) or is_float_mask else None


RANDOM, REVERSED = "random values", "samples reversed"
# The changes by the names that messages give them.
KINDS = {
    RANDOM: random_values, "permuted": permuted, "reflected": reflected, "halved": halved, "end hidden": end_hidden,
    "beginning hidden": beginning_hidden, "samples shortened": samples_shortened, "a sample hidden": sample_hidden,
    "flag inverted": flag_inverted, "zeros replaced": zeros_replaced, "half plus 1": half_plus_one, "all plus 1": all_plus_one,
    "lengths shortened": lengths_shortened, "all 0": all_zero, "all equal": all_equal, "negated": negated, "doubled": doubled,
    "enlarged": enlarged, "number plus 1": number_plus_one, "rolled by a third": rolled_by_a_third,
    "shifted by one": shifted_by_one, "last two swapped": last_two_swapped, "last two reshaped": last_two_reshaped,
    "segment ends moved": segment_ends_moved, REVERSED: samples_reversed,
    **{f"set to {number}": set_to(number) for number in range(NUMBERS)}}


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


def single_inputs(example, inputs):
    """Of the inputs of one element that `inputs` changes, each alone; none if there is but one."""
    changed = [path for path, tensor in inputs.items() if tensor.numel() == 1 and tensor is not example[path]]
    return [(path,) for path in changed][:MAX_ALONE] if len(changed) > 1 else []


def subsets(example):
    """Inputs to change where changing all fails: those of one shape, then each alone."""
    shapes = {}
    for path, tensor in example.items():
        shapes.setdefault(tuple(tensor.shape), []).append(path)
    alike = [tuple(paths) for paths in shapes.values() if 1 < len(paths) < len(example)]
    return [*alike, *((path,) for path in example if len(example) > 1)][:MAX_ALONE]
