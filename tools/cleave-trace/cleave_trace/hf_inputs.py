"""Example inputs of a transformers model, made from its forward's arguments and its configuration."""

import inspect

import torch
from transformers.models.auto.modeling_auto import MODEL_FOR_ZERO_SHOT_IMAGE_CLASSIFICATION_MAPPING_NAMES

from cleave_trace import hf_labels
from cleave_trace.errors import TraceError

FIRST_ID = 3  # ids below are mostly padding, start and end
FRAMES = 8
IMAGE_SIDE = 224
SAMPLES = 16000  # one second of sound


def example(model, options, is_encoder):
    """Keyword arguments for `model`, drawn from `options.seed`."""
    generator = torch.Generator().manual_seed(options.seed)
    arguments = inspect.signature(model.forward).parameters
    config = model.config
    check_length(config, options.seq)
    shape = (options.batch, options.seq)
    found = {}
    for name in main_inputs(model, arguments):
        if name not in MAKERS:
            raise TraceError(f"forward of {type(model).__name__} takes {name}, expected one of {', '.join(MAKERS)}; "
                             "write a build() that makes its inputs")
        found[name] = MAKERS[name](config, shape, generator)
    if "input_ids" in found and "attention_mask" in arguments and is_encoder:
        found["attention_mask"] = torch.ones(shape, dtype=torch.long)
    if getattr(config, "is_encoder_decoder", False) and "decoder_input_ids" in arguments:
        found["decoder_input_ids"] = ids(config, (options.batch, max(1, options.seq // 2)), generator)
    check_complete(model, arguments, found)
    if options.train:
        found.update(hf_labels.labels(model, arguments, found, ids, generator))
    # Constants of the trace, not inputs.
    if "use_cache" in arguments:
        found["use_cache"] = False
    return found


def check_length(config, seq):
    limit = getattr(config.get_text_config(), "max_position_embeddings", None)
    if isinstance(limit, int) and 0 < limit < seq:
        raise TraceError(f"--seq {seq}, expected at most max_position_embeddings={limit}; shorten --seq or raise it with "
                         "--config")


def main_inputs(model, arguments):
    """What the model's first input is called, and the second of models of text and images (CLIP)."""
    names = [model.main_input_name]
    if type(model).__name__ in MODEL_FOR_ZERO_SHOT_IMAGE_CLASSIFICATION_MAPPING_NAMES.values():
        names = [name for name in ("input_ids", "pixel_values") if name in arguments]
    return names


def check_complete(model, arguments, found):
    for name, argument in arguments.items():
        is_required = argument.default is argument.empty and argument.kind is argument.POSITIONAL_OR_KEYWORD
        if is_required and name not in found:
            raise TraceError(f"forward of {type(model).__name__} also needs {name}, expected only {', '.join(found)}; "
                             "write a build() that makes its inputs")


def ids(config, shape, generator):
    vocabulary = getattr(config.get_text_config(), "vocab_size", None)
    if not isinstance(vocabulary, int):
        raise TraceError(f"vocab_size: {type(config).__name__} has none, expected the number of tokens; set it with --config where "
                         "the field is listed, or write a build() that makes the inputs")
    return torch.randint(FIRST_ID if vocabulary > FIRST_ID else 0, vocabulary, shape, generator=generator)


def images(config, shape, generator):
    vision = getattr(config, "vision_config", config)
    size = getattr(vision, "image_size", None) or IMAGE_SIDE
    height, width = size if isinstance(size, (list, tuple)) else (size, size)
    channels = getattr(vision, "num_channels", 3)
    frames = [getattr(vision, "num_frames", FRAMES)] if is_video(vision) else []
    return torch.randn(shape[0], *frames, channels, height, width, generator=generator)


def is_video(config):
    return hasattr(config, "num_frames") or hasattr(config, "tubelet_size")


def features(config, shape, generator):
    """Spectrogram frames: Whisper's as (batch, bands, time), others' as (batch, time, bands)."""
    bands = next((getattr(config, name) for name in ("num_mel_bins", "input_feat_per_channel",
                                                     "feature_projection_input_dim") if hasattr(config, name)), 80)
    if hasattr(config, "max_source_positions") and hasattr(config, "num_mel_bins"):
        return torch.randn(shape[0], bands, 2 * config.max_source_positions, generator=generator)
    return torch.randn(*shape, bands, generator=generator)


def samples(config, shape, generator):
    """Sound, or the spectrogram that some audio models call so."""
    if hasattr(config, "num_mel_bins") and hasattr(config, "max_length"):
        return torch.randn(shape[0], config.max_length, config.num_mel_bins, generator=generator)
    return torch.randn(shape[0], SAMPLES, generator=generator)


MAKERS = {"input_ids": ids, "pixel_values": images, "pixel_values_videos": images, "input_features": features,
          "input_values": samples}
