"""The package tensor_parallel: two threads of one process, one for each half of the model."""

import tensor_parallel
import transformers
from safetensors.torch import load_file
from torch import nn

import peer


def split(options):
    """The split model, and the inputs by name."""
    folder = options.traced.with_name("checkpoint")
    cls = getattr(transformers, transformers.AutoConfig.from_pretrained(folder).architectures[0])
    # Its wrapper refuses attention through scaled_dot_product_attention.
    model = cls.from_pretrained(folder, attn_implementation="eager").eval()
    if model.config.model_type == "bert":
        untie(model.get_output_embeddings())
    halves = tensor_parallel.tensor_parallel(model, ["cpu", "cpu"], sharded=False)
    return halves, load_file(options.traced.with_suffix(".inputs.safetensors"))


def prepare(options):
    model, inputs = split(options)
    return lambda: model(**inputs)


def untie(head):
    """It splits a head that is tied to the embedding as the embedding, and the shapes do not fit then."""
    head.weight, head.bias = nn.Parameter(head.weight.clone()), nn.Parameter(head.bias.clone())


if __name__ == "__main__":
    peer.run_alone(prepare)
