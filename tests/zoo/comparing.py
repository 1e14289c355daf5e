"""How values differ from those that they should be."""

import torch


def difference(found, expected, tolerance, least=1e-3):
    """How a tensor differs from what it should be; empty if it does not.

    Floating-point values may be off by `tolerance` x the largest of the expected ones, or x `least` where that is more.
    """
    if found.shape != expected.shape or found.dtype != expected.dtype:
        return f"{found.dtype}{list(found.shape)} instead of {expected.dtype}{list(expected.shape)}"
    if not (found.is_floating_point() or found.is_complex()):
        return "" if torch.equal(found, expected) else "other values"
    kind = torch.complex128 if found.is_complex() else torch.float64
    found, expected = found.to(kind), expected.to(kind)
    finite = expected[expected.isfinite()].abs()
    largest = max(least, finite.max().item() if finite.numel() else 0.0)
    if torch.allclose(found, expected, rtol=0, atol=tolerance * largest, equal_nan=True):
        return ""
    return f"off by {(found - expected).abs().nan_to_num(torch.inf).max().item():.3g} of {largest:.3g}"


def differences(found, expected, names, tolerance, least=1e-3):
    """The first of the values called `names` that differs, and how; empty if none does."""
    for name in names:
        if name not in found:
            return f"no {name}"
        if differs := difference(found[name], expected[name], tolerance, least):
            return f"{name}: {differs}"
    return ""
