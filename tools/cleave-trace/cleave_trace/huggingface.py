"""Models of transformers: any architecture with seeded random weights, or a folder with weights. Never downloads."""

import difflib
import inspect
import os
import pathlib

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
import transformers
from transformers.models.auto import modeling_auto
from transformers.models.auto.configuration_auto import CONFIG_MAPPING, CONFIG_MAPPING_NAMES

from cleave_trace import hf_config, hf_inputs, hf_missing
from cleave_trace.errors import TraceError

transformers.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()

# Well-known names of models whose configuration is the default one of their type.
ALIASES = {
    "albert-xxlarge-v1": "albert",
    "bart-large": "bart",
    "bert-base": "bert",
    "bert-base-uncased": "bert",
    "clip-vit-base-patch32": "clip",
    "convnext-tiny": "convnext",
    "distilbert-base-uncased": "distilbert",
    "gpt2-small": "gpt2",
    "gpt-j-6b": "gptj",
    "gpt-neox-20b": "gpt_neox",
    "llama-7b": "llama",
    "mistral-7b": "mistral",
    "resnet-50": "resnet",
    "swin-tiny": "swin",
    "t5-small": "t5",
    "vit-base": "vit",
    "vit-base-patch16-224": "vit",
    "wav2vec2-base": "wav2vec2",
    "whisper-tiny": "whisper",
}

# The heads in the order in which they are tried; encoder-decoders try the first two, others start at the third. A model
# that can be an encoder (BERT) is one, and what none of these has is taken without a head.
HEADS = ("SEQ_TO_SEQ_CAUSAL_LM", "SPEECH_SEQ_2_SEQ", "MASKED_LM", "CAUSAL_LM", "IMAGE_TEXT_TO_TEXT",
         "ZERO_SHOT_IMAGE_CLASSIFICATION", "IMAGE_CLASSIFICATION", "CTC", "AUDIO_CLASSIFICATION", "OBJECT_DETECTION",
         "SEMANTIC_SEGMENTATION", "UNIVERSAL_SEGMENTATION", "DEPTH_ESTIMATION", "VIDEO_CLASSIFICATION", "IMAGE_TO_IMAGE")
ENCODER_DECODER_HEADS = 2


def names():
    """Every architecture that has a model class, and the aliases."""
    return sorted([*(model_type for model_type in CONFIG_MAPPING_NAMES if class_name(model_type, False)), *ALIASES])


def load(name, options):
    """The (model, example inputs) of a model type, an alias, or a folder with config.json and safetensors."""
    is_known = name in CONFIG_MAPPING_NAMES or name in ALIASES
    is_folder = "/" in name or (not is_known and pathlib.Path(name).is_dir())
    model = load_folder(pathlib.Path(name), options) if is_folder else build(name, options)
    # Decoding step by step is the runtime's to add; a cache in the trace would only be returned and thrown away.
    hf_config.set_everywhere(model.config, "use_cache", False)
    return model, hf_inputs.example(model, options, is_encoder(model.config))


def build(name, options):
    model_type = ALIASES.get(name, name)
    if model_type not in CONFIG_MAPPING_NAMES:
        known = [*CONFIG_MAPPING_NAMES, *ALIASES]
        near = "".join(f"; did you mean hf:{match}?" for match in difflib.get_close_matches(name, known, 1))
        raise TraceError(f"no such architecture in transformers {transformers.__version__}, expected one of --list "
                         f"or a folder{near}")
    config = hf_config.build(CONFIG_MAPPING[model_type], options.config)
    return hf_missing.build(model_class(config, options.class_name), config)


def load_folder(folder, options):
    """The model in a folder with its own weights, which must be complete."""
    if not (folder / "config.json").is_file():
        raise TraceError("no config.json there, expected a model's folder; pass one, or a name of --list")
    if not any(folder.glob("*.safetensors")):
        raise TraceError("no .safetensors there, expected the model's weights; convert them (nothing is ever unpickled)")
    config = transformers.AutoConfig.from_pretrained(folder, local_files_only=True)
    if options.config:
        raise TraceError("--config with a folder, expected the folder's own configuration; edit its config.json")
    cls = model_class(config, options.class_name or (config.architectures or [None])[0])
    model, report = cls.from_pretrained(folder, config=config, local_files_only=True, use_safetensors=True,
                                        output_loading_info=True)
    missing = sorted(report["missing_keys"])
    if missing:
        raise TraceError(f"no weights for {missing[0]} and {len(missing) - 1} more of {cls.__name__}, expected all; "
                         "choose the class that was saved with --class")
    return model


def model_class(config, name):
    """The class called `name`, or the one with the first head of HEADS that this configuration has."""
    name = name or class_name(config.model_type, getattr(config, "is_encoder_decoder", False))
    if name is None:
        raise TraceError("transformers lists no model class for it, expected one; name it with --class")
    cls = getattr(transformers, name, None)
    if not (inspect.isclass(cls) and issubclass(cls, transformers.PreTrainedModel)):
        raise TraceError(f"{name} is no model class of transformers {transformers.__version__}, expected one such as "
                         "GPT2LMHeadModel; check --class")
    if cls.config_class is not None and not isinstance(config, cls.config_class):
        raise TraceError(f"{name} takes a {cls.config_class.__name__}, found {type(config).__name__}; choose a class of "
                         "this architecture with --class")
    return cls


def class_name(model_type, is_encoder_decoder):
    heads = HEADS if is_encoder_decoder else (*HEADS[ENCODER_DECODER_HEADS:], *HEADS[:ENCODER_DECODER_HEADS])
    others = sorted(key for key in vars(modeling_auto) if key.startswith("MODEL_FOR_") and key.endswith("_NAMES"))
    mappings = [f"MODEL_FOR_{head}_MAPPING_NAMES" for head in heads]
    for mapping in (*mappings, "MODEL_MAPPING_NAMES", *others):
        found = getattr(modeling_auto, mapping).get(model_type)
        if found:
            return found if isinstance(found, str) else found[0]
    return None


def is_encoder(config):
    """Whether the model reads a whole text at once, so that its attention mask means something."""
    if getattr(config, "is_encoder_decoder", False) or getattr(config, "is_decoder", False):
        return False
    return (config.model_type in modeling_auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES
            or config.model_type not in modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES)
