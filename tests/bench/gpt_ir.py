#!/usr/bin/env python3
"""Writes a GPT as it is trained (Megatron-LM's, with dropout, in float16) as IR without weights.

usage: gpt_ir.py LAYERS HIDDEN HEADS SEQUENCE VOCABULARY BATCH > gpt.mlir
The scores' scale and causal mask are not there: Megatron's kernels have them on their way, and read and write no more for that.
"""

import sys


class Function:
    """IR text, line by line. Types of results are left to `infer-types`."""

    def __init__(self):
        self.lines, self.constants = [], {}

    def value(self, text, path=""):
        name = f"%{len(self.lines)}"
        self.lines.append(f'  {name} = {text} loc("{path}")')
        return name

    def constant(self, text, kind):
        if (text, kind) not in self.constants:
            self.constants[text, kind] = (self.value(f"cleave.constant({text}) : {kind}"), kind)
        return self.constants[text, kind]

    def number(self, n):
        return self.constant(f"{n} : i64", "i64")

    def real(self, n):
        return self.constant(f"{n:e} : f64", "f64")

    def numbers(self, *ns):
        return self.constant(f"[{', '.join(map(str, ns))}]", "!cleave.list<i64>")

    def param(self, name, *shape, dtype="f16"):
        kind = f"tensor<{'x'.join(map(str, shape))}x{dtype}>"
        return self.value(f'cleave.param "{name}" {{role = "parameter"}} : {kind}', name.rpartition(".")[0]), kind

    def call(self, operator, *operands, path, result="!cleave.tensor"):
        names, kinds = zip(*operands)
        return self.value(f"{operator}({', '.join(names)}) : ({', '.join(kinds)}) -> {result}", path), result

    def text(self, arguments, output, batch):
        """Of the whole, with arguments such as `("%ids", type)`, whose sizes may name `batch`."""
        inputs = ", ".join(f'{name}: {kind} {{cleave.name = "{name[1:]}"}}' for name, kind in arguments)
        return (f"func.func @forward({inputs}) -> {output[1]} attributes {{cleave.symbols = {{batch = {batch} : i64}}}} {{\n"
                + "\n".join(self.lines) + f"\n  return {output[0]} : {output[1]}\n}}\n")


def gpt(layers, hidden, heads, sequence, vocabulary, batch, is_trained=True):
    """Its text; without dropout where it is not trained."""
    f = Function()
    none, true, false = f.constant("unit", "none"), f.constant("true", "i1"), f.constant("false", "i1")
    one, two, last = f.number(1), f.number(2), f.number(-1)
    ids = ("%ids", f'tensor<?x{sequence}xi64, #cleave.layout<dims = ["batch", "{sequence}"]>>')
    pieces = "!cleave.list<!cleave.tensor>"

    def linear(x, path, out, inner):
        return f.call("aten.linear", x, f.param(f"{path}.weight", out, inner), f.param(f"{path}.bias", out), path=path)

    def norm(x, path):
        return f.call("aten.layer_norm", x, f.numbers(hidden), f.param(f"{path}.weight", hidden), f.param(f"{path}.bias", hidden),
                      f.real(1e-5), false, path=path)

    def dropout(x, path):
        return f.call("aten.dropout", x, f.real(0.1), true, path=path) if is_trained else x

    def add(x, y, path):
        return f.call("aten.add.Tensor", x, y, one, path=path)

    def attention(x, path):
        qkv = linear(x, f"{path}.c_attn", 3 * hidden, hidden)
        qkv, _ = f.call("aten.split.Tensor", qkv, f.number(hidden), last, path=path, result=pieces)
        names = f.value(f"cleave.unpack {qkv} : ({pieces}) -> ({', '.join(['!cleave.tensor'] * 3)})", path)
        f.lines[-1] = f.lines[-1].replace(f"{names} = ", f"{names}:3 = ", 1)
        q, k, v = (f.call("aten.transpose.int",
                          f.call("aten.view", (f"{names}#{i}", "!cleave.tensor"), f.numbers(-1, sequence, heads, hidden // heads), path=path),
                          one, two, path=path) for i in range(3))
        scores = f.call("aten.matmul", q, f.call("aten.transpose.int", k, last, f.number(-2), path=path), path=path)
        weights = dropout(f.call("aten.softmax.int", scores, last, none, path=path), f"{path}.attn_dropout")
        y = f.call("aten.transpose.int", f.call("aten.matmul", weights, v, path=path), one, two, path=path)
        y = f.call("aten.reshape", y, f.numbers(-1, sequence, hidden), path=path)
        return dropout(linear(y, f"{path}.c_proj", hidden, hidden), f"{path}.resid_dropout")

    def feed_forward(x, path):
        y = f.call("aten.gelu", linear(x, f"{path}.c_fc", 4 * hidden, hidden), f.constant('"tanh"', "!cleave.str"), path=f"{path}.act")
        return dropout(linear(y, f"{path}.c_proj", hidden, 4 * hidden), f"{path}.dropout")

    table = f.param("transformer.wte.weight", vocabulary, hidden)
    x = f.call("aten.embedding", table, ids, last, false, false, path="transformer.wte")
    x = add(x, f.param("transformer.wpe.weight", sequence, hidden), "transformer")
    x = dropout(x, "transformer.drop")
    for i in range(layers):
        path = f"transformer.h.{i}"
        x = add(x, attention(norm(x, f"{path}.ln_1"), f"{path}.attn"), path)
        x = add(x, feed_forward(norm(x, f"{path}.ln_2"), f"{path}.mlp"), path)
    # The table of tokens is the head's weight, too.
    name, kind = f.call("aten.linear", norm(x, "transformer.ln_f"), table, none, path="lm_head")
    return f.text([ids], (name, kind), batch)


if __name__ == "__main__":
    if len(sys.argv) != 7:
        sys.exit(__doc__)
    print(gpt(*map(int, sys.argv[1:])), end="")
