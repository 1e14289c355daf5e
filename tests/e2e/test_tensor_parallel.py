"""Plans whose tensors are split over ranks: what each model gives is what it gave as a whole."""

import collections
import json
import re
import subprocess
import warnings

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn
from torch.nn import functional as F

from conftest import BIN, cleave, run_refused
from streams import CALLS

X = torch.linspace(-1, 1, 48).reshape(8, 6)
TOKENS = torch.linspace(-1, 1, 120).reshape(2, 5, 12)
IMAGES = torch.linspace(-2, 2, 2 * 3 * 8 * 8).reshape(2, 3, 8, 8)
DECODER = "vocab_size=101,hidden_size=48,intermediate_size=100,num_hidden_layers=2,max_position_embeddings=64"
T5 = "vocab_size=101,d_model=32,d_kv=8,d_ff=60,num_layers=2,num_heads=4"


def plan_of(compiler):
    return cleave("inspect", "model.plan", "--json", cwd=compiler.folder).json()


def collectives(report):
    return dict(collections.Counter(entry["kind"] for entry in report["collectives"]))


def styles(report):
    return {weight["name"]: weight["style"] for weight in report["weights"]}


# Architectures ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("source, config, mesh, replicated", [
    # A fused weight of three parts, each split in itself, and the embedding tied to the logits.
    ("gpt2", "vocab_size=101,n_embd=48,n_layer=2,n_head=6,n_positions=64", "tp=3", []),
    # 12 heads over 8 ranks, which nothing divides.
    ("gpt2", "vocab_size=101,n_embd=60,n_layer=1,n_head=12,n_positions=64,n_inner=101", "tp=8", []),
    # A fused weight by heads: each has its own three parts.
    ("gpt_neox", f"{DECODER},num_attention_heads=6", "tp=2", []),
    # A fused weight of unequal parts, and a fused gate.
    ("phi3", f"{DECODER},num_attention_heads=6,num_key_value_heads=2,pad_token_id=0", "pp=2,tp=2", []),
    # Fewer heads of keys than ranks.
    ("llama", f"{DECODER},num_attention_heads=8,num_key_value_heads=2", "tp=4", []),
    # Norms of queries and keys: of each head, and of all heads together.
    ("qwen3", f"{DECODER},num_attention_heads=6,num_key_value_heads=3,head_dim=8", "tp=3", []),
    ("olmo2", f"{DECODER},num_attention_heads=6,num_key_value_heads=3,pad_token_id=0", "tp=2", []),
    # A bias for each head.
    ("bloom", "vocab_size=101,hidden_size=48,n_layer=2,n_head=4", "tp=2", []),
    # An encoder, a decoder, and attention across.
    ("t5", T5, "pp=2,tp=2", []),
    ("t5", T5, "tp=3", []),
])
def test_architectures(source, config, mesh, replicated, trace_model, tmp_path):
    model = trace_model(f"hf:{source}", "--config", config, "--batch", 2, "--seq", 8)
    dynamic = ("input_ids=batch,seq", *(("decoder_input_ids=batch,target",) if source == "t5" else ()))
    names = [argument for name in dynamic for argument in ("--dynamic", name)]
    plan = tmp_path / "a.plan"
    cleave("compile", model.path, "--inputs", model.inputs, "--mesh", mesh, *names, "--verify", "-o", plan)
    report = cleave("inspect", plan, "--json").json()
    large = [weight for weight in report["weights"] if len(weight["shape"]) > 1 and weight["style"] == "replicate"
             and weight["role"] == "parameter"]
    assert [weight["name"] for weight in large if min(weight["shape"]) > 8] == replicated
    # At other sizes than those that were traced.
    inputs = {name: torch.arange(15).reshape(3, 5) * 7 % 101 for name in load_file(model.inputs)}
    save_file(inputs, tmp_path / "inputs.safetensors")
    cleave("run", plan, "--inputs", tmp_path / "inputs.safetensors", "--outputs", tmp_path / "outputs.safetensors",
           "--check-types")
    with torch.no_grad():
        expected = torch.jit.load(model.path)(*inputs.values())
    first = next(iter(expected.values())) if isinstance(expected, dict) else expected[0] if isinstance(expected, tuple) else expected
    found = load_file(tmp_path / "outputs.safetensors")
    assert any(tensor.shape == first.shape and torch.allclose(tensor, first, atol=1e-5) for tensor in found.values())


MEGATRON = {
    "gpt2": "vocab_size=1000,n_embd=48,n_layer=2,n_head=8,n_positions=64",
    "bert": "vocab_size=1000,hidden_size=48,num_hidden_layers=2,num_attention_heads=8,intermediate_size=96,type_vocab_size=4",
    "llama": "vocab_size=1000,hidden_size=48,intermediate_size=96,num_hidden_layers=2,num_attention_heads=8,num_key_value_heads=4",
}


# Two token types, BERT's own number: over four ranks their table is whole, and added between the sums of two tables.
BERT = MEGATRON["bert"].replace(",type_vocab_size=4", "")


@pytest.mark.parametrize("name, config, ranks", [
    *((name, config, ranks) for name, config in MEGATRON.items() for ranks in (2, 4)),
    ("bert", BERT, 2), ("bert", BERT, 4)])
def test_collectives_are_megatrons(name, config, ranks, trace_model, tmp_path):
    """Two sums of the residual a layer and one for the embedding; logits are gathered; bytes are what a rank gives."""
    batch, tokens, hidden, vocabulary, size = 2, 8, 48, 1000, 4
    model = trace_model(f"hf:{name}", "--config", config, "--batch", batch, "--seq", tokens)
    cleave("compile", model.path, "--inputs", model.inputs, "--mesh", f"tp={ranks}", "-o", tmp_path / "a.plan")
    found = collections.Counter()
    for entry in cleave("inspect", tmp_path / "a.plan", "--json").json()["collectives"]:
        layer = re.search(r"\.(\d+)\.", entry["module_path"])
        found[layer and f"layer {layer[1]}", entry["kind"], entry["bytes"]] += 1
    residual = batch * tokens * hidden * size
    expected = {(None, "all_reduce", residual): 1, ("layer 0", "all_reduce", residual): 2, ("layer 1", "all_reduce", residual): 2,
                (None, "all_gather", batch * tokens * vocabulary * size // ranks): 1}
    if name == "bert":  # The head's transform, which Megatron has whole on every rank, is split, too.
        expected[None, "all_gather", residual // ranks] = 1
    assert found == expected


@pytest.fixture
def collectives_of_a_layer(trace_model, tmp_path):
    """What a second layer adds: how often each kind is called, and of how many bytes; and the report of one layer."""
    def find(source, config, layers, mesh):
        found, reports = [], []
        for count in (1, 2):
            model = trace_model(f"hf:{source}", "--config", f"{config},{layers}={count}", "--batch", 2, "--seq", 8)
            cleave("compile", model.path, "--inputs", model.inputs, "--mesh", mesh, "--verify", "-o", tmp_path / "a.plan")
            reports.append(cleave("inspect", tmp_path / "a.plan", "--json").json())
            found.append(collections.Counter((entry["kind"], entry["bytes"]) for entry in reports[-1]["collectives"]))
        assert not found[0] - found[1]
        return dict(found[1] - found[0]), reports[0]

    return find


LAYER = "vocab_size=101,hidden_size=48,intermediate_size=100,max_position_embeddings=64"
RESIDUAL = ("all_reduce", 2 * 8 * 48 * 4)


@pytest.mark.parametrize("source, config, layers, mesh, sums, rows", [
    # Two heads of keys for eight of queries: neighbours have the same one.
    ("llama", f"{LAYER},num_attention_heads=8,num_key_value_heads=2", "num_hidden_layers", "tp=4", 2, {"k_proj": [6] * 4}),
    ("llama", f"{LAYER},num_attention_heads=8,num_key_value_heads=2", "num_hidden_layers", "tp=8", 2, {"v_proj": [6] * 8}),
    # A rank with queries of both heads of keys, but not as many of each.
    ("llama", f"{LAYER},num_attention_heads=8,num_key_value_heads=2", "num_hidden_layers", "tp=3", 2, {"k_proj": [6, 12, 6]}),
    ("llama", f"{LAYER},num_attention_heads=6,num_key_value_heads=2", "num_hidden_layers", "tp=4", 2, {"q_proj": [8, 16, 8, 16]}),
    ("mistral", f"{LAYER},num_attention_heads=8,num_key_value_heads=2", "num_hidden_layers", "tp=4", 2, {"v_proj": [6] * 4}),
    ("qwen2", f"{LAYER},num_attention_heads=8,num_key_value_heads=2", "num_hidden_layers", "tp=4", 2, {"k_proj": [6] * 4}),
    ("qwen3", f"{LAYER},num_attention_heads=8,num_key_value_heads=2,head_dim=8", "num_hidden_layers", "tp=4", 2, {"k_proj": [8] * 4}),
    # Queries, keys and values in one weight: of 12, 3 and 3 … rows each rank has 12 + 6 + 6.
    ("phi3", f"{LAYER},num_attention_heads=8,num_key_value_heads=2,pad_token_id=0", "num_hidden_layers", "tp=4", 2,
     {"qkv_proj": [24] * 4}),
    # One head of keys, which is whole on every rank: in a weight of its own, and in one with the queries.
    ("llama", f"{LAYER},num_attention_heads=8,num_key_value_heads=1", "num_hidden_layers", "tp=2", 2,
     {"q_proj": [24] * 2, "k_proj": [6] * 2}),
    ("falcon", "vocab_size=101,hidden_size=48,num_attention_heads=8,multi_query=true,new_decoder_architecture=false,bias=false",
     "num_hidden_layers", "tp=4", 1, {"query_key_value": [24] * 4}),
    ("gpt_bigcode", "vocab_size=101,n_embd=48,n_head=8,n_positions=64,multi_query=true", "n_layer", "tp=4", 2,
     {"c_attn": [24] * 4}),
], ids=lambda value: value if isinstance(value, str) and len(value) < 12 else "")
def test_ranks_share_heads_of_keys(source, config, layers, mesh, sums, rows, collectives_of_a_layer):
    found, report = collectives_of_a_layer(source, config, layers, mesh)
    assert found == {RESIDUAL: sums}
    for name, sizes in rows.items():
        shapes = next(weight["shard_shapes"] for weight in report["weights"] if weight["name"].endswith(f"{name}.weight"))
        assert [shape[0] for shape in shapes] == sizes


def test_norms_over_a_split_width_sum_one_number_a_row(collectives_of_a_layer, trace_model, tmp_path):
    """OLMo 2 norms queries and keys over all heads; its other norms are one operator, as on one device."""
    config = f"{LAYER},num_attention_heads=4,num_key_value_heads=2"
    found, _ = collectives_of_a_layer("olmo2", config, "num_hidden_layers", "tp=2")
    assert found == {RESIDUAL: 2, ("all_reduce", 2 * 8 * 4): 2}
    model = trace_model("hf:olmo2", "--config", f"{config},num_hidden_layers=1", "--batch", 2, "--seq", 8)
    cleave("compile", model.path, "--inputs", model.inputs, "--mesh", "tp=2", "--emit-ir", tmp_path / "ir", "-o", tmp_path / "b.plan")
    last = max(path for path in (tmp_path / "ir").iterdir()).read_text()
    assert last.count(" aten.rms_norm(") == 3 and last.count(" aten.rsqrt(") == 2


# Small modules ------------------------------------------------------------------------------------------------------------


class FeedForward(nn.Module):
    """Three products without biases."""

    def __init__(self, width=64, hidden=176):
        super().__init__()
        torch.manual_seed(0)
        self.w1 = nn.Linear(width, hidden, bias=False)
        self.w2 = nn.Linear(hidden, width, bias=False)
        self.w3 = nn.Linear(width, hidden, bias=False)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class Convolutions(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.Sequential(
            nn.Conv2d(3, 9, 3, padding=1), nn.BatchNorm2d(9), nn.ReLU(), nn.Conv2d(9, 9, 3, padding=1, groups=9),
            nn.Conv2d(9, 12, 1), nn.GroupNorm(4, 12), nn.MaxPool2d(2), nn.Conv2d(12, 8, 3, groups=4),
            nn.ConvTranspose2d(8, 6, 2, stride=2), nn.SiLU())
        self.top = nn.Linear(6, 5)
        for norm in (self.layers[1],):
            norm.running_mean.uniform_(-1, 1)
            norm.running_var.uniform_(1, 2)

    def forward(self, x):
        return self.top(self.layers(x).mean([2, 3]))


class NormedWeights(nn.Module):
    """Weights that are made of a direction and a length for each output or input, as audio codecs have them."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.up = nn.utils.parametrizations.weight_norm(nn.Conv1d(3, 8, 3, padding=1))
        self.down = nn.utils.parametrizations.weight_norm(nn.ConvTranspose1d(8, 4, 2, stride=2))
        self.top = nn.utils.parametrizations.weight_norm(nn.Linear(12, 6))

    def forward(self, x):
        return self.top(self.down(torch.relu(self.up(x))))


class OneHeadOfScores(nn.Module):
    """Attention of one head of scores on three of values: two ranks have one and two of these."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.v, self.o = nn.Linear(12, 12), nn.Linear(12, 12)
        self.bias = nn.Parameter(torch.randn(1, 3, 5, 5))

    def forward(self, x):
        heads = x.view(2, 5, 3, 4).transpose(1, 2)
        scores = torch.softmax(torch.matmul(heads[:, :1], heads[:, 1:2].transpose(-1, -2)) * 0.5 + self.bias, -1)
        values = self.v(x).view(2, 5, 3, 4).transpose(1, 2)
        return self.o(torch.matmul(scores, values).transpose(1, 2).reshape(2, 5, -1))


class Means(nn.Module):
    """Of a split width: alone, with others, in another dtype, and of heads that it was taken apart into."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.up, self.down = nn.Linear(6, 12), nn.Linear(12, 6)

    def forward(self, x):
        h = self.up(x)
        heads = h.view(-1, 3, 4)
        y = self.down(h - h.mean(-1, True))
        return y, h.mean(), h.half().mean([0, 1], dtype=torch.float32), heads.mean(-1), heads.mean([1], True), heads.mean([-1, 1])


class NoProducts(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.linspace(1, 2, 6))

    def forward(self, x):
        return torch.softmax(x * self.scale, -1)


class Branches(nn.Module):
    """Control flow that uses, and gives, what is split around it."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.up, self.down = nn.Linear(6, 9), nn.Linear(9, 6)

    def forward(self, x):
        h = torch.relu(self.up(x))
        if bool(x.sum() > 0):
            g = h * 2
        else:
            g = h + 1
        for i in range(int(x.shape[0]) // 4):
            g = g + torch.tanh(h) * i
        return self.down(g + h)


class Pieces(nn.Module):
    """Lists of split pieces, taken from the end, one by one in a loop, in part, and as they are."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.up, self.down, self.last = nn.Linear(6, 12), nn.Linear(4, 6), nn.Linear(6, 6)

    def forward(self, x):
        pieces = torch.relu(self.up(x)).chunk(3, -1)
        sums = pieces[0] * 1
        for piece in pieces:
            sums = sums + piece
        y = self.down(pieces[-1]) + self.down(sums)
        first = self.up(x).chunk(3, -1)
        joined = torch.cat(self.up(y).chunk(3, -1), 0)
        return self.last(self.down(first[0] * first[1])) + self.down(joined)[:x.shape[0]]


class Halves(nn.Module):
    """More ranks than a fused weight's halves have channels each; nothing is left for some."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.fused = nn.Conv2d(3, 8, 1)
        self.left, self.right = nn.Conv2d(4, 4, 1), nn.Conv2d(4, 4, 3, padding=1)

    def forward(self, x):
        left, right = self.fused(x).chunk(2, 1)
        return torch.cat([self.left(left), self.right(right)], 1)


class Remembers(nn.Module):
    """A state between split products."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.up, self.down = nn.Linear(6, 9), nn.Linear(9, 6)
        self.register_buffer("hidden", torch.zeros(4, 9))

    def forward(self, x):
        self.hidden = torch.tanh(self.up(x) + self.hidden)
        return self.down(self.hidden)


@pytest.mark.parametrize("module, x, mesh", [
    (FeedForward(6, 9), X, "tp=2"), (FeedForward(6, 9), X, "pp=2,tp=3"), (Convolutions(), IMAGES, "tp=2"),
    (Convolutions(), IMAGES, "pp=2,tp=3"), (NoProducts(), X, "tp=2"), (Branches(), X, "tp=2"), (Branches(), -X, "tp=4"),
    (OneHeadOfScores(), TOKENS, "tp=2"), (Means(), X, "tp=2"), (Means(), X, "tp=3"), (Pieces(), X, "tp=2"), (Pieces(), X, "tp=3"),
    (Halves(), IMAGES, "tp=4"),
], ids=lambda value: type(value).__name__ if isinstance(value, nn.Module) else value if isinstance(value, str) else "")
def test_modules(module, x, mesh, compiler):
    compiler.compile(module, "--mesh", mesh, x=x)


@pytest.mark.parametrize("ranks", [2, 3])
def test_normed_weights_are_split(ranks, compiler):
    x = torch.linspace(-1, 1, 36).reshape(2, 3, 6)
    compiler.compile(torch.jit.trace(NormedWeights().eval(), x), "--mesh", f"tp={ranks}", x=x)
    styles = {weight["name"]: weight["style"] for weight in plan_of(compiler)["weights"]}
    assert all(style != "replicate" for name, style in styles.items() if name.endswith("original1")), styles


def test_what_is_dear_stays_whole_where_there_is_room(compiler, tmp_path):
    """Sums of 8 x 64 numbers cost more than half of these products; a device's memory says whether they must be split."""
    def shares(bytes_, *options):
        device = {"flops_per_second": 1e11, "memory_bytes_per_second": 1e10, "operator_seconds": 2e-6, "memory_bytes": bytes_}
        machine = {"devices": [{"name": f"cpu:{rank}", **device} for rank in range(2)], "link": {"latency_seconds": 1e-3, "bytes_per_second": 1e10}}
        (tmp_path / "machine.json").write_text(json.dumps(machine))
        compiler.compile(FeedForward(), "--mesh", "tp=2", "--machine", "machine.json", *options,
                         x=torch.linspace(-1, 1, 512).reshape(8, 64))
        report = plan_of(compiler)
        return [weight["style"] for weight in sorted(report["weights"], key=lambda weight: weight["name"])], report

    styles, report = shares(10**9)
    assert styles == ["replicate"] * 3
    assert "there is room for it, and splitting it would cost more time than it saves" in json.dumps(report["notes"])
    assert shares(100_000)[0] == shares(10**9, "--shard", "w1=colwise")[0] == ["colwise", "rowwise", "colwise"]


def test_what_fits_fits_where_there_is_more_room(compiler, tmp_path):
    """Three of four layers in one stage: what may stay whole is evaluated for both stages together."""
    x = torch.linspace(-1, 1, 128).reshape(2, 64)
    layers = nn.Sequential(*(nn.Linear(64, 64, bias=False) for _ in range(4)))

    def is_compiled(bytes_):
        device = {"flops_per_second": 1e11, "memory_bytes_per_second": 1e10, "operator_seconds": 2e-6, "memory_bytes": bytes_}
        machine = {"devices": [{"name": f"cpu:{rank}", **device} for rank in range(4)], "link": {"latency_seconds": 1e-3, "bytes_per_second": 1e10}}
        (tmp_path / "machine.json").write_text(json.dumps(machine))
        compiler.save(layers, {"input": x})
        command = [BIN / "cleave", "compile", "model.pt", "--inputs", "model.inputs.safetensors", "--mesh", "pp=2,tp=2",
                   "--machine", "machine.json", "--stage-before", "3", "-o", "model.plan"]
        return subprocess.run(command, cwd=tmp_path, capture_output=True).returncode == 0

    found = [is_compiled(bytes_) for bytes_ in range(20_000, 60_000, 4000)]
    assert found == sorted(found) and found[-1] and not found[0]


def test_each_rank_has_its_part_of_the_weights(compiler):
    result = compiler.compile(FeedForward(), "--mesh", "tp=4", x=torch.linspace(-1, 1, 512).reshape(8, 64))
    assert "us at the traced sizes, before sums are merged; by the bound no other split of these weights takes less" in result.out, result.out
    report = plan_of(compiler)
    assert [stage["weight_bytes"] for stage in report["stages"]] == [3 * 64 * 176 * 4 // 4]
    assert all(shape in ([44, 64], [64, 44]) for weight in report["weights"] for shape in weight["shard_shapes"])
    assert len({file["bytes"] for file in report["shard_files"]}) == 1
    assert collectives(report) == {"all_reduce": 1}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_narrow_dtypes(dtype, compiler):
    module = nn.Sequential(nn.Linear(6, 9), nn.ReLU(), nn.Linear(9, 6)).to(dtype)
    compiler.compile(module, "--mesh", "tp=2", input=X.to(dtype))


def test_packed_weights_are_on_every_rank(compiler):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = torch.ao.quantization.quantize_dynamic(
            nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 6)).eval(), {nn.Linear})
        compiler.compile(torch.jit.trace(module, X), "--mesh", "tp=2", input=X)
    assert set(styles(plan_of(compiler)).values()) == {"replicate"}


def test_states_stay_right_from_call_to_call(streams):
    streams.check(Remembers().eval(), CALLS, "--mesh", "tp=2")


def test_ids_that_are_no_rows_are_refused_as_without_ranks(compiler):
    class Words(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.top = nn.Embedding(10, 6), nn.Linear(6, 10)

        def forward(self, ids):
            return self.top(self.words(ids))

    torch.manual_seed(0)
    compiler.compile(Words(), "--mesh", "tp=3", "--shard", "words=embedding_rowwise", ids=torch.arange(10).reshape(2, 5))
    assert styles(plan_of(compiler))["words.weight"] == "embedding_rowwise"
    for row in (10, -1, 2**40):
        save_file({"ids": torch.full((2, 5), row)}, compiler.folder / "wrong.safetensors")
        assert "index out of range" in run_refused(compiler.folder / "model.plan", "wrong.safetensors")


def test_each_rank_has_a_peak_of_its_own(compiler):
    """Only the first gathers the output, which is the most of what anyone holds."""
    torch.manual_seed(0)
    module, x = nn.Sequential(nn.Linear(32, 48), nn.ReLU(), nn.Linear(48, 4096)), torch.randn(64, 32)
    for options in (("--mesh", "tp=2"), ("--mesh", "pp=2,tp=2", "--microbatches", 4)):
        compiler.compile(module, *options, input=x)
        predicted = cleave("simulate", "model.plan", "--json", cwd=compiler.folder).json()["devices"]
        run = cleave("run", "model.plan", "--inputs", "model.inputs.safetensors", "--json", cwd=compiler.folder).json()["devices"]
        assert [each["peak_bytes"] for each in run] == pytest.approx([each["peak_bytes"] for each in predicted], rel=0.02)
        assert run[-1]["peak_bytes"] < 0.8 * run[-2]["peak_bytes"]
        (*_, last) = plan_of(compiler)["stages"]
        assert last["predicted_peak_bytes"] == pytest.approx(run[-2]["peak_bytes"], rel=0.02)


def test_weights_as_users_say(compiler, tmp_path):
    x = torch.linspace(-1, 1, 512).reshape(8, 64)
    (tmp_path / "shards.json").write_text(json.dumps({"w*": "replicate", "w1": "colwise"}))
    compiler.compile(FeedForward(), "--mesh", "tp=2", "--shard-file", tmp_path / "shards.json", "--shard",
                     "w3.weight=rowwise", x=x)
    assert styles(plan_of(compiler)) == {"w1.weight": "colwise", "w2.weight": "replicate", "w3.weight": "rowwise"}
