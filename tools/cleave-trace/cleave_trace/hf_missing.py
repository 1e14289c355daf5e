"""Which field a model of transformers lacks, where it cannot be built."""

import contextlib

import torch
from transformers import PreTrainedConfig

from cleave_trace import hf_dependent
from cleave_trace.errors import TraceError, one_line


def build(cls, config):
    """A model of class `cls`; a TraceError says which field to set, where building it fails."""
    try:
        return cls(config)
    except TraceError:
        raise
    except Exception as error:
        failure = f"{cls.__name__} cannot be built with this configuration: {type(error).__name__}: {one_line(error)}"
        name = last_unset(cls, config) if "None" in str(error) else None
        remedy = f"it has no {name}, set it with --config {name}=VALUE" if name else "set what it needs with --config"
        raise TraceError(f"{failure}; {remedy}") from error


def last_unset(cls, config):
    """The path of the last field that is None of those that building the model reads until it fails; None if there is none."""
    paths, read = {id(child): path for path, child in nested(config)}, []
    lookup = PreTrainedConfig.__getattribute__

    def recorded(self, name):
        value = lookup(self, name)
        if value is None and not name.startswith("_") and not hf_dependent.TOKEN.search(name):  # A model may have no such token.
            read.append(paths.get(id(self), "") + name)
        return value

    PreTrainedConfig.__getattribute__ = recorded
    try:
        with contextlib.suppress(Exception), torch.device("meta"):
            cls(config)
            read.clear()
    finally:
        PreTrainedConfig.__getattribute__ = lookup
    return read[-1] if read else None


def nested(config, path=""):
    """A configuration and those that it holds, with the paths that lead to their fields."""
    yield path, config
    for name, child in vars(config).items():
        if isinstance(child, PreTrainedConfig):
            yield from nested(child, f"{path}{name}.")
