#!/usr/bin/env python3
"""Writes a Llama (grouped queries, gated feed-forward layers) as it is served, in bfloat16, as IR without weights.

usage: llama_ir.py LAYERS HIDDEN FEED_FORWARD HEADS KV_HEADS SEQUENCE VOCABULARY BATCH > llama.mlir
Angles of the rotary positions are inputs.
"""

import sys

sys.dont_write_bytecode = True
from gpt_ir import Function

DTYPE = "bf16"


def llama(layers, hidden, feed_forward, heads, kv_heads, sequence, vocabulary, batch):
    f = Function()
    none, true, false = f.constant("unit", "none"), f.constant("true", "i1"), f.constant("false", "i1")
    one, two, three, last = f.number(1), f.number(2), f.number(3), f.number(-1)
    width = hidden // heads
    ids = ("%ids", f'tensor<?x{sequence}xi64, #cleave.layout<dims = ["batch", "{sequence}"]>>')
    cos, sin = ((name, f"tensor<1x1x{sequence}x{width}x{DTYPE}>") for name in ("%cos", "%sin"))

    def param(path, *shape):
        return f.param(f"{path}.weight", *shape, dtype=DTYPE)

    def norm(x, path):
        return f.call("aten.rms_norm", x, f.numbers(hidden), param(path, hidden), f.real(1e-5), path=path)

    def linear(x, path, out, inner):
        return f.call("aten.linear", x, param(path, out, inner), none, path=path)

    def add(x, y, path):
        return f.call("aten.add.Tensor", x, y, one, path=path)

    def mul(x, y, path):
        return f.call("aten.mul.Tensor", x, y, path=path)

    def project(x, path, count):
        x = f.call("aten.view", linear(x, path, count * width, hidden), f.numbers(-1, sequence, count, width), path=path)
        return f.call("aten.transpose.int", x, one, two, path=path)

    def rotate(x, path):
        half, end = f.number(width // 2), f.number(2**63 - 1)
        low = f.call("aten.slice.Tensor", x, three, f.number(0), half, one, path=path)
        high = f.call("aten.neg", f.call("aten.slice.Tensor", x, three, half, end, one, path=path), path=path)
        halves = f.call("cleave.list", high, low, path=path, result="!cleave.list<!cleave.tensor>")
        return add(mul(x, cos, path), mul(f.call("aten.cat", halves, last, path=path), sin, path), path)

    def attention(x, path):
        q = rotate(project(x, f"{path}.q_proj", heads), path)
        k = rotate(project(x, f"{path}.k_proj", kv_heads), path)
        v = project(x, f"{path}.v_proj", kv_heads)
        y = f.call("aten.scaled_dot_product_attention", q, k, v, none, f.real(0), true, none, true, path=path)
        y = f.call("aten.reshape", f.call("aten.transpose.int", y, one, two, path=path), f.numbers(-1, sequence, hidden), path=path)
        return linear(y, f"{path}.o_proj", hidden, hidden)

    def gated(x, path):
        gate = f.call("aten.silu", linear(x, f"{path}.gate_proj", feed_forward, hidden), path=f"{path}.act_fn")
        return linear(mul(gate, linear(x, f"{path}.up_proj", feed_forward, hidden), path), f"{path}.down_proj", hidden, feed_forward)

    x = f.call("aten.embedding", param("model.embed_tokens", vocabulary, hidden), ids, last, false, false, path="model.embed_tokens")
    for i in range(layers):
        path = f"model.layers.{i}"
        x = add(x, attention(norm(x, f"{path}.input_layernorm"), f"{path}.self_attn"), path)
        x = add(x, gated(norm(x, f"{path}.post_attention_layernorm"), f"{path}.mlp"), path)
    return f.text([ids, cos, sin], linear(norm(x, "model.norm"), "lm_head", vocabulary, hidden), batch)


if __name__ == "__main__":
    if len(sys.argv) != 9:
        sys.exit(__doc__)
    print(llama(*map(int, sys.argv[1:])), end="")
