"""Architectures that train, small and without dropout, and trainings of them."""

import pytest
from safetensors.torch import load_file

from conftest import TINY, cleave

# Without dropout, whose random numbers are a plan's own.
MODELS = {
    "hf:gpt2": TINY["gpt2"] + ",attn_pdrop=0,embd_pdrop=0,resid_pdrop=0",
    "hf:bert:BertForMaskedLM": TINY["bert"] + ",hidden_dropout_prob=0,attention_probs_dropout_prob=0",
    "hf:llama": "num_hidden_layers=2,hidden_size=32,intermediate_size=64,num_attention_heads=4,num_key_value_heads=2,vocab_size=128",
    "hf:t5": TINY["t5"] + ",dropout_rate=0",
    "hf:vit:ViTForImageClassification": "num_hidden_layers=2,hidden_size=32,num_attention_heads=4,intermediate_size=64,"
                                        "image_size=32,patch_size=8,hidden_dropout_prob=0,attention_probs_dropout_prob=0",
    "hf:resnet:ResNetForImageClassification": "depths=[1,1],hidden_sizes=[16,32],embedding_size=8,layer_type=basic",
    "hf:convnext:ConvNextForImageClassification": "depths=[1,1],hidden_sizes=[8,16],num_stages=2,drop_path_rate=0",
}
SMALL = "num_hidden_layers=2,hidden_size=32,intermediate_size=64,num_attention_heads=4,vocab_size=128"
# Phi-3 with one key head: one weight has heads of queries, which ranks share out, and the keys and values, which all ranks have.
MORE = {"hf:phi3": f"{SMALL},num_key_value_heads=1,pad_token_id=0",
        "hf:mixtral": f"{SMALL},num_key_value_heads=2,num_local_experts=4,output_router_logits=false",
        "hf:mistral": f"{SMALL},num_key_value_heads=4", "hf:gpt_neox": SMALL}
CONFIGS = {**MODELS, **MORE}


def source_of(model):
    """Name and class of a key of CONFIGS, as cleave-trace takes them."""
    kind, *class_name = model.removeprefix("hf:").split(":")
    return f"hf:{kind}", class_name


def compiled(model, folder, *options, name="model.plan"):
    cleave("compile", model.path, "--inputs", model.inputs, "--train", *options, "-o", folder / name)
    return folder / name


def trained(plan, data, *options, steps=4, lr=1e-2):
    """What a training reports, and its weights."""
    output = plan.with_suffix(".safetensors")
    done = cleave("train", plan, "--data", data, "--steps", steps, "--lr", lr, "--output", output, "--json", *options)
    return done.json(), load_file(output)


def check_same(found, expected):
    """Within what 32 bits allow."""
    assert found[0]["losses"] == pytest.approx(expected[0]["losses"], rel=1e-4)
    assert found[0]["gradient_norms"] == pytest.approx(expected[0]["gradient_norms"], rel=1e-3)
    assert found[1].keys() == expected[1].keys()
    for name, weight in expected[1].items():
        assert (found[1][name] - weight).abs().max() <= 1e-3 * max(weight.abs().max(), 0.1), name
