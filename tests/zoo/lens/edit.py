"""The edits of hook points that TransformerLens and Cleave are compared with."""

CORRUPTED = 2  # the position at which the corrupted prompt differs
PATCHED = ("hook_resid_pre", "hook_attn_out", "hook_mlp_out")


def edit(value):
    """The value of the next sample, halved where it has fractions."""
    rolled = value.roll(1, 0)
    return rolled * 0.5 if value.is_floating_point() else rolled


def is_edited(name):
    """Layers are alike: of all, the second is edited."""
    return name.startswith("blocks.1.") or not name.startswith("blocks.")
