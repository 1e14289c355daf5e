"""Memory of a training step: predicted, recomputed, and within a limit."""

import re

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from conftest import cleave
from training_modules import Narrow, Normalized, Repeats, traced

pytestmark = pytest.mark.usefixtures("one_thread")


def peaks(plan, folder):
    """Bytes on the device, as predicted and as measured."""
    predicted = cleave("inspect", plan, "--format", "json", cwd=folder).json()["stages"][0]["predicted_peak_bytes"]
    report = cleave("train", plan, "--data", "model.inputs.safetensors", "--steps", 3, "--lr", 1e-3, "--json",
                    "--output", "out.safetensors", cwd=folder).json()
    return predicted, report["devices"][0]["peak_bytes"], report["losses"], load_file(folder / "out.safetensors")


def tried(folder, choices, *options):
    """What `peaks` finds of a plan for each choice of recomputation, by name; losses and weights have the same bits."""
    found = {}
    for name, kinds in choices.items():
        recompute = [word for kind in kinds for word in ("--recompute", kind)]
        cleave("compile", "model.pt", "--inputs", "model.inputs.safetensors", "--train", *options, *recompute, "-o", f"{name}.plan",
               cwd=folder)
        found[name] = peaks(f"{name}.plan", folder)
    first = next(iter(found.values()))
    for _, _, losses, weights in found.values():
        assert losses == first[2]
        assert all(torch.equal(weights[key], tensor) for key, tensor in first[3].items())
    return found


def check_predictions(found):
    for predicted, measured, *_ in found.values():
        assert abs(predicted - measured) <= 0.03 * measured


@pytest.mark.parametrize("model", [Repeats, Narrow])
def test_predicted_memory(model, tmp_path):
    traced(model, tmp_path)
    cleave("compile", "model.pt", "--inputs", "model.inputs.safetensors", "--train", "--optimizer", "sgd", "-o", "model.plan",
           cwd=tmp_path)
    predicted, measured, *_ = peaks("model.plan", tmp_path)
    assert abs(predicted - measured) <= 0.03 * measured


class Recurrent(nn.Module):
    """One kind of layers; `wide`: they take more features than they have hidden units, and the model's input as it is."""

    def __init__(self, kind, wide=False, **options):
        super().__init__()
        self.first = nn.Identity() if wide else nn.Linear(64, 64)
        self.body = kind(64, 32 if wide else 128, batch_first=True, **options)

    def forward(self, x):
        return {"loss": self.body(self.first(x))[0].square().mean()}


@pytest.mark.parametrize("kind, options", [(nn.LSTM, {"num_layers": 2}), (nn.LSTM, {"bidirectional": True}),
                                           (nn.GRU, {"num_layers": 2}), (nn.RNN, {"bias": False}),
                                           (nn.GRU, {"wide": True}), (nn.LSTM, {"wide": True, "bias": False}),
                                           (nn.LSTM, {"num_layers": 3, "dropout": 0.2})])
def test_recurrent_layers(kind, options, tmp_path):
    model = Recurrent(kind, **options).train()
    x = torch.linspace(-1, 1, 16 * 50 * 64).reshape(16, 50, 64)
    torch.jit.save(torch.jit.trace(model, (x,), strict=False, check_trace=False), tmp_path / "model.pt")
    save_file({"x": x}, tmp_path / "model.inputs.safetensors")
    done = cleave("compile", "model.pt", "--inputs", "model.inputs.safetensors", "--train", "-o", "model.plan", cwd=tmp_path)
    assert "runs operations a second time (the tensors that aten." in done.out and "not predicted" not in done.out
    predicted, measured, *_ = peaks("model.plan", tmp_path)
    assert abs(predicted - measured) <= 0.03 * measured


def test_recomputation(trace_model):
    """The same bits, also of dropout, in less memory, which is predicted to 3 %."""
    config = "n_layer=6,n_embd=64,n_head=4,vocab_size=50,n_positions=64"
    folder = trace_model("hf:gpt2", "--config", config, "--batch", 8, "--seq", 64, "--train").path.parent
    found = tried(folder, {"none": (), "full": ("full",), "one": ("transformer.h.3",), "cheap": ("minimum-cut",),
                           "all": ("minimum-cut", "full")})
    check_predictions(found)
    # Of six blocks, the activations of one are there at a time.
    assert found["full"][1] < 0.6 * found["none"][1]
    assert found["full"][1] < found["one"][1] < found["none"][1]
    # Products are saved.
    assert found["full"][1] < found["cheap"][1] < 0.75 * found["none"][1]
    assert found["all"][1] <= found["full"][1]


@pytest.mark.parametrize("dropouts", [",attn_pdrop=0,embd_pdrop=0,resid_pdrop=0", ""])
def test_full_recomputation_saves_the_input_of_each_block(dropouts, trace_model):
    """As Chen et al. (2016): a block more takes its weights, two states of AdamW, and one activation of the batch."""
    batch, length, width = 8, 64, 64
    peak, weights = {}, {}
    for layers in (4, 8):
        # Most memory is taken at the logits, between the forward and the backward pass.
        config = f"n_layer={layers},n_embd={width},n_head=4,vocab_size=3000,n_positions={length}{dropouts}"
        folder = trace_model("hf:gpt2", "--config", config, "--batch", batch, "--seq", length, "--train").path.parent
        cleave("compile", "model.pt", "--inputs", "model.inputs.safetensors", "--train", "--recompute", "full", "-o", "full.plan",
               cwd=folder)
        predicted, peak[layers], *_ = peaks("full.plan", folder)
        assert predicted == peak[layers]
        weights[layers] = (folder / "full.plan" / "rank-000.safetensors").stat().st_size
    more = 3 * (weights[8] - weights[4]) + 4 * batch * length * width * 4
    assert abs(peak[8] - peak[4] - more) <= 0.01 * more


def test_selective_recomputation(trace_model):
    """Attention scores are computed again: where attention is composed of products, less memory for the same bits."""
    config = "n_layer=4,n_embd=32,n_head=8,vocab_size=50,n_positions=96"
    # In training, dropout inside the attention keeps it from being one operator.
    folder = trace_model("hf:gpt2", "--config", config, "--batch", 4, "--seq", 96, "--train").path.parent
    found = tried(folder, {"none": (), "selective": ("selective",), "cheap": ("minimum-cut",)})
    check_predictions(found)
    # Of four layers' scores and probabilities, those of one are there at a time.
    assert found["selective"][1] < 0.6 * found["none"][1]


def test_recomputation_of_microbatches(trace_model):
    config = "n_layer=6,n_embd=64,n_head=4,vocab_size=50,n_positions=64"
    folder = trace_model("hf:gpt2", "--config", config, "--batch", 8, "--seq", 64, "--train").path.parent
    found = tried(folder, {"saved": (), "cheap": ("minimum-cut",), "recomputed": ("full",)}, "--microbatches", 2)
    assert found["recomputed"][1] < found["cheap"][1] < found["saved"][1]
    assert found["recomputed"][1] < 0.75 * found["saved"][1]


@pytest.mark.parametrize("model", [Normalized, Repeats])
def test_recomputation_keeps_what_a_step_writes(model, tmp_path):
    """Running statistics, and weights that are used often: the same bits, whatever is recomputed."""
    traced(model, tmp_path)
    found = {}
    for kind in ("none", "full", "selective", "minimum-cut"):
        said = cleave("compile", "model.pt", "--inputs", "model.inputs.safetensors", "--train",
                      *(() if kind == "none" else ("--recompute", kind)), "-o", f"{kind}.plan", cwd=tmp_path)
        # Neither has attention.
        assert ("--recompute selective: nothing is recomputed" in said.out) == (kind == "selective")
        found[kind] = peaks(f"{kind}.plan", tmp_path)
    for _, _, losses, weights in found.values():
        assert losses == found["none"][2]
        assert all(torch.equal(weights[key], tensor) for key, tensor in found["none"][3].items())


class Wide(nn.Module):
    """An item of a list whose inputs, which its backward pass does not need, are larger than what it does."""

    def __init__(self):
        super().__init__()
        self.first, self.items = nn.Linear(8, 4000), nn.ModuleList([nn.Linear(8, 8)])

    def forward(self, x, labels):
        wide = self.first(x)
        return nn.functional.cross_entropy(self.items[0](wide.exp().sum(-1, keepdim=True).expand(-1, 8)), labels)


def test_what_is_cheap_may_fit_where_all_does_not(tmp_path):
    traced(Wide, tmp_path)
    options = ("compile", "model.pt", "--inputs", "model.inputs.safetensors", "--train")
    cleave(*options, "--recompute", "minimum-cut", "-o", "cheap.plan", cwd=tmp_path)
    needed = cleave("inspect", "cheap.plan", "--format", "json", cwd=tmp_path).json()["stages"][0]["predicted_peak_bytes"]
    cleave(*options, "--device-memory", f"{needed}B", "-o", "limited.plan", cwd=tmp_path)
    said = cleave(*options, "--device-memory", "1kB", "-o", "refused.plan", cwd=tmp_path, status=1)
    least = int(re.search(r"a step takes (\d+) bytes", said.err).group(1))
    assert least <= needed
    cleave(*options, "--device-memory", f"{least}B", "-o", "least.plan", cwd=tmp_path)


def test_recomputation_within_a_limit_of_memory(trace_model):
    """First what is cheap, then as few blocks as suffice; the training keeps within the limit, with the same losses."""
    config = "n_layer=6,n_embd=64,n_head=4,vocab_size=50,n_positions=64"
    folder = trace_model("hf:gpt2", "--config", config, "--batch", 8, "--seq", 64, "--train").path.parent
    losses = []
    for limit, recomputed in (("40MB", None), ("22MB", "recomputes what is cheap (minimum-cut)\n"),
                              ("14MB", "(minimum-cut), and activations of transformer.h.0 to transformer.h.2 (3 modules)\n")):
        said = cleave("compile", "model.pt", "--inputs", "model.inputs.safetensors", "--train", "--device-memory", limit, "-o",
                      "limited.plan", cwd=folder)
        assert recomputed in said.out if recomputed else "recomputes" not in said.out
        _, measured, found, _ = peaks("limited.plan", folder)
        assert measured <= int(limit[:-2]) * 1e6
        losses.append(found)
    assert losses[0] == losses[1] == losses[2]


@pytest.mark.parametrize("options, error", [
    (("--device-memory", "9MB"), "use a smaller batch, micro-batches, or more memory"),
    (("--device-memory", "100kB"), "its device has 100000; use a smaller batch, micro-batches, or more memory"),
    (("--device-memory", "14MB", "--recompute", "transformer.h.0"), "leave out --recompute, so that activations are chosen"),
])
def test_too_little_memory(options, error, trace_model):
    config = "n_layer=6,n_embd=64,n_head=4,vocab_size=50,n_positions=64"
    folder = trace_model("hf:gpt2", "--config", config, "--batch", 8, "--seq", 64, "--train").path.parent
    said = cleave("compile", "model.pt", "--inputs", "model.inputs.safetensors", "--train", *options, "-o", "refused.plan", cwd=folder,
                  status=1)
    assert error in said.err and not (folder / "refused.plan").exists()
