"""TransformerBridges: around models of transformers and around TransformerLens's own, with seeded random weights.

Each function takes nothing and returns (module, example inputs), as cleave-trace wants it.
"""

import torch
import transformers
from transformer_lens.model_bridge.bridge import TransformerBridge
from transformer_lens.model_bridge.sources._bridge_builder import build_bridge_from_module

LAYERS, BATCH, SEQ, VOCABULARY = 4, 4, 12, 101


def tokens(batch=BATCH, seed=0):
    return torch.randint(0, VOCABULARY, (batch, SEQ), generator=torch.Generator().manual_seed(seed))


def example(bridge):
    bridge.eval()
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        # Biases and scales of norms that are all zero or one would hide that they were forgotten.
        for parameter in bridge.parameters():
            parameter += 0.1 * torch.randn(parameter.shape, generator=generator)
    return bridge, (tokens(),)


def around(config, compatible=False):
    """A bridge around a model of transformers."""
    torch.manual_seed(0)
    config._attn_implementation = "eager"
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager")
    bridge = build_bridge_from_module(model, type(model).__name__, hf_config=config)
    if compatible:
        bridge.enable_compatibility_mode(no_processing=True)
    return example(bridge)


def gpt2():
    return around(transformers.GPT2Config(n_layer=LAYERS, n_embd=64, n_head=4, n_positions=32, vocab_size=VOCABULARY))


def llama():
    return around(transformers.LlamaConfig(num_hidden_layers=LAYERS, hidden_size=64, intermediate_size=128, num_attention_heads=4,
                                           num_key_value_heads=2, vocab_size=VOCABULARY, max_position_embeddings=32))


def neox():
    return around(transformers.GPTNeoXConfig(num_hidden_layers=LAYERS, hidden_size=64, intermediate_size=128,
                                             num_attention_heads=4, vocab_size=VOCABULARY, max_position_embeddings=32))


def native():
    """TransformerLens's own model."""
    return example(TransformerBridge.boot_native({
        "n_layers": LAYERS, "d_model": 64, "n_ctx": 32, "d_head": 16, "n_heads": 4, "d_mlp": 256, "d_vocab": VOCABULARY,
        "act_fn": "gelu", "normalization_type": "LN", "seed": 0}))


NAMES = ("gpt2", "llama", "neox", "native")
