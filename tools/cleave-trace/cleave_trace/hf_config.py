"""transformers' configurations with fields set by `--config`."""

import difflib
import json

from transformers import PreTrainedConfig

from cleave_trace import hf_dependent
from cleave_trace.errors import TraceError


def build(cls, fields):
    """The configuration `cls` with `fields`, {"n_layer": "2", "vision_config.hidden_size": "32"}.

    Values take the type of the field's default. Fields go through the constructor, since it derives others from them.
    """
    return cls(**arguments(cls(), fields))


def arguments(default, fields):
    """What the constructor takes for `fields` of the configuration `default`, and for those that follow from these."""
    nested = {}
    for name, text in fields.items():
        head, _, rest = name.partition(".")
        key = default.attribute_map.get(head, head)
        check_known(default, head)
        if rest:
            nested.setdefault(key, {})[rest] = text
        else:
            nested[key] = text
    given = {key: value(default, key, text) for key, text in nested.items()}
    return given | hf_dependent.fields(default, given)


def check_known(default, name):
    known = {*default.to_dict(), *default.attribute_map}
    if name not in known:
        near = "".join(f"; did you mean {match}?" for match in difflib.get_close_matches(name, sorted(known), 1))
        raise TraceError(f"--config {name}: no such field of {type(default).__name__}, expected one of its fields{near}")


def value(default, key, text):
    found = hf_dependent.value_of(default, key)
    if isinstance(text, str):
        return parse(key, text, found)
    if not isinstance(found, PreTrainedConfig):
        raise TraceError(f"--config {key}.{next(iter(text))}: {key} has no fields of its own, expected a nested "
                         "configuration; set it whole")
    return type(found)(**hf_dependent.differing(found) | arguments(found, text))


def parse(name, text, default):
    """`text` as the type of `default`; where the default is None or a string, whatever JSON makes of it, or itself."""
    try:
        parsed = json.loads(text)
    except json.JSONDecodeError:
        parsed = {"True": True, "False": False, "None": None}.get(text, text)
    if isinstance(default, str):
        return text
    if isinstance(default, float) and type(parsed) is int:
        return float(parsed)
    # A list may stand for several numbers; the configuration itself knows whether it does.
    is_scalar = isinstance(default, (bool, int, float)) and not isinstance(parsed, (list, type(None)))
    if is_scalar and type(parsed) is not type(default):
        raise TraceError(f"--config {name}={text}: expected {type(default).__name__}, as its default {default}; "
                         "write such a value")
    return parsed


def set_everywhere(config, name, new):
    """Sets field `name` in a configuration and in those nested in it, where it exists."""
    if hasattr(config, name):
        setattr(config, name, new)
    for child in vars(config).values():
        if isinstance(child, PreTrainedConfig):
            set_everywhere(child, name, new)
