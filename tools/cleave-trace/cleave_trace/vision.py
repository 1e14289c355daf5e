"""torchvision's models with seeded random weights."""

import difflib
import inspect

import torch
import torchvision

from cleave_trace.errors import TraceError

FRAMES = 16
SIDES = {"inception_v3": 299, "video": 112}


def names():
    """The models that take one batch of images or videos; detectors and optical flow need a build() of their own."""
    return [name for name in torchvision.models.list_models() if family(name) in ("models", "segmentation", "video")]


def family(name):
    """The subpackage of torchvision.models that a model is from, `models` for classifiers."""
    parts = torchvision.models.get_model_builder(name).__module__.split(".")
    return parts[2] if parts[2] in ("segmentation", "video", "detection", "optical_flow", "quantization") else "models"


def load(name, options):
    if options.class_name:
        raise TraceError(f"--class {options.class_name}, expected no class; leave it out")
    if name not in names():
        near = "".join(f"; did you mean torchvision:{match}?" for match in difflib.get_close_matches(name, names(), 1))
        raise TraceError(f"no such model of images or videos, expected one of --list{near}")
    module = torchvision.models.get_model(name, **arguments(name, options.config))
    is_video = family(name) == "video"
    side = SIDES.get("video" if is_video else name, 224)
    shape = (options.batch, 3, FRAMES, side, side) if is_video else (options.batch, 3, side, side)
    argument = next(iter(inspect.signature(module.forward).parameters))
    generator = torch.Generator().manual_seed(options.seed)
    return module, {argument: torch.randn(shape, generator=generator)}


def arguments(name, config):
    """The builder's keyword arguments: no downloads, and `--config` as numbers."""
    known = inspect.signature(torchvision.models.get_model_builder(name)).parameters
    fixed = {key: None for key in ("weights", "weights_backbone") if key in known}
    try:
        return {**fixed, **{key: int(text) for key, text in config.items()}}
    except ValueError as error:
        raise TraceError(f"--config: {error}, expected numbers; "
                         "write a build() for anything else") from error
