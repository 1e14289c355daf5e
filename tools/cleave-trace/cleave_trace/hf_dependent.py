"""Fields of transformers' configurations that must fit others: where one is set and not the other, the other follows.

By the names and values of fields; no rule knows an architecture.
"""

import dataclasses
import re

TOKEN = re.compile(r"(_token_id|_token_index|_token)$")
HEADS = ("num_attention_heads", "n_head", "n_heads", "num_heads")
KEY_HEADS = re.compile(r"^(num_(key_value|kv)_heads|n_kv_heads|multi_query_group_num)$")
EXPERTS = re.compile(r"^(moe_)?(num|n)_(local_|routed_)?experts$")
CHOSEN = re.compile(r"^(num_experts_per_tok(en)?|experts_per_token|moe_(top_?)?k|top_k_experts|moe_router_topk)$")
LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
INDEXES = re.compile(r"(only_layers|_layers_idx|_layer_ids|_layer_indices|_layer_indexes)$")
WIDTHS = ("hidden_size", "n_embd", "d_model")


def fields(default, given):
    """What follows from the fields `given`, by name, for the others of the configuration `default`."""
    known = {name: value_of(default, name) for name in names(default)} | given
    found = {}
    for name, value in known.items():
        if name in given:
            continue
        new = follow(name, value, default, given, known)
        if new is not None and new != value:
            found[name] = new
    return found


def follow(name, value, default, given, known):
    """What field `name` has to be; None if it stays."""
    if type(value) is int and CHOSEN.search(name):
        experts = [count for key, count in known.items() if EXPERTS.search(key) and type(count) is int and count > 0]
        return min(value, *experts) if experts else None
    if type(value) is int and KEY_HEADS.search(name):
        return key_heads(value, default, given)
    if isinstance(value, (int, list)) and TOKEN.search(name):
        return tokens(value, known.get("vocab_size"))
    if name in ("n_group", "topk_group") and type(value) is int:
        experts = [count for key, count in given.items() if EXPERTS.search(key) and type(count) is int]
        return 1 if experts and min(experts) < 2 * value else None
    if isinstance(value, dict) and "mrope_section" in value:
        return sections(value, given, known)
    if name == "rotary_dim" and type(value) is int:
        return rotary(value, given, known)
    if isinstance(value, (list, tuple)) and declares_default(default, name):
        return per_layer(name, value, default, given)
    return None


def key_heads(value, default, given):
    """As many query heads for each as before."""
    heads = next((name for name in HEADS if type(given.get(name)) is int and type(value_of(default, name)) is int), None)
    before = value_of(default, heads) if heads else 0
    if not heads or value <= 1 or before % value:
        return None
    return max(1, given[heads] // (before // value))


def tokens(value, vocabulary):
    """Below the size of the vocabulary."""
    if type(vocabulary) is not int or vocabulary <= 0 or isinstance(value, bool):
        return None
    if isinstance(value, list):
        return [tokens(item, vocabulary) if type(item) is int else item for item in value]
    return value if value < vocabulary else vocabulary - 1 - value % min(vocabulary, 8)


def rotary(value, given, known):
    size = head_size(given, known)
    return min(value, size) if size else None


def sections(rope, given, known):
    """Positions in time, height and width share the half of a head that is rotated."""
    size = head_size(given, known)
    if not size:
        return None
    half = int(size * rope.get("partial_rotary_factor", 1)) // 2
    return {**rope, "mrope_section": [half - 2 * (half // 3), half // 3, half // 3]} if half != sum(rope["mrope_section"]) else None


def head_size(given, known):
    """Elements of a head, where `given` says something about it; else None."""
    if not {*WIDTHS, *HEADS, "head_dim"} & set(given):
        return None
    if type(known.get("head_dim")) is int:
        return known["head_dim"]
    width, heads = (next((known[name] for name in of if type(known.get(name)) is int), None) for of in (WIDTHS, HEADS))
    return width // heads if width and heads else None


def per_layer(name, value, default, given):
    """One item of each layer, kinds that come again; of numbers of layers, those that there are."""
    count = next((key for key in LAYERS if type(given.get(key)) is int), None)
    before = value_of(default, count) if count else None
    if before is None:
        return None
    if INDEXES.search(name) and all(type(item) is int for item in value):
        return [item for item in value if item < given[count]]
    if len(value) != before:
        return None
    kinds = list(dict.fromkeys(value)) if all(isinstance(item, str) for item in value) else list(value)
    return (kinds * given[count])[:given[count]]


def names(config):
    return [field.name for field in dataclasses.fields(config)]


def value_of(config, name):
    """A field's value; None where each layer has its own."""
    try:
        return getattr(config, name, None)
    except RuntimeError:
        return None


def declares_default(config, name):
    """Whether the class has a value for a field, so that the constructor does not derive it from others."""
    field = next(field for field in dataclasses.fields(config) if field.name == name)
    return field.default not in (None, dataclasses.MISSING) or field.default_factory is not dataclasses.MISSING


def differing(config):
    """Fields in which a configuration differs from the default of its class, but for lists that follow from other fields."""
    try:
        plain = type(config)()
    except Exception:  # The class has no default configuration.
        return {name: value_of(config, name) for name in names(config)}
    return {name: value_of(config, name) for name in names(config)
            if value_of(config, name) != value_of(plain, name)
            and not (isinstance(value_of(config, name), (list, tuple)) and not declares_default(config, name))}
