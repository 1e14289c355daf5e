"""Outputs of modules are read, replaced and edited while a request runs: as PyTorch's forward hooks do, on every mesh."""

import re

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from capturing import edited, recorded
from conftest import TINY, cleave, execute, refused
from launching import Processes, same_bits

LAYERS = [f"transformer.h.{layer}" for layer in range(4)]
MESHES = {"one": (), "pp=4": ("--mesh", "pp=4"), "tp=2": ("--mesh", "tp=2"), "pp=2,tp=2": ("--mesh", "pp=2,tp=2"),
          "dp=2": ("--mesh", "dp=2"), "micro-batches": ("--mesh", "pp=2", "--microbatches", "2"),
          "interleaved": ("--mesh", "pp=2", "--schedule", "interleaved", "--microbatches", "2")}


@pytest.fixture(scope="session")
def gpt2():
    """A tiny GPT-2 as cleave-trace makes it, and a call of it."""
    from cleave_trace import sources, tracing
    from cleave_trace.cli import assignments

    module, inputs, _ = sources.load("hf:gpt2", sources.Options(config=assignments(TINY["gpt2"]), class_name=None, batch=2, seq=16, seed=0))
    return module.eval(), lambda: tracing.answer(lambda: module(**inputs), "", 0).logits


@pytest.fixture(scope="session")
def plans(tiny_model, tmp_path_factory):
    """plans("tp=2"): tiny GPT-2 on a mesh of MESHES, compiled once a session."""
    folder, made = tmp_path_factory.mktemp("capture"), {}

    def plan(name):
        if name not in made:
            made[name] = folder / f"{name}.plan"
            model = tiny_model("gpt2")
            cleave("compile", model.path, "--inputs", model.inputs, *MESHES[name], "-o", made[name])
        return made[name]

    return plan


def assert_close(found, expected, name=""):
    assert found.shape == expected.shape and found.dtype == expected.dtype, name
    if not found.is_floating_point():
        assert torch.equal(found, expected), name
        return
    allowed = 1e-5 * max(1.0, expected.abs().max().item())
    assert torch.allclose(found, expected, rtol=0, atol=allowed, equal_nan=True), f"{name}: {(found - expected).abs().max()}"


def captured(plan, model, folder, *options):
    cleave("run", plan, "--inputs", model.inputs, "--outputs", folder / "captured.safetensors", *options)
    return load_file(folder / "captured.safetensors")


@pytest.mark.parametrize("mesh", MESHES)
def test_every_module(mesh, plans, gpt2, tiny_model, tmp_path):
    module, run = gpt2
    expected = recorded(module, run)
    found = captured(plans(mesh), tiny_model("gpt2"), tmp_path, "--capture", "*")
    logits = found.pop("output.logits")
    assert set(LAYERS) | {f"{layer}.{part}" for layer in LAYERS for part in ("attn", "mlp", "ln_1", "mlp.c_fc")} <= set(found)
    for name, value in found.items():
        assert_close(value, expected[name], name)
    # With none asked, the same bits.
    alone = captured(plans(mesh), tiny_model("gpt2"), tmp_path)
    assert same_bits(alone, {"output.logits": logits})


@pytest.mark.parametrize("mesh, size", [("pp=4", 4), ("tp=2", 2), ("dp=2", 2), ("pp=2,tp=2", 4)])
def test_processes_capture_the_same(mesh, size, plans, tiny_model, tmp_path):
    in_one = captured(plans(mesh), tiny_model("gpt2"), tmp_path, "--capture", "transformer.h.*")
    with Processes(size, plans(mesh), "--inputs", tiny_model("gpt2").inputs, "--outputs", tmp_path / "processes.safetensors",
                   "--capture", "transformer.h.*") as processes:
        ended = processes.end()
    assert [end.status for end in ended.values()] == [0] * size, ended
    found = load_file(tmp_path / "processes.safetensors")
    assert same_bits(found, in_one)


@pytest.mark.parametrize("mesh", MESHES)
def test_stop_and_replace(mesh, plans, gpt2, tiny_model, tmp_path):
    module, run = gpt2
    expected = recorded(module, run)
    stopped = captured(plans(mesh), tiny_model("gpt2"), tmp_path, "--capture", "*", "--stop-after", "transformer.h.1.attn")
    assert "output.logits" not in stopped and "transformer.h.1.mlp" not in stopped
    assert_close(stopped["transformer.h.1.attn"], expected["transformer.h.1.attn"])
    given = torch.linspace(-1, 1, expected["transformer.h.2"].numel()).reshape(expected["transformer.h.2"].shape)
    save_file({"transformer.h.2": given}, tmp_path / "given.safetensors")
    found = captured(plans(mesh), tiny_model("gpt2"), tmp_path, "--replace", tmp_path / "given.safetensors")
    assert_close(found["output.logits"], edited(module, run, {"transformer.h.2": lambda value: given}))


def swapped(value):
    return torch.cat([value[-1:], value[1:-1], value[:1]])


EDITS = {
    "zero=transformer.h.1.attn": {"transformer.h.1.attn": torch.zeros_like},
    "add=transformer.h.1.mlp.c_fc": {"transformer.h.1.mlp.c_fc": lambda value: value + 1},
    "add=transformer.h.*.mlp": {f"{layer}.mlp": lambda value: value + 1 for layer in LAYERS},
    "none=transformer.h.2": {},
    "swap=transformer.h.2": {"transformer.h.2": swapped},
    "whole-add=transformer.h.0.attn.c_proj": {"transformer.h.0.attn.c_proj": lambda value: value + 1},
}


def run_hooks(plan, model, folder, *edits, **options):
    result = execute("runHooks", plan, model.inputs, folder / "hooks.safetensors", *edits, **options)
    return load_file(folder / "hooks.safetensors"), sorted(result.out.splitlines())


@pytest.mark.parametrize("mesh", MESHES)
@pytest.mark.parametrize("edit", EDITS)
def test_hooks(mesh, edit, plans, gpt2, tiny_model, tmp_path):
    module, run = gpt2
    found, _ = run_hooks(plans(mesh), tiny_model("gpt2"), tmp_path, edit)
    assert_close(found["output.logits"], edited(module, run, EDITS[edit]))


def test_hooks_know_their_samples(plans, tiny_model, tmp_path):
    _, told = run_hooks(plans("micro-batches"), tiny_model("gpt2"), tmp_path, "add=transformer.h.1", "swap=transformer.h.1")
    # The hook before the whole one is not called again in the second pass.
    assert told == ["add transformer.h.1 0 1", "add transformer.h.1 1 1", "swap transformer.h.1 0 2"]


def test_a_part_hook_of_a_value_without_the_batch(plans, gpt2, tiny_model, tmp_path):
    """Micro-batches edit position embeddings each in its own way, also where a whole-batch hook follows."""
    def by_sample(value):
        return torch.cat([value, value + 1])

    module, run = gpt2
    edits = {"transformer.wpe": by_sample, "transformer.h.1": swapped}
    found, told = run_hooks(plans("micro-batches"), tiny_model("gpt2"), tmp_path, "add-later=transformer.wpe", "swap=transformer.h.1")
    assert_close(found["output.logits"], edited(module, run, edits))
    assert len(told) == 5  # The part hook is called in both passes.


@pytest.mark.parametrize("mesh", ["tp=2", "micro-batches"])
def test_hooks_one_after_the_other(mesh, plans, gpt2, tiny_model, tmp_path):
    module, run = gpt2
    found, told = run_hooks(plans(mesh), tiny_model("gpt2"), tmp_path, "swap=transformer.h.2", "add=transformer.h.0", "zero=transformer.h.3.mlp",
                            "swap=transformer.h.1.attn", "capture=transformer.h.*")
    edits = {"transformer.h.0": lambda value: value + 1, "transformer.h.1.attn": swapped, "transformer.h.2": swapped,
             "transformer.h.3.mlp": torch.zeros_like}
    assert_close(found["output.logits"], edited(module, run, edits))
    assert len(told) == (2 if mesh == "tp=2" else 4) + 2
    # Captured values are those after the edits.
    assert not found["transformer.h.3.mlp"].any()


@pytest.mark.parametrize("options", [(), ("--coordinator",)])
def test_hooks_in_processes(options, plans, gpt2, tiny_model, tmp_path):
    module, run = gpt2
    edits = ("swap=transformer.h.2", "whole-add=transformer.h.0.attn")
    with Processes(4, plans("pp=2,tp=2"), tiny_model("gpt2").inputs, tmp_path / "hooks.safetensors", *edits, *options,
                   program=("runHooks",)) as processes:
        ended = processes.end()
    assert [end.status for end in ended.values()] == [0] * 4, ended
    expected = edited(module, run, {"transformer.h.2": swapped, "transformer.h.0.attn": lambda value: value + 1})
    assert_close(load_file(tmp_path / "hooks.safetensors")["output.logits"], expected)


def test_part_hooks_in_processes(plans, gpt2, tiny_model, tmp_path):
    module, run = gpt2
    arguments = (plans("pp=2,tp=2"), tiny_model("gpt2").inputs, tmp_path / "hooks.safetensors", "add=transformer.h.1.mlp.c_fc")
    with Processes(4, *arguments, program=("runHooks",)) as processes:
        ended = processes.end()
    assert [end.status for end in ended.values()] == [0] * 4, ended
    assert sum(end.out.count("add ") for end in ended.values()) == 1
    expected = edited(module, run, {"transformer.h.1.mlp.c_fc": lambda value: value + 1})
    assert_close(load_file(tmp_path / "hooks.safetensors")["output.logits"], expected)
    with Processes(4, *arguments, "--coordinator", program=("runHooks",)) as processes:
        ended = processes.end()
    assert all(end.status for end in ended.values()) and "expected a whole-batch hook" in ended[0].err


@pytest.mark.parametrize("edit, words", [
    ("fail=transformer.h.1", "hook of transformer.h.1: it was told to"),
    ("resize=transformer.h.1", "hook of transformer.h.1: it returned"),
    ("add=transformer.h.9", "hook of transformer.h.9: found no such capture point, expected one of the"),
    ("stop=transformer.h.9.attn", "stop after transformer.h.9.attn: found no such capture point"),
    ("stop=transformer.h.?.attn", "stop after transformer.h.?.attn: found a pattern, expected the name of one capture point, "
                                  "such as transformer.h.0.attn"),
    ("capture=nothing*", "capture nothing*: found no such capture point"),
])
def test_refused_edits(edit, words, plans, tiny_model, tmp_path):
    result = execute("runHooks", plans("tp=2"), tiny_model("gpt2").inputs, tmp_path / "out.safetensors", edit, status=1)
    assert words in result.err and len(result.err.splitlines()) == 1, result.err


@pytest.mark.parametrize("given, words", [
    ({"transformer.h.1": torch.zeros(2, 16, 31)}, r"capture point transformer.h.1: found float32\[2, 16, 31\], expected float32\[2, 16, 32\]"),
    ({"transformer.h.1": torch.zeros(2, 16, 32, dtype=torch.float64)}, "capture point transformer.h.1: found float64"),
    ({"transformer.x": torch.zeros(1)}, "replace transformer.x: found no such capture point"),
    ({}, "given.safetensors: found no tensors, expected one for each capture point to replace"),
])
def test_refused_replacements(given, words, plan, tiny_model, tmp_path):
    save_file(given, tmp_path / "given.safetensors")
    message = refused(tmp_path, "run", plan, "--inputs", tiny_model("gpt2").inputs, "--replace", "given.safetensors")
    assert re.search(words, message), message


def test_options_that_mean_nothing_for_one_request(plans, tiny_model):
    arguments = ("run", plans("tp=2"), "--inputs", tiny_model("gpt2").inputs)
    assert "--outputs" in cleave(*arguments, "--capture", "*", status=2).err
    assert "--repeat" in cleave(*arguments, "--stop-after", "transformer.h.1", "--repeat", "3", status=2).err


class Twice(nn.Module):
    """Calls a module twice, and one that returns three tensors of which it reads the last two."""

    class Both(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(8, 8)

        def forward(self, x):
            return x.tanh(), self.linear(x), x.relu()

    def __init__(self):
        super().__init__()
        self.shared, self.both = nn.Linear(8, 8), self.Both()

    def forward(self, x):
        _, first, second = self.both(self.shared(self.shared(x).tanh()))
        return first * second


def build():
    torch.manual_seed(0)
    return Twice(), (torch.randn(4, 8),)


@pytest.mark.parametrize("options", [(), ("--mesh", "pp=2"), ("--mesh", "tp=2")])
def test_calls_and_leaves(options, trace_model, tmp_path):
    model = trace_model(f"{__file__}:build")
    cleave("compile", model.path, "--inputs", model.inputs, *options, "-o", tmp_path / "model.plan")
    module, inputs = build()
    expected = recorded(module.eval(), lambda: module(*inputs))
    found = captured(tmp_path / "model.plan", model, tmp_path, "--capture", "*")
    assert {"shared", "shared#2", "both[1]", "both[2]"} <= set(found) and "both" not in found
    for name in set(found) - {"output"}:
        assert_close(found[name], expected[name], name)
    for name in ("shared", "shared#2", "both[1]", "both[2]"):
        values, _ = run_hooks(tmp_path / "model.plan", model, tmp_path, f"add={name}")
        assert_close(values["output"], edited(module, lambda: module(*inputs), {name: lambda value: value + 1}), name)


class Named(nn.Module):
    """A submodule is called as the output is."""

    def __init__(self):
        super().__init__()
        self.output = nn.Linear(8, 8)

    def forward(self, x):
        return self.output(x) * 2


def named():
    torch.manual_seed(0)
    return Named(), (torch.randn(4, 8),)


def test_a_module_may_be_called_as_an_output_is(trace_model, tmp_path):
    model = trace_model(f"{__file__}:named")
    cleave("compile", model.path, "--inputs", model.inputs, "-o", tmp_path / "model.plan")
    found = captured(tmp_path / "model.plan", model, tmp_path, "--capture", "*")
    assert_close(found["captured.output"] * 2, found["output"])


class Hooked(nn.Module):
    """Modules with forward hooks of their own, which are part of what the modules return."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 8)
        self.first.register_forward_hook(lambda module, arguments, output: output * 2 + 1)
        self.first.register_forward_hook(lambda module, arguments, kwargs, output: output - arguments[0], with_kwargs=True)
        self.second.register_forward_hook(lambda module, arguments, output: None)

    def forward(self, x):
        return self.second(self.first(x).tanh())


def with_own_hooks():
    torch.manual_seed(0)
    return Hooked(), (torch.randn(4, 8),)


@pytest.mark.parametrize("options", [(), ("--mesh", "tp=2")])
def test_forward_hooks_of_the_model_come_first(options, trace_model, tmp_path):
    model = trace_model(f"{__file__}:with_own_hooks")
    cleave("compile", model.path, "--inputs", model.inputs, *options, "-o", tmp_path / "model.plan")
    module, inputs = with_own_hooks()
    found = captured(tmp_path / "model.plan", model, tmp_path, "--capture", "*")
    for name, value in recorded(module.eval(), lambda: module(*inputs)).items():
        assert_close(found[name], value, name)
    replacement = torch.randn(4, 8)
    save_file({"first": replacement}, tmp_path / "first.safetensors")
    found = captured(tmp_path / "model.plan", model, tmp_path, "--replace", tmp_path / "first.safetensors")
    assert_close(found["output"], edited(module, lambda: module(*inputs), {"first": lambda value: replacement}))


class Shared(nn.Module):
    """Three blocks with one activation, each of which returns what its own submodule returns."""

    class Block(nn.Module):
        def __init__(self, act):
            super().__init__()
            self.linear, self.act = nn.Linear(8, 8), act

        def forward(self, x):
            return self.linear(self.act(x))

    def __init__(self):
        super().__init__()
        act = nn.GELU()
        self.blocks = nn.ModuleList(self.Block(act) for _ in range(3))

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x


def shared():
    torch.manual_seed(0)
    return Shared(), (torch.randn(4, 8),)


class Wrapped(nn.Module):
    """What it wraps is there under a deeper path, too, which comes first."""

    def __init__(self):
        super().__init__()
        self.original = nn.ModuleDict({"part": nn.Sequential(nn.Linear(8, 8))})
        self.linear = self.original["part"][0]

    def forward(self, x):
        return self.linear(x).tanh()


def wrapped():
    torch.manual_seed(0)
    return Wrapped(), (torch.randn(4, 8),)


def test_a_module_has_its_shallowest_path(trace_model, tmp_path):
    model = trace_model(f"{__file__}:wrapped")
    cleave("compile", model.path, "--inputs", model.inputs, "-o", tmp_path / "model.plan")
    assert captured(tmp_path / "model.plan", model, tmp_path, "--capture", "*").keys() == {"linear", "output"}


@pytest.mark.parametrize("options", [(), ("--mesh", "pp=2"), ("--mesh", "tp=2")])
def test_a_shared_module_has_its_first_path(options, trace_model, tmp_path):
    model = trace_model(f"{__file__}:shared")
    cleave("compile", model.path, "--inputs", model.inputs, *options, "-o", tmp_path / "model.plan")
    module, inputs = shared()
    found = captured(tmp_path / "model.plan", model, tmp_path, "--capture", "*")
    expected = recorded(module.eval(), lambda: module(*inputs))
    assert {"blocks.0.act", "blocks.0.act#2", "blocks.0.act#3"} <= found.keys() == expected.keys() | {"output"}
    for name, value in expected.items():
        assert_close(found[name], value, name)


def test_an_inner_module_of_equal_value_is_read_before_the_outer_one_is_replaced(trace_model, tmp_path):
    model = trace_model(f"{__file__}:shared")
    cleave("compile", model.path, "--inputs", model.inputs, "-o", tmp_path / "model.plan")
    module, inputs = shared()
    expected = recorded(module.eval(), lambda: module(*inputs))
    save_file({"blocks.0": torch.full((4, 8), 9.0)}, tmp_path / "new.safetensors")
    found = captured(tmp_path / "model.plan", model, tmp_path, "--capture", "blocks.0*", "--replace", tmp_path / "new.safetensors")
    assert_close(found["blocks.0.linear"], expected["blocks.0.linear"])
    assert bool((found["blocks.0"] == 9).all())


class Counter(nn.Module):
    """Keeps a state."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.register_buffer("count", torch.zeros(1))

    def forward(self, x):
        self.count += 1
        return self.linear(x) + self.count


def test_a_request_that_stops_leaves_states(compiler, tmp_path):
    module = torch.jit.script(Counter().eval())
    x = torch.zeros(2, 4)
    compiler.compile(module, x=x)
    edits = ("whole-add=linear", "capture=linear")
    result = execute("runHooks", "model.plan", "model.inputs.safetensors", "hooks.safetensors", *edits, cwd=tmp_path)
    assert result.out
    # One more call than the saved state, though the request ran twice.
    expected = module.linear(x).detach() + 1 + 1
    assert_close(load_file(tmp_path / "hooks.safetensors")["output"], expected)


class Chosen(nn.Module):
    """Rows that values choose, so that types after it are known only when running; one norm is called three times."""

    def __init__(self):
        super().__init__()
        self.norm, self.chosen, self.head = nn.LayerNorm(8), nn.Identity(), nn.Linear(8, 8)

    def forward(self, x):
        x = torch.exp(self.norm(x)) + torch.tanh(self.norm(x)) * torch.sigmoid(self.norm(x))
        return self.head(self.chosen(x[x.sum(1) > 2.5]))


def chosen():
    torch.manual_seed(0)
    return Chosen(), (torch.randn(6, 8),)


@pytest.mark.parametrize("mesh", ["pp=2", "tp=2"])
@pytest.mark.parametrize("names", [["chosen"], ["norm"], ["norm#2"], ["norm", "norm#2", "norm#3"]])
def test_declared_calls_and_values_of_unknown_type_are_replaced(names, mesh, trace_model, tmp_path):
    model = trace_model(f"{__file__}:chosen")
    cleave("compile", model.path, "--inputs", model.inputs, "--mesh", mesh, "--capture-points", "norm", "-o", tmp_path / "plan")
    module, inputs = chosen()
    expected = recorded(module, lambda: module(*inputs))
    save_file({name: expected[name].flip(0).contiguous() for name in names}, tmp_path / "given.safetensors")
    found = captured(tmp_path / "plan", model, tmp_path, "--replace", tmp_path / "given.safetensors")
    assert_close(found["output"], edited(module, lambda: module(*inputs), {name: lambda value: value.flip(0) for name in names}))


class Part(nn.Module):
    """Returns a view of its argument."""

    def forward(self, x):
        return x[:, :4]


class Written(nn.Module):
    """Writes in place what modules have returned, and what they have returned a view of."""

    def __init__(self):
        super().__init__()
        self.linear, self.head = nn.Linear(8, 8), nn.Linear(8, 8)
        self.part, self.same, self.before, self.alone = Part(), nn.Identity(), Part(), nn.ReLU(inplace=True)

    def forward(self, x):
        x = self.linear(x)
        before = self.before(x)
        x.mul_(2)
        self.part(x).add_(1)
        x = x + before.sum(1, keepdim=True)
        same = self.same(x)
        same[:, 1] = 3
        return self.head(self.alone(self.linear(x * same)))


WRITTEN_LATER = {"before", "part", "same"}


def written():
    torch.manual_seed(0)
    return Written(), (torch.randn(4, 8),)


@pytest.mark.parametrize("options", [(), ("--capture-points", "*")])
def test_values_whose_memory_is_written_later_are_read_only(options, trace_model, tmp_path):
    model = trace_model(f"{__file__}:written")
    cleave("compile", model.path, "--inputs", model.inputs, *options, "-o", tmp_path / "plan")
    module, inputs = written()
    expected = recorded(module, lambda: module(*inputs))
    found = captured(tmp_path / "plan", model, tmp_path, "--capture", "*")
    # What the module goes on with is a view of the new values: nothing uses `before` but its capture.
    assert expected.keys() == {"linear", "linear#2", "before", "part", "same", "alone", "head"}
    if not options:
        del expected["before"]
    assert found.keys() == expected.keys() | {"output"}
    for name, value in expected.items():
        assert_close(found[name], value, name)
        save_file({name: value.flip(0).contiguous()}, tmp_path / "given.safetensors")
        run = ("run", tmp_path / "plan", "--inputs", model.inputs, "--replace", tmp_path / "given.safetensors")
        if name in WRITTEN_LATER:
            assert "whose memory the module writes later cannot be replaced" in refused(tmp_path, *run)
            continue
        cleave(*run, "--outputs", tmp_path / "edited.safetensors")
        answer = edited(module, lambda: module(*inputs), {name: lambda value: value.flip(0)})
        assert_close(load_file(tmp_path / "edited.safetensors")["output"], answer, name)
