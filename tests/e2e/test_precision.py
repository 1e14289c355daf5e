"""`--dtype bf16`: products and their weights in bfloat16, within the tolerance that `verify` states; and
`run --autocast`: the bits of libtorch's autocast."""

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from conftest import cleave


def compile_bf16(model, plan, *options):
    return cleave("compile", model.path, "--inputs", model.inputs, "--dtype", "bf16", "--devices", 2, *options,
                  "-o", plan)


def weights(plan):
    return {name: value for path in sorted(plan.glob("rank-*.safetensors")) for name, value in load_file(path).items()}


@pytest.mark.parametrize("name", ["gpt2", "bert", "t5"])
def test_plan_verifies(name, tiny_model, tmp_path):
    model = tiny_model(name)
    compile_bf16(model, tmp_path / "a.plan", "--verify")
    cleave("run", tmp_path / "a.plan", "--inputs", model.inputs, "--check-types", "--outputs", tmp_path / "o.st")
    assert {key: value.dtype for key, value in load_file(tmp_path / "o.st").items()} == {
        key: value.dtype for key, value in load_file(model.outputs).items()}
    assert cleave("inspect", tmp_path / "a.plan", "--json").json()["precision"] == "bfloat16"


def test_weights_of_products_are_half_as_large(tiny_model, tmp_path):
    model = tiny_model("gpt2")
    compile_bf16(model, tmp_path / "a.plan")
    cleave("compile", model.path, "--inputs", model.inputs, "--devices", 2, "-o", tmp_path / "b.plan")
    narrow, wide = weights(tmp_path / "a.plan"), weights(tmp_path / "b.plan")
    assert all(torch.equal(narrow[name], value.to(narrow[name].dtype)) for name, value in wide.items())
    assert torch.bfloat16 not in {value.dtype for value in wide.values()}
    kept = [name for name, value in narrow.items() if value.dtype == torch.float32]
    assert kept and all(".ln_" in name or "wpe" in name for name in kept), kept
    wte = [weight for weight in cleave("inspect", tmp_path / "a.plan", "--json").json()["weights"]
           if weight["name"] == "transformer.wte.weight"]
    assert wte[0]["dtype"] == "bfloat16"


def test_same_plan_and_outputs_twice(tiny_model, tmp_path):
    model = tiny_model("gpt2")
    for name in ("a", "b"):
        compile_bf16(model, tmp_path / f"{name}.plan", "--microbatches", 2, "--verify")
        cleave("run", tmp_path / f"{name}.plan", "--inputs", model.inputs, "--outputs", tmp_path / f"{name}.st")
    for path in (tmp_path / "a.plan").iterdir():
        assert path.read_bytes() == (tmp_path / "b.plan" / path.name).read_bytes()
    assert (tmp_path / "a.st").read_bytes() == (tmp_path / "b.st").read_bytes()


@pytest.mark.parametrize("dtype", ["f32", "f16", "", "bf16}"])
def test_other_dtypes_are_refused(dtype, tiny_model, tmp_path):
    model = tiny_model("gpt2")
    result = cleave("compile", model.path, "--inputs", model.inputs, "--dtype", dtype, "-o", tmp_path / "a.plan",
                    status=2)
    assert "expected bf16" in result.err
    assert not list(tmp_path.iterdir())


def test_says_where_nothing_changes(compiler):
    model = torch.jit.trace(nn.ReLU(), torch.randn(4))
    done = compiler.compile(model, "--dtype", "bf16", input=torch.randn(4))
    assert "--dtype bf16 changes nothing" in done.out


@pytest.fixture
def eager_autocast():
    """TorchScript then calls operators as eager does, instead of casting by a pass of its own."""
    before = torch._C._jit_set_autocast_mode(False)
    yield
    torch._C._jit_set_autocast_mode(before)


@pytest.mark.parametrize("name", ["gpt2", "bert"])
@pytest.mark.parametrize("word, dtype", [("bf16", torch.bfloat16), ("fp16", torch.float16)])
def test_autocast_gives_the_bits_of_libtorchs(name, word, dtype, tiny_model, tmp_path, eager_autocast):
    model = tiny_model(name)
    cleave("compile", model.path, "--inputs", model.inputs, "--devices", 2, "-o", tmp_path / "a.plan")
    cleave("run", tmp_path / "a.plan", "--inputs", model.inputs, "--autocast", word, "--outputs", tmp_path / "o.st")
    with torch.inference_mode(), torch.autocast("cpu", dtype):
        expected = torch.jit.load(model.path)(**load_file(model.inputs))
    outputs = load_file(tmp_path / "o.st")
    plain = load_file(model.outputs)
    leaves = torch.utils._pytree.tree_leaves(expected)
    assert len(leaves) == len(outputs)
    assert all(any(torch.equal(leaf, output) for output in outputs.values()) for leaf in leaves)
    assert any(outputs[key].dtype != plain[key].dtype or not torch.equal(outputs[key], plain[key]) for key in plain)


class Convolutions(nn.Module):
    """Of one, two and three dimensions, transposed, and padded by a word: a trace has other operators for these."""

    def __init__(self):
        super().__init__()
        self.lines, self.words = nn.Conv1d(3, 4, 3), nn.Conv1d(4, 4, 3, padding="same")
        self.planes, self.back = nn.Conv2d(1, 4, 3), nn.ConvTranspose2d(4, 2, 3)
        self.rooms = nn.Conv3d(1, 2, 3)

    def forward(self, x):
        lines = self.words(self.lines(x))
        return lines, self.back(self.planes(lines[:, None])), self.rooms(lines.reshape(2, 1, 4, 5, 6))


@pytest.mark.parametrize("word, dtype", [("bf16", torch.bfloat16), ("fp16", torch.float16)])
def test_autocast_casts_convolutions(word, dtype, compiler):
    torch.manual_seed(0)
    model, x = Convolutions().eval(), torch.randn(2, 3, 32)
    compiler.compile(torch.jit.trace(model, x), "--devices", 2, x=x)
    cleave("run", "model.plan", "--inputs", "model.inputs.safetensors", "--autocast", word, "--outputs", "o.st",
           cwd=compiler.folder)
    with torch.inference_mode(), torch.autocast("cpu", dtype):
        expected = model(x)
    outputs = load_file(compiler.folder / "o.st").values()
    assert all(leaf.dtype == dtype and any(torch.equal(leaf, output) for output in outputs) for leaf in expected)


def test_autocast_has_no_types_to_check(tiny_model, tmp_path):
    model = tiny_model("gpt2")
    cleave("compile", model.path, "--inputs", model.inputs, "-o", tmp_path / "a.plan")
    for options, word in [(("--autocast", "bf16", "--check-types"), "leave --autocast or --check-types away"),
                          (("--tf32",), "--tf32 is of GPUs"), (("--cuda-graphs",), "--cuda-graphs is of GPUs")]:
        assert word in cleave("run", tmp_path / "a.plan", "--inputs", model.inputs, *options, status=1).err
    assert "bf16" in cleave("run", tmp_path / "a.plan", "--autocast", "bf8", status=2).err
