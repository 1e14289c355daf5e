"""Example inputs of any model of transformers, from the arguments of its forward and its configuration."""

import inspect

import torch

from cleave_trace import hf_inputs

BATCH, SEQUENCE, TARGET = 2, 16, 8
SAMPLES = 3200
FRAMES = 64


VARIANTS = 3


def example(model, variant):
    """Keyword arguments for `model`: all kinds of input that it has (0), its main input (1), or only what it must have (2)."""
    maker = Maker(model)
    return (maker.everything, maker.main, maker.required)[variant]()


def ones(*shape):
    return torch.ones(shape, dtype=torch.long)


class Maker:
    def __init__(self, model):
        self.model, self.config = model, model.config
        self.generator = torch.Generator().manual_seed(1)
        self.arguments = {name: argument for name, argument in inspect.signature(model.forward).parameters.items()
                          if argument.kind is not argument.VAR_KEYWORD}

    def everything(self):
        """Every input of KINDS that forward takes, text with places for the images."""
        found = {name: getattr(self, name)() for name in KINDS if name in self.arguments}
        if "pixel_values" in found:
            found.pop("pixel_values_videos", None)
        if "input_ids" in found and "pixel_values" in found:
            self.add_patches(found)
            self.add_places(found)
        return self.finished(found)

    def main(self):
        names = {self.model.main_input_name, *self.required_names()} & {*KINDS, *MORE}
        return self.finished({name: getattr(self, name)() for name in self.arguments if name in names})

    def required(self):
        return self.finished({name: getattr(self, name)() for name in self.required_names()})

    def required_names(self):
        names = [name for name, argument in self.arguments.items() if argument.default is argument.empty
                 and argument.kind is argument.POSITIONAL_OR_KEYWORD]
        unknown = [name for name in names if not hasattr(self, name)]
        if unknown:
            raise ValueError(f"no rule for the input {unknown[0]}")
        return names

    def finished(self, found):
        if "input_ids" in found and "attention_mask" in self.arguments and "pixel_values" not in found:
            found["attention_mask"] = self.attention_mask()
        if getattr(self.config, "is_encoder_decoder", False) and "decoder_input_ids" in self.arguments:
            found["decoder_input_ids"] = self.decoder_input_ids()
        if "use_cache" in self.arguments:
            found["use_cache"] = False
        return found

    def add_patches(self, found):
        """Images as a row of patches, for models that ask for their numbers in time, height and width."""
        if "image_grid_thw" not in self.arguments:
            return
        found["image_grid_thw"] = self.grid_thw()
        found["pixel_values"] = self.patches()
        if "mm_token_type_ids" in self.arguments:
            found["mm_token_type_ids"] = None

    def add_places(self, found):
        """Text begins with as many image tokens as an image has features."""
        token = next((getattr(self.config, name) for name in ("image_token_id", "image_token_index")
                      if isinstance(getattr(self.config, name, None), int)), None)
        features = getattr(self.model, "get_image_features", None) or getattr(
            getattr(self.model, "model", None), "get_image_features", None)
        if token is None or features is None:
            return
        known = inspect.signature(features).parameters
        with torch.no_grad():
            given = features(**{name: value for name, value in found.items() if name in known and name != "input_ids"})
        count = rows(given) // BATCH
        places = torch.full((BATCH, count), token)
        found["input_ids"] = torch.cat([found["input_ids"][:, :2], places, found["input_ids"][:, 2:]], 1)
        if "mm_token_type_ids" in found:
            found["mm_token_type_ids"] = (found["input_ids"] == token).long()
        if "token_type_ids" in self.arguments and "token_type_ids" in found:
            found["token_type_ids"] = (found["input_ids"] == token).long()

    def patches(self):
        vision = self.vision()
        width = self.channels(vision) * getattr(vision, "temporal_patch_size", 1) * vision.patch_size ** 2
        return torch.randn(BATCH * 16, width, generator=self.generator)

    # One function an input.

    def text(self):
        return self.config.get_text_config()

    def vision(self):
        return next((getattr(self.config, name) for name in ("vision_config", "vision_encoder_config")
                     if getattr(self.config, name, None) is not None), self.config)

    def channels(self, vision):
        return next((getattr(vision, name) for name in ("num_channels", "in_channels", "in_chans")
                     if isinstance(getattr(vision, name, None), int)), 3)

    def input_ids(self):
        """Numbers that mean nothing special."""
        special = {value for config in (self.config, self.text()) for name, value in vars(config).items()
                   if name.endswith(("token_id", "token_index")) and isinstance(value, int)}
        vocabulary = next((getattr(config, "vocab_size") for config in (self.text(), self.config)
                           if isinstance(getattr(config, "vocab_size", None), int)), 100)
        plain = torch.tensor([value for value in range(vocabulary) if value > hf_inputs.FIRST_ID and value not in special])
        return plain[torch.randint(len(plain), (BATCH, SEQUENCE), generator=self.generator)]

    def attention_mask(self):
        mask = ones(BATCH, SEQUENCE)
        mask[0, -3:] = 0
        return mask

    def decoder_input_ids(self):
        found = self.input_ids()[:, :TARGET]
        channels = getattr(self.config, "num_codebooks", None) or getattr(getattr(self.config, "decoder", None),
                                                                         "num_codebooks", None)
        return found.repeat(channels, 1) if channels else found

    def pixel_values(self):
        if "grid_thw" in self.arguments:
            return self.patches()
        vision = self.vision()
        size = next((getattr(config, "image_size") for config in (vision, self.config)
                     if getattr(config, "image_size", None)), 64)
        height, width = size if isinstance(size, (list, tuple)) else (size, size)
        frames = [getattr(vision, "num_frames", hf_inputs.FRAMES)] if hf_inputs.is_video(vision) else []
        return torch.randn(BATCH, *frames, self.channels(vision), height, width, generator=self.generator)

    def pixel_values_videos(self):
        vision = self.vision()
        size = getattr(vision, "image_size", None) or getattr(vision, "crop_size", None) or 64
        frames = getattr(vision, "num_frames", None) or getattr(vision, "frames_per_clip", None) or 4
        return torch.randn(BATCH, frames, self.channels(vision), size, size, generator=self.generator)

    def audio(self):
        return next((getattr(self.config, name) for name in ("audio_config", "encoder_config", "audio_encoder", "speech_encoder")
                     if hasattr(getattr(self.config, name, None), "to_dict")), self.config)

    def input_features(self):
        config = self.audio()
        bands = next((getattr(config, name) for name in ("num_mel_bins", "input_feat_per_channel", "input_feat_size",
                                                         "feature_projection_input_dim", "input_dim", "feat_in", "n_mels",
                                                         "mel_bins") if isinstance(getattr(config, name, None), int)), 80)
        if hasattr(config, "max_source_positions") and hasattr(config, "num_mel_bins") and "conv_kernel_sizes" not in vars(config):
            return torch.randn(BATCH, bands, 2 * config.max_source_positions, generator=self.generator)
        if self.model.__class__.__name__.startswith("Clap"):
            return torch.randn(BATCH, 1, 1001, bands, generator=self.generator)
        return torch.randn(BATCH, FRAMES, bands, generator=self.generator)

    def input_values(self):
        config = self.config
        if hasattr(config, "num_mel_bins") and hasattr(config, "max_length"):
            return torch.randn(BATCH, config.max_length, config.num_mel_bins, generator=self.generator)
        if hasattr(config, "audio_channels"):
            return torch.randn(BATCH, config.audio_channels, SAMPLES, generator=self.generator)
        return torch.randn(BATCH, SAMPLES, generator=self.generator)

    def decoder_input_values(self):
        return torch.randn(BATCH, TARGET, getattr(self.config, "num_mel_bins", 80), generator=self.generator)

    def bbox(self):
        corners = torch.randint(0, 60, (BATCH, SEQUENCE, 4), generator=self.generator)
        corners[..., 2:] += corners[..., :2]
        return corners

    def token_type_ids(self):
        return torch.zeros(BATCH, SEQUENCE, dtype=torch.long)

    def position_ids(self):
        return torch.arange(SEQUENCE).repeat(BATCH, 1)

    def inputs_embeds(self):
        return torch.randn(BATCH, SEQUENCE, self.text().hidden_size, generator=self.generator)

    def encoder_hidden_states(self):
        return torch.randn(BATCH, SEQUENCE, self.text().hidden_size, generator=self.generator)

    def hidden_states(self):
        return self.patches() if "grid_thw" in self.arguments else self.encoder_hidden_states()

    def grid_thw(self):
        return torch.tensor([[1, 4, 4]] * BATCH)

    def image_grid_thw(self):
        return self.grid_thw()

    def input_features_mask(self):
        return torch.ones(BATCH, FRAMES, dtype=torch.bool)

    def audio_mel(self):
        return self.input_features()

    def audio_mel_mask(self):
        return torch.zeros(BATCH, FRAMES, dtype=torch.bool)

    def query_embeds(self):
        return self.encoder_hidden_states()

    def past_values(self):
        length = next((getattr(self.config, name) for name in ("context_length", "seq_length", "prediction_length")
                       if isinstance(getattr(self.config, name, None), int)), SEQUENCE)
        lags = getattr(self.config, "lags_sequence", None)
        length += max(lags) if lags else 0
        series = getattr(self.config, "num_input_channels", None) or getattr(self.config, "input_size", 1)
        shape = (BATCH, length) if series == 1 and lags else (BATCH, length, series)
        return torch.randn(shape, generator=self.generator)

    def past_time_features(self):
        return torch.randn(BATCH, self.past_values().size(1), self.config.num_time_features, generator=self.generator)

    def past_observed_mask(self):
        return torch.ones_like(self.past_values())

    def states(self):
        return torch.randn(BATCH, SEQUENCE, self.config.state_dim, generator=self.generator)

    def actions(self):
        return torch.randn(BATCH, SEQUENCE, self.config.act_dim, generator=self.generator)

    def rewards(self):
        return torch.randn(BATCH, SEQUENCE, 1, generator=self.generator)

    def returns_to_go(self):
        return torch.randn(BATCH, SEQUENCE, 1, generator=self.generator)

    def timesteps(self):
        return self.position_ids()

    def spectrogram(self):
        width = getattr(self.config, "num_mel_bins", None) or getattr(self.config, "model_in_dim", 80)
        return torch.randn(BATCH, FRAMES, width, generator=self.generator)

    def task_inputs(self):
        return self.input_ids()

    def prompt_pixel_values(self):
        return self.pixel_values()

    def prompt_masks(self):
        return torch.randn_like(self.pixel_values())

    def audio_values(self):
        return self.input_values()

    def audio_codes(self):
        return torch.randint(0, 60, (BATCH, 2, SEQUENCE), generator=self.generator)

    def inputs(self):
        return self.input_ids()


KINDS = ("input_ids", "pixel_values", "pixel_values_videos", "input_features", "input_values", "bbox", "task_inputs")
MORE = ("past_values", "states", "spectrogram", "prompt_pixel_values", "audio_values", "audio_codes", "inputs")


def rows(given):
    """The number of features in what get_image_features returned."""
    value = getattr(given, "pooler_output", None)
    value = given if value is None else value
    value = getattr(value, "last_hidden_state", value)
    if isinstance(value, (list, tuple)):
        return sum(item.reshape(-1, item.shape[-1]).shape[0] for item in value)
    return value.reshape(-1, value.shape[-1]).shape[0]
