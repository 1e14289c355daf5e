"""Configurations of transformers made small by rules over the names and the values of their fields.

No rule knows an architecture. Several ways of shrinking are tried in order, since no one way suits all: `named` gives fields
sizes by what they are called, `scaled` divides all widths by one number, `shallow` leaves widths as they are.
"""

import dataclasses
import math
import re

import transformers
from transformers import PreTrainedConfig

LAYERS = 2
HEADS = 12  # divisible by 2, 3 and 4
HEAD = 8
HIDDEN = HEADS * HEAD
INNER = 2 * HIDDEN
RANK = 48
VOCABULARY = 504
POSITIONS = 128
FRAMES = 40
EXPERTS = 4
SIDE = 64

# Fields that must be set and have no default.
NEEDED = {"prediction_length": 8, "vocab_size": VOCABULARY, "n_routed_experts": EXPERTS, "num_experts_per_tok": 2}

LAYER_COUNT = re.compile(r"(^|_)(n_|num_)?(hidden_|encoder_|decoder_|res)*(layers?|blocks?)$|^depth$|num_.*layers$|_depth$")
DEPTHS = re.compile(r"^(depths|layers|block_sizes|num_block_repeats|block_repeats|num_blocks|stage_num_blocks)$")
INDEXES = re.compile(r"(indexes|indices|_ids|extract_layers|_index|spatial_target_layers|vision_feature_layer)$")
NOT_SIZES = re.compile(
    r"(_id|_index|_ids|kernel|stride|dilation|padding|_rate|sampling|_cost|_coefficient|theta|temperature|base|_bins|_steps?|"
    r"channels_in|num_channels|audio_channels|groups?|group_size|image|patch|position|length|window|levels?|points?|factor|"
    r"ratio|expand|cache|labels|queries|seed|chunk|state|codebook|top_?k|per_tok|per_token|tokens?|pool|eps|frames|scale|"
    r"period|offset|interval|num_buckets|num_codebooks|quantizers|expert.*num|num_.*experts?|max_|min_|version)")
HEAD_COUNT = re.compile(r"(^|_)(n_|num_)?(\w+_)?heads?(_num)?$|^n_head|num_(key_value|attention|kv|query|q)_heads|heads$")
KEY_HEADS = re.compile(r"(key_value|kv)_(num_)?heads?|num_kv|n_kv|multi_query_group")
HEAD_SIZE = re.compile(r"head_dim|head_size|d_head|d_kv|dim_head|head_dimension|qk_dim|v_dim|key_dim$|size_per_head|rotary_dim|kv_channels")
VOCABULARY_SIZE = re.compile(r"vocab_size|vocabulary_size|^n_token$")
EXPERT_COUNT = re.compile(r"^(moe_)?(num|n)_(local_|routed_)?experts$|num_experts$")
INNER_SIZE = re.compile(r"intermediate|ffn|d_ff|ff_dim|n_inner|d_inner|mlp_dim|feed_forward|linear_unit|mlp_hidden")
RANKS = re.compile(r"rank|latent|bottleneck|lora")


@dataclasses.dataclass(frozen=True)
class Way:
    name: str
    widths: str  # "named", "scaled" or "same"
    has_small_images: bool
    keeps_layers: bool = False


WAYS = (Way("named", "named", True), Way("scaled", "scaled", True), Way("scaled, images as they are", "scaled", False),
        Way("shallow", "same", True), Way("shallow, images as they are", "same", False),
        Way("as it is, images small", "same", True, True), Way("as it is", "same", False, True))


def shrink(config, way):
    """A configuration of the same class and kind as `config`, made small `way`."""
    return Shrinker(way, head_scale(config) if way.widths == "scaled" else 1).config(config)


def declared(config):
    """Fields of a configuration with their values, but for what all configurations have."""
    common = {field.name for field in dataclasses.fields(PreTrainedConfig)}
    return {field.name: value_of(config, field.name) for field in dataclasses.fields(config) if field.name not in common}


def value_of(config, name):
    """A field's value; None where it is one of each layer's."""
    try:
        return getattr(config, name, None)
    except RuntimeError:
        return None


def given(config):
    """Names of the fields that are no consequence of others: those with a default."""
    return {field.name for field in dataclasses.fields(config)
            if field.default not in (None, dataclasses.MISSING) or field.default_factory is not dataclasses.MISSING}


def nested(config):
    return {name: value for name, value in vars(config).items() if isinstance(value, PreTrainedConfig)}


def head_scale(config):
    """By what all widths may be divided so that the narrowest head keeps HEAD elements."""
    scales = [head_scale(child) for child in nested(config).values()]
    if size_of_heads(config):
        scales.append(max(1, size_of_heads(config) // HEAD))
    scale = min(scales, default=4)
    return 1 << (scale.bit_length() - 1)


def size_of_heads(config):
    """Elements of a head, None where a configuration has no heads."""
    hidden, heads, size = (value_of(config, name) for name in ("hidden_size", "num_attention_heads", "head_dim"))
    if is_number(size):
        return size
    return hidden // heads if is_number(hidden) and is_number(heads) and heads > 0 else None


def is_number(value):
    return type(value) is int


def are_numbers(value):
    return isinstance(value, (list, tuple)) and len(value) > 0 and all(map(is_number, value))


def are_repeated(value):
    """Whether it is kinds of layers and how often these come: [[["global", "local"], 12]]."""
    return isinstance(value, (list, tuple)) and len(value) > 0 and all(
        isinstance(item, (list, tuple)) and len(item) == 2 and isinstance(item[0], list) and is_number(item[1]) for item in value)


class Shrinker:
    """Shrinks one configuration with all that are nested in it; equal token numbers stay equal."""

    def __init__(self, way, scale):
        self.way, self.scale = way, scale
        self.tokens = {}

    def config(self, config):
        if config.model_type == "timm_backbone":
            # Of a library that is not there; a backbone of the same kind, with as many results.
            stages = [f"stage{stage}" for stage in range(1, 5)][-max(1, len(config.out_indices or [4])):]
            config = transformers.ResNetConfig(out_features=stages)
        fields = declared(config)
        names = given(config)
        layers, kinds = self.layers(config, fields)
        found = {}
        for name, value in fields.items():
            if name in names or are_repeated(value):
                new = self.field(name, value, fields, layers)
                if new != value:
                    found[name] = new
        types = config.attribute_map.get("layer_types", "layer_types")
        if kinds and types in fields:
            found[types] = kinds
        for name, child in nested(config).items():
            if name in fields:
                found[name] = self.config(child)
        found.update({name: new for name, new in NEEDED.items() if name in fields and fields[name] is None})
        new = type(config)(**found)
        rope = getattr(new, "rope_parameters", None)
        if self.way.widths != "same" and isinstance(rope, dict) and "rope_type" in rope and size_of_heads(new):
            new.rope_parameters = {**rope, "mrope_section": sections(new, rope)}
        if "head_dim" in fields and value_of(new, "head_dim") is None and size_of_heads(new):
            new.head_dim = size_of_heads(new)
        return new

    def layers(self, config, fields):
        """How many layers, and their kinds where there are several: one of each, and one for each that something asks for."""
        if self.way.keeps_layers:
            return None, None
        kinds = getattr(config, "layer_types", None)
        kinds = list(dict.fromkeys(kinds)) if isinstance(kinds, (list, tuple)) else []
        asked = max((len(value) for name, value in fields.items() if INDEXES.search(name) and are_numbers(value)
                     and "token" not in name), default=0)
        layers = max(LAYERS, len(kinds), asked)
        if len(kinds) <= 1:
            return layers, None
        return layers, (kinds * layers)[:layers]

    def field(self, name, value, fields, layers):
        if isinstance(value, bool) or value is None:
            return value
        if is_number(value):
            return self.number(name, value, fields, layers)
        if isinstance(value, (list, tuple)) and layers is not None and len(value) == fields.get("num_hidden_layers"):
            value = value[:layers]  # one of each layer
        if layers is not None and are_repeated(value):
            return [[kinds, max(1, layers // len(kinds))] for kinds, _ in value]
        if are_numbers(value):
            return type(value)(self.numbers(name, list(value), fields, layers))
        return value

    def number(self, name, value, fields, layers):
        if re.search(r"token_id$|token_index$|^(pad|bos|eos|sep|cls|mask|unk)_(id|index)$|_token$", name):
            return self.token(value)
        if VOCABULARY_SIZE.search(name) and value > VOCABULARY:
            return VOCABULARY
        if layers is not None:
            if re.search(r"first_k_dense|num_dense_layers|moe_layer_start", name):
                return min(value, 1)
            if name == "decoder_sparse_step" or re.search(r"layer_(period|interval|freq)|_interval$|_pattern$", name):
                return min(value, 2)
            if re.search(r"layer_offset", name):
                return min(value, 1)
            if re.search(r"shared_layers$|insert_layer_id|max_window_layers", name):
                return min(value, layers - 1) if name != "num_kv_shared_layers" else 0
            if LAYER_COUNT.search(name) and value > layers and "per" not in name.split("_"):
                return layers
        if EXPERT_COUNT.search(name):
            return min(value, EXPERTS)
        if re.search(r"per_tok(en)?$|moe_(top_?)?k$|^top_?k$|router_topk", name):
            return min(value, 2)
        if re.search(r"^(n_group|num_expert_group|topk_group)$", name):
            return 1
        if re.search(r"max_position_embeddings|^n_positions$|max_target_positions|max_sequence_length|max_seq_len", name):
            return min(value, POSITIONS)
        if name == "max_source_positions":
            return min(value, FRAMES) if "num_mel_bins" in fields else min(value, POSITIONS)
        if self.way.has_small_images:
            new = self.picture(name, value, fields)
            if new is not None:
                return new
        return self.width(name, value, fields)

    def token(self, value):
        if value < VOCABULARY - 60:
            return value
        return self.tokens.setdefault(value, VOCABULARY - 1 - len(self.tokens))

    def picture(self, name, value, fields):
        if name in ("image_size", "pretrain_image_size", "input_size", "img_size"):
            return min(value, side(fields))
        if name == "window_size":
            return min(value, 4)
        if name in ("sliding_window", "attention_window", "local_attention"):
            return min(value, 8)
        if name in ("num_frames", "frames") and value > 4:
            return 4
        if name == "max_length" and "num_mel_bins" in fields:
            return 64
        return None

    def width(self, name, value, fields):
        if self.way.widths == "same":
            return value
        if self.way.widths == "scaled":
            is_width = not NOT_SIZES.search(name) and not HEAD_COUNT.search(name) or HEAD_SIZE.search(name)
            return value // self.scale if is_width and value >= 4 * self.scale and value % self.scale == 0 else value
        return self.named(name, value, fields)

    def named(self, name, value, fields):
        if HEAD_SIZE.search(name):
            size = HEAD * (fields["expand"] if is_number(fields.get("expand")) else 1)
            size = HEAD * fields["mamba_expand"] if "mamba" in name and is_number(fields.get("mamba_expand")) else size
            size = size // 2 if re.search("rope|rotary_dim", name) else size
            size = size + HEAD // 2 if name == "qk_head_dim" else size
            return min(value, size)
        if KEY_HEADS.search(name):
            return self.key_heads(value, fields)
        if HEAD_COUNT.search(name):
            return HEADS if value > 1 else value
        if NOT_SIZES.search(name) or value < 32:
            return value
        if INNER_SIZE.search(name):
            return min(value, INNER)
        if RANKS.search(name):
            return min(value, RANK)
        return min(value, HIDDEN) if re.search(r"size|dim|embd|d_model|width|channels|units|filters|features", name) else value

    def key_heads(self, value, fields):
        heads = next((fields[name] for name in ("num_attention_heads", "n_head", "num_heads", "n_heads")
                      if is_number(fields.get(name))), value)
        groups = max(1, heads // max(1, value))
        if value <= 1 or groups == 1:
            return HEADS if value > 1 else value
        return min((heads for heads in (2, 3, 4, 6) ), key=lambda heads: abs(heads - HEADS / groups))

    def numbers(self, name, values, fields, layers):
        if "token" in name:
            return [self.token(value) for value in values]
        if layers is not None:
            if DEPTHS.search(name):
                return [min(value, LAYERS) for value in values]
            if INDEXES.search(name) and name != "out_indices":
                return self.indexes(values, layers)
        if name == "image_size" and self.way.has_small_images:
            return [min(value, side(fields)) for value in values]
        if name == "window_size" and self.way.has_small_images:
            return [min(value, 4) for value in values]
        if self.way.widths != "same" and not NOT_SIZES.search(name) and not HEAD_COUNT.search(name) and min(values) >= 16:
            return self.widths(values)
        return values

    def indexes(self, values, layers):
        """As many layers as before, in the same order, from the first on."""
        if min(values) < 0 or max(values) < layers:
            return values
        return list(range(len(values))) if len(set(values)) == len(values) else [0] * len(values)

    def widths(self, values):
        """Stages keep the ratios of their widths."""
        scale = self.scale if self.way.widths == "scaled" else 4
        common = math.gcd(*values)
        while scale > 1 and common % (2 * scale):
            scale //= 2
        return [value // scale for value in values]


def side(fields):
    """Of an image: four patches, where there are patches of some size."""
    patch = fields.get("patch_size")
    patch = patch[0] if isinstance(patch, (list, tuple)) and patch else patch
    return 4 * patch if is_number(patch) and patch >= 8 else SIDE


def sections(config, rope):
    """What positions in time, height and width have of the half of a head that is rotated; the code has other shares if the
    configuration has none."""
    half = int(size_of_heads(config) * rope.get("partial_rotary_factor", 1)) // 2
    return [half - 2 * (half // 3), half // 3, half // 3]
