"""Example labels of a transformers model, with which its forward also returns the loss."""

import torch
from transformers.models.auto import modeling_auto

from cleave_trace.errors import TraceError

CTC_LABELS = 16  # per sequence; must be fewer than the encoder's frames of the sound

TEXT = ("CAUSAL_LM", "MASKED_LM", "IMAGE_TEXT_TO_TEXT", "MULTIMODAL_LM", "SEQ_TO_SEQ_CAUSAL_LM", "SPEECH_SEQ_2_SEQ")
CLASSES = ("SEQUENCE_CLASSIFICATION", "IMAGE_CLASSIFICATION", "VIDEO_CLASSIFICATION", "AUDIO_CLASSIFICATION",
           "NEXT_SENTENCE_PREDICTION")


def labels(model, arguments, found, ids, generator):
    """Labels by argument, for the inputs `found` by argument; `ids(config, shape, generator)` draws ids of tokens.

    Empty where forward, which takes `arguments`, makes no loss.
    """
    def below(limit, shape):
        return torch.randint(limit, shape, generator=generator)

    batch = next(iter(found.values())).shape[0]
    if "return_loss" in arguments:  # Pairs of texts and images are their own labels.
        return {"return_loss": True}
    if "start_positions" in arguments and has_head(model, ("QUESTION_ANSWERING", "DOCUMENT_QUESTION_ANSWERING")):
        return {name: below(found["input_ids"].shape[1], (batch,)) for name in ("start_positions", "end_positions")}
    if "labels" not in arguments:
        return {}
    text = found.get("decoder_input_ids", found.get("input_ids"))
    if has_head(model, TEXT) and text is not None:
        return {"labels": ids(model.config, text.shape, generator)}
    if has_head(model, ("CTC",)):
        return {"labels": ids(model.config, (batch, CTC_LABELS), generator)}
    if has_head(model, CLASSES):
        return {"labels": below(model.config.num_labels, (batch,))}
    if has_head(model, ("TOKEN_CLASSIFICATION",)) and text is not None:
        return {"labels": below(model.config.num_labels, text.shape)}
    if has_head(model, ("SEMANTIC_SEGMENTATION",)):
        return {"labels": below(model.config.num_labels, (batch, *found["pixel_values"].shape[-2:]))}
    raise TraceError(f"--train: no rule for the labels of {type(model).__name__}, expected a model of text, or a classifier "
                     "of texts, tokens, images, pixels or sounds; write a build() that makes its inputs")


def has_head(model, heads):
    """Whether transformers lists the model's class under one of `heads`."""
    listed = [getattr(modeling_auto, f"MODEL_FOR_{head}_MAPPING_NAMES").values() for head in heads]
    name = type(model).__name__
    return any(name == entry or isinstance(entry, tuple) and name in entry for entries in listed for entry in entries)
