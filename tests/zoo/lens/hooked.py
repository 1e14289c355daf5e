"""HookedTransformers of many kinds: architectures from their configurations, with seeded random weights.

Each function takes nothing and returns (module, example inputs), as cleave-trace wants it.
"""

import torch
from transformer_lens import HookedTransformer, HookedTransformerConfig

LAYERS, BATCH, SEQ, VOCABULARY = 4, 4, 12, 101


def tokens(batch=BATCH, seed=0):
    return torch.randint(0, VOCABULARY, (batch, SEQ), generator=torch.Generator().manual_seed(seed))


def build(**fields):
    shape = {"n_layers": LAYERS, "d_model": 64, "n_ctx": 32, "d_head": 16, "n_heads": 4, "d_vocab": VOCABULARY, "seed": 0}
    model = HookedTransformer(HookedTransformerConfig(**{**shape, **fields})).eval()
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        # Biases and scales of norms that are all zero or one would hide that they were forgotten.
        for parameter in model.parameters():
            parameter += 0.1 * torch.randn(parameter.shape, generator=generator)
    return model, (tokens(),)


def gpt2():
    return build(act_fn="gelu_new", normalization_type="LN")


def folded():
    """With the weights of norms folded into those of the layers after them, as from_pretrained does it."""
    return build(act_fn="gelu", normalization_type="LNPre")


def without_norms():
    return build(act_fn="relu", normalization_type=None)


def attention_only():
    return build(attn_only=True, normalization_type="LN", positional_embedding_type="shortformer")


def solu():
    return build(act_fn="solu_ln", normalization_type="LN")


def llama():
    """Rotary position embeddings, gated MLPs, grouped-query attention."""
    return build(act_fn="silu", normalization_type="RMS", positional_embedding_type="rotary", rotary_dim=16, gated_mlp=True,
                 n_key_value_heads=2, final_rms=True)


def neox():
    """Attention and MLP side by side, a part of each head rotated."""
    return build(act_fn="gelu", normalization_type="LN", positional_embedding_type="rotary", rotary_dim=8, parallel_attn_mlp=True)


def bloom():
    """Attention with linear biases."""
    return build(act_fn="gelu_new", normalization_type="LN", positional_embedding_type="alibi", post_embedding_ln=True)


def gemma():
    """Norms before and after, softcaps, every other layer with a window of 4 tokens."""
    return build(act_fn="gelu_pytorch_tanh", normalization_type="RMS", positional_embedding_type="rotary", rotary_dim=16,
                 gated_mlp=True, n_key_value_heads=2, use_normalization_before_and_after=True, attn_scores_soft_cap=5.0,
                 output_logits_soft_cap=3.0, use_local_attn=True, window_size=4,
                 attn_types=["global", "local"] * (LAYERS // 2))


def qwen():
    """Norms of queries and keys."""
    return build(act_fn="silu", normalization_type="RMS", positional_embedding_type="rotary", rotary_dim=16, gated_mlp=True,
                 use_qk_norm=True)


def mixtral():
    """A mixture of experts."""
    return build(act_fn="silu", normalization_type="RMS", positional_embedding_type="rotary", rotary_dim=16, gated_mlp=True,
                 num_experts=4, experts_per_token=2)


def split():
    """Every hook point that a configuration switches on."""
    return build(act_fn="gelu_new", normalization_type="LN", use_attn_result=True, use_split_qkv_input=True, use_hook_mlp_in=True,
                 use_hook_tokens=True)


def split_llama():
    return build(act_fn="silu", normalization_type="RMS", positional_embedding_type="rotary", rotary_dim=16, gated_mlp=True,
                 n_key_value_heads=2, use_attn_result=True, use_split_qkv_input=True, use_hook_mlp_in=True, use_hook_tokens=True)


def attention_input():
    """One input for each head, which queries, keys and values share."""
    return build(act_fn="gelu_new", normalization_type="LN", parallel_attn_mlp=True, use_attn_in=True, use_attn_result=True,
                 use_hook_mlp_in=True)


NAMES = ("gpt2", "folded", "without_norms", "attention_only", "solu", "llama", "neox", "bloom", "gemma", "qwen", "mixtral", "split",
         "split_llama", "attention_input")
