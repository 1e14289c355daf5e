"""Caches of keys and values, which models of transformers return unless they are told not to."""

from cleave_trace import signatures

NOTE = ("{}use_cache was True in the configuration and is False in the trace, which cannot return a cache object; "
        "give use_cache=False among the inputs, or set it in the configuration")


def turn_off(module, example):
    """Sets use_cache to False in the configurations of a module whose parts take it, and returns notes about it.

    An example that gives `use_cache` decides by itself.
    """
    if isinstance(example, dict) and "use_cache" in example:
        return []
    found = []
    for path, part in module.named_modules():
        if "config" in vars(part) and asks(vars(part)["config"]) and takes_cache(part):
            found.append(path)
    if not found:
        return []
    from cleave_trace import hf_config  # transformers takes seconds to import.

    for part in module.modules():
        if "config" in vars(part) and asks(vars(part)["config"]):
            hf_config.set_everywhere(vars(part)["config"], "use_cache", False)
    return [NOTE.format(f"{found[0]}: " if found[0] else "")]


def takes_cache(part):
    return "use_cache" in signatures.of(part).parameters


def asks(config):
    """Whether a configuration, or one that it holds, has `use_cache` set."""
    nested = [child for child in vars(config).values() if hasattr(child, "use_cache")] if hasattr(config, "__dict__") else []
    return getattr(config, "use_cache", False) is True or any(map(asks, nested))
