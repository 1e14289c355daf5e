"""The arguments of a module's forward."""

import inspect

import torch


def of(module):
    """The signature of `module.forward`; that of a scripted module which was loaded from a file is in its schema alone."""
    if not isinstance(module.forward, torch.ScriptMethod):
        return inspect.signature(module.forward)
    return inspect.Signature([parameter(argument) for argument in module.forward.schema.arguments[1:]])


def parameter(argument):
    kind = inspect.Parameter.KEYWORD_ONLY if argument.kwarg_only else inspect.Parameter.POSITIONAL_OR_KEYWORD
    default = argument.default_value if argument.has_default_value() else inspect.Parameter.empty
    return inspect.Parameter(argument.name, kind, default=default)
