"""cleave-trace alone."""

import json
import os
import re
import runpy
import signal
import subprocess
import time
import zipfile

import pytest
import torch
from safetensors.torch import load_file

from conftest import BIN, TINY, everything_below, execute
from cleave_trace import cli

MODULES = """
import collections
import time

import torch
import torch.utils.checkpoint
from torch import nn

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.act = nn.ReLU(inplace=True)

    def forward(self, x):
        return self.act(self.linear(x))

class Nested(nn.Module):
    def __init__(self):
        super().__init__()
        self.shared = Block()
        self.scripted = torch.jit.script(Block())
        self.normed = nn.utils.parametrizations.weight_norm(nn.Linear(4, 4))
        self.tied = nn.Linear(4, 4)
        self.tied.weight = self.shared.linear.weight
        self.attention = nn.MultiheadAttention(4, 2, batch_first=True)

    def forward(self, x, past, *rest, scale=1.0, **others):
        y = self.scripted(self.shared(self.shared(x))) + past["key"][0] * scale + past["more"][1]
        y = self.normed(self.tied(y)) + others["bias"]
        y = y + self.attention(y, y, y)[0]
        Pair = collections.namedtuple("Pair", "first second")
        return {"y": y, "past": (None, Pair(y * 2, y[0, 0, 0]), 3), "list": [y, (y,)]}

def nested():
    torch.manual_seed(0)
    x, key, more, bias = torch.randn(4, 2, 3, 4)
    return Nested(), {"x": x, "past": {"key": (key, None), "more": [3, more]}, "scale": 2.0, "bias": bias}

class Sum(nn.Module):
    def forward(self, x, *rest):
        print("a module may print")
        return sum(rest, x)

variadic = lambda: (Sum(), (torch.ones(2), torch.ones(2), torch.ones(2)))
zero_dimensional = lambda: (Sum(), torch.tensor(1.0))

class Doubling(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2

class Doubler(nn.Module):
    def forward(self, x):
        return Doubling.apply(x)

class Stacking(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 2)])

    @property
    def weights(self):
        return torch.stack([layer.weight for layer in self.layers])

    def forward(self, x):
        return self.layers[1](self.layers[0](x))

class Reserved(nn.Module):
    def __init__(self):
        super().__init__()
        self.add_module("in", nn.Linear(4, 4))

    def forward(self, x):
        return getattr(self, "in")(x)

class Counter(nn.Module):
    count = 0
    def forward(self, x):
        self.count += 1
        return x + self.count

class Opaque(nn.Module):
    def forward(self, x):
        return object()

class SameOutputs(nn.Module):
    def forward(self, x):
        return {"y": {1: x, "1": x + 1}}

class Quiet(nn.Module):
    def forward(self, x):
        return x + 1

class Holes(nn.Module):
    def forward(self, past, x):
        return None, past[1] + x, (3, past[2][1] * x)

class InPlace(nn.Module):
    def forward(self, x, y):
        return x.add_(1) * y

class WritesAlias(nn.Linear):
    def forward(self, x):
        y = super().forward(x)
        y.detach()[:, 0] = 0
        return y

class WritesCopy(nn.Linear):
    def forward(self, x):
        y = super().forward(x)
        return y * y.detach().clone().clamp_(-1, 1)

class Hooked(nn.Linear):
    def forward(self, x):
        y = super().forward(x)
        y.register_hook(lambda gradient: 2 * gradient)
        return y

def hooked_weight():
    module = nn.Linear(4, 4)
    module.weight.register_hook(lambda gradient: 2 * gradient)
    return module, torch.ones(2, 4)

def hooked_module():
    module = nn.Sequential(nn.Linear(4, 4))
    module[0].register_full_backward_hook(lambda *gradients: None)
    return module, torch.ones(2, 4)

class Seen(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x):
        self.seen = self.seen + x.sum()
        return x + self.seen

class Scaled(nn.Module):
    def forward(self, x, count: int, flag: bool, pair: tuple[torch.Tensor, float], word: str = "a b"):
        return x * pair[1] + count + pair[0] if flag else x

class Deciding(nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            x = x * 2
        return x, x.shape[0], "word"

class Noticed(nn.Module):
    def __init__(self):
        super().__init__()
        self.deciding = Deciding()

    def forward(self, x, scale=1.0):
        y, length, word = self.deciding(x)
        for row in y:
            y = y + row * int(x.max())
        return {"y": y * scale, "length": 3, "word": (word, None)}

noticed = lambda: (Noticed(), (torch.ones(2, 2), 0.5))
library = lambda: (Noticed().eval(), torch.ones(2, 2))
holes = lambda: (Holes(), ((None, torch.ones(4), [None, torch.ones(4) + 1]), torch.ones(4) * 2))
in_place = lambda: (InPlace(), (torch.ones(2), torch.ones(2)))
seen = lambda: (nn.Sequential(Seen()), torch.ones(2))
scaled = lambda: (Scaled(), (torch.ones(2), 3, True, (torch.ones(2), 2.0)))
same_names = lambda: (Sum(), {"x": {1: torch.ones(2), "1": torch.ones(2)}})
same_paths = lambda: (Sum(), {"x": {"a.b": torch.ones(2), "a": {"b": torch.ones(2)}}})
same_outputs = lambda: (SameOutputs(), torch.ones(2))
doubler = lambda: (Doubler(), torch.ones(2))
stacking = lambda: (Stacking(), torch.ones(2, 4))
reserved = lambda: (nn.Sequential(Reserved()), torch.ones(2, 4))
counter = lambda: (Counter(), torch.ones(2))
opaque = lambda: (Opaque(), torch.ones(2))
quiet = lambda: (Quiet(), torch.ones(2))
wrong_arguments = lambda: (Sum(), {"y": torch.ones(2)})
no_tensors = lambda: (Sum(), (1, None))
no_pair = lambda: torch.ones(2)

class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2

double = Doubled.apply  # under a name of its own

class Trained(nn.Module):
    # Gradients are on, off and on again.
    def __init__(self):
        super().__init__()
        self.linear, self.teacher, self.norm = nn.Linear(4, 4), nn.Linear(4, 4), nn.BatchNorm1d(4)
        self.scripted = torch.jit.script(nn.Linear(4, 4))
        self.dropout = nn.Dropout(0.5)
        self.register_buffer("mean", torch.zeros(4))
        self.register_buffer("most", torch.zeros(3, 4))

    @torch.no_grad()
    def targets(self, x):
        y = self.teacher(x)
        y += 1
        self.mean.mul_(0.9).add_(y.mean(0))
        self.mean[0] = x[0, 0]
        torch.mul(x, 2, out=self.most)
        return double(y), torch.max(x, 1).values, self.scripted(x), x.shape[0]

    def forward(self, x):
        y = torch.utils.checkpoint.checkpoint(self.linear, x, use_reentrant=False)
        y = torch.utils.checkpoint.checkpoint(self.linear, y, use_reentrant=True)
        target, most, other, rows = self.targets(y)
        loss = ((self.dropout(y) - target) ** 2).mean() + (y * most.unsqueeze(1) * other).sum() / rows
        return {"loss": loss + (self.norm(y) * self.mean * self.most * y.data).sum()}

class Differentiable(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        return double(self.linear(x)).sum()

class WritesUnseen(Differentiable):
    def forward(self, x):
        y = self.linear(x)
        with torch.no_grad():
            y.clamp_(min=0)
        return y.sum()

class Unseeing(nn.Module):
    def forward(self, x):
        with torch.no_grad():
            y = x * 2
        return y + x

def trained():
    torch.manual_seed(0)
    return Trained(), torch.randn(3, 4)

scripted_dropout = lambda: (torch.jit.script(nn.Dropout().eval()), torch.ones(64))
differentiable = lambda: (Differentiable(), torch.ones(2, 4))
writes_alias = lambda: (WritesAlias(4, 4), torch.ones(2, 4))
writes_copy = lambda: (WritesCopy(4, 4), torch.ones(2, 4))
hooked = lambda: (Hooked(4, 4), torch.ones(2, 4))
renormed = lambda: (nn.Embedding(5, 4, max_norm=1.0), torch.ones(2, dtype=torch.long))
writes_unseen = lambda: (WritesUnseen(), torch.ones(2, 4))
unseeing = lambda: (torch.jit.script(Unseeing()), torch.ones(2))
unseeing_part = lambda: (nn.Sequential(torch.jit.script(Unseeing())), torch.ones(2))
traced_part = lambda: (nn.Sequential(torch.jit.trace(nn.Dropout().eval(), torch.ones(2))), torch.ones(2))
frozen = lambda: (torch.jit.freeze(torch.jit.script(nn.Dropout().eval())), torch.ones(2))

def broken():
    raise ValueError("several\\nlines")

def saved_slowly():
    def save(module, path):
        path.write_bytes(b"half")
        open("started", "w").close()
        time.sleep(60)

    torch.jit.save = save
    return quiet()
"""


@pytest.fixture
def module_file(tmp_path):
    path = tmp_path / "my_module.py"
    path.write_text(MODULES)
    return path


def trace(*arguments):
    """Runs cleave-trace within this process and returns its exit status."""
    return cli.main([*map(str, arguments)])


def test_says_what_the_trace_fixes_and_leaves_out(module_file, tmp_path, capsys):
    assert trace(f"{module_file}:noticed", "-o", tmp_path / "m.pt", "--no-witnesses") == 0
    line = next(number for number, text in enumerate(MODULES.splitlines(), 1) if "x.sum() > 0" in text)
    stays = "stays as the example has it; script the module if it may change"
    assert capsys.readouterr().err.splitlines() == [
        f"warning: deciding: {module_file}:{line}: a condition on a tensor or a size {stays}",
        f"warning: {module_file}:{line + 11}: the number of a loop's turns over a tensor {stays}",
        f"warning: {module_file}:{line + 12}: an integer taken from a tensor or a size {stays}",
        "note: the module was in training mode and is traced in evaluation mode; call eval() on it in the function",
        "note: scale=0.5: constant in the trace, which takes tensors only; script the module to leave it open",
        "note: output.length=3, output.word.0=word: returned by forward and left out, since it is no tensor; return "
        "torch.tensor(…) of it to keep it"]


def test_warnings_of_training_name_the_same_places(module_file, tmp_path, capsys):
    warnings = []
    for option in ([], ["--train"]):
        assert trace(f"{module_file}:noticed", "-o", tmp_path / "m.pt", "--json", "--no-witnesses", *option) == 0
        warnings.append(json.loads(capsys.readouterr().out)["warnings"])
    assert len(warnings[0]) == 3 and warnings[0] == warnings[1]


def test_notes_are_in_the_report(module_file, tmp_path, capsys):
    assert trace(f"{module_file}:library", "-o", tmp_path / "m.pt", "--json", "--no-witnesses") == 0
    report = json.loads(capsys.readouterr().out)
    assert len(report["warnings"]) == 3 and len(report["notes"]) == 1


def test_few_warnings_are_printed(tmp_path, capsys):
    (tmp_path / "many.py").write_text(MODULES + "class Many(nn.Module):\n    def forward(self, x):\n"
                                      + "        x = x + int(x.sum())\n" * 9 + "        return x\n"
                                      "many = lambda: (Many().eval(), torch.ones(2))\n")
    assert trace(f"{tmp_path / 'many.py'}:many", "-o", tmp_path / "m.pt", "--no-witnesses") == 0
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 6 and lines[-1] == "warning: and 4 more such warnings; --json has all"


def test_replaces_traces_only(module_file, capsys):
    assert trace(f"{module_file}:nested", "-o", module_file) == 1
    assert "is there and no traced model, expected one to replace; choose another name" in capsys.readouterr().err
    assert module_file.read_text() == MODULES


def test_values_of_config_may_nest():
    given = 'a=1,b=[[1,2],"x"],c={"d":"e","f":[3,4],"g":5},h=2'
    assert cli.assignments(given) == {"a": "1", "b": '[[1,2],"x"]', "c": '{"d":"e","f":[3,4],"g":5}', "h": "2"}


def trace_tiny(name, output, *more):
    assert trace(f"hf:{name}", "--config", TINY[name], "--batch", 2, "--seq", 16, "-o", output, *more) == 0


def call(model, tensors):
    """What a loaded model answers to flat arguments, by path."""
    found = model(**tensors)
    if isinstance(found, torch.Tensor):
        return {"output": found}
    return {f"output.{key}": value for key, value in found.items()}


def original(model_class, config_class, fields, seed=0):
    """The model that `cleave-trace --config fields --seed seed` traces."""
    import transformers

    config = {key: int(value) for key, value in (field.split("=") for field in fields.split(","))}
    torch.manual_seed(seed)
    return getattr(transformers, model_class)(getattr(transformers, config_class)(**config)).eval()


def assert_same_bits(found, expected):
    assert found.keys() == expected.keys()
    for path, value in expected.items():
        assert torch.equal(found[path], value), path


@pytest.mark.parametrize("name", TINY)
def test_outputs_are_what_the_file_answers(tiny_model, name):
    model = tiny_model(name)
    with torch.no_grad():
        found = call(torch.jit.load(model.path), load_file(model.inputs))
    assert_same_bits(found, load_file(model.outputs))


def test_marks_change_no_bit(tiny_model):
    model = tiny_model("gpt2")
    with torch.no_grad():
        expected = original("GPT2LMHeadModel", "GPT2Config", TINY["gpt2"])(**load_file(model.inputs)).logits
    assert torch.equal(expected, load_file(model.outputs)["output.logits"])


def test_arguments_keep_their_names(tiny_model):
    def arguments(name):
        return [argument.name for argument in torch.jit.load(tiny_model(name).path).forward.schema.arguments]

    assert arguments("gpt2") == ["self", "input_ids"]
    assert arguments("bert") == ["self", "input_ids", "attention_mask"]
    assert arguments("t5") == ["self", "input_ids", "decoder_input_ids"]


def test_module_paths_have_no_prefix(tiny_model):
    model = torch.jit.load(tiny_model("gpt2").path)
    names = {name for name, _ in model.named_modules()}
    assert {"transformer.h.0.attn.c_attn", "transformer.wte", "lm_head"} <= names
    calls = [(node.inputsAt(0).node().s("name"), node.s("name")) for node in model.graph.findAllNodes("prim::CallMethod")]
    assert calls == [("transformer", "forward"), ("lm_head", "forward")]


def test_every_module_marks_its_output(tiny_model):
    unmarked = [name for name, module in torch.jit.load(tiny_model("gpt2").path).named_modules()
                if name and hasattr(module, "forward") and "aten::alias" not in str(module.graph)]
    assert unmarked == []


def test_tied_weights_are_stored_once(tiny_model):
    model = tiny_model("gpt2")
    parameters = sum(parameter.numel() for parameter in torch.jit.load(model.path).parameters())
    with zipfile.ZipFile(model.path) as archive:
        stored = sum(item.file_size for item in archive.infolist() if re.search(r"/data/\d+$", item.filename))
    assert stored == 4 * parameters


def test_attention_mask_is_not_fixed(tiny_model):
    model = tiny_model("bert")
    inputs = load_file(model.inputs)
    inputs["attention_mask"][:, 10:] = 0
    with torch.no_grad():
        found = torch.jit.load(model.path)(**inputs)["logits"]
        expected = original("BertForMaskedLM", "BertConfig", TINY["bert"])(**inputs).logits
    assert torch.allclose(found, expected, atol=1e-5)


def test_seed_decides_weights_and_inputs(tmp_path):
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        trace_tiny("gpt2", tmp_path / f"{name}.pt", "--seed", seed)
    a, b, c = ({kind: (tmp_path / f"{name}.{kind}.safetensors").read_bytes() for kind in ("inputs", "outputs")}
               for name in "abc")
    assert a == b
    assert a["inputs"] != c["inputs"] and a["outputs"] != c["outputs"]


def test_nested_inputs_and_outputs(module_file, tmp_path):
    assert trace(f"{module_file}:nested", "-o", tmp_path / "m.pt") == 0
    inputs = load_file(tmp_path / "m.inputs.safetensors")
    assert set(inputs) == {"x", "past.key.0", "past.more.1", "bias"}
    model = torch.jit.load(tmp_path / "m.pt")
    past = {key.removeprefix("past."): value for key, value in inputs.items() if key.startswith("past.")}
    with torch.no_grad():
        found = call(model, {"x": inputs["x"], "past": past, "bias": inputs["bias"]})
    assert set(found) == {"output.y", "output.past.1.0", "output.past.1.1", "output.list.0", "output.list.1.0"}
    assert_same_bits(found, load_file(tmp_path / "m.outputs.safetensors"))


def test_names_are_by_position(module_file, tmp_path):
    """Also behind what is left out."""
    assert trace(f"{module_file}:holes", "-o", tmp_path / "m.pt") == 0
    assert set(load_file(tmp_path / "m.inputs.safetensors")) == {"past.1", "past.2.1", "x"}
    compiled_as_traced(tmp_path, "--verify")
    outputs = load_file(tmp_path / "m.outputs.safetensors")
    assert set(outputs) == {"output.1", "output.2.1"}
    assert_same_bits(load_file(tmp_path / "found.safetensors"), outputs)


def compiled_as_traced(folder, *more):
    execute("cleave", "compile", "m.pt", "--inputs", "m.inputs.safetensors", *more, "-o", "m.plan", cwd=folder)
    execute("cleave", "run", "m.plan", "--inputs", "m.inputs.safetensors", "--outputs", "found.safetensors", cwd=folder)


def test_scalar_arguments_are_fixed(module_file, tmp_path):
    assert trace(f"{module_file}:scaled", "-o", tmp_path / "m.pt") == 0
    compiled_as_traced(tmp_path)
    assert_same_bits(load_file(tmp_path / "found.safetensors"), load_file(tmp_path / "m.outputs.safetensors"))


def test_shared_module_is_called_twice(module_file, tmp_path):
    assert trace(f"{module_file}:nested", "-o", tmp_path / "m.pt") == 0
    model = torch.jit.load(tmp_path / "m.pt")
    calls = [node.s("name") for node in model.graph.findAllNodes("prim::CallMethod")
             if node.inputsAt(0).node().s("name") == "shared"]
    assert calls == ["forward", "forward1"]


@pytest.mark.parametrize("function, names", [("variadic", ["rest_0", "rest_1", "x"]), ("zero_dimensional", ["x"])])
def test_bare_tensors(module_file, tmp_path, function, names, capsys):
    assert trace(f"{module_file}:{function}", "-o", tmp_path / "m.pt", "--json") == 0
    printed = capsys.readouterr()
    report = json.loads(printed.out)
    assert "a module may print" in printed.err
    assert sorted(item["name"] for item in report["inputs"]) == names
    assert [item["name"] for item in report["outputs"]] == ["output"]
    assert list(load_file(tmp_path / "m.outputs.safetensors")) == ["output"]


def test_autograd_functions_are_inlined(module_file, tmp_path):
    assert trace(f"{module_file}:doubler", "-o", tmp_path / "m.pt") == 0
    assert "aten::mul" in str(torch.jit.load(tmp_path / "m.pt").graph)
    assert torch.equal(load_file(tmp_path / "m.outputs.safetensors")["output"], torch.full((2,), 2.0))


def test_properties_are_not_read(module_file, tmp_path):
    assert trace(f"{module_file}:stacking", "-o", tmp_path / "m.pt") == 0


def test_names_that_are_words_of_python_are_renamed(module_file, tmp_path):
    assert trace(f"{module_file}:reserved", "-o", tmp_path / "m.pt") == 0
    assert set(torch.jit.load(tmp_path / "m.pt").state_dict()) == {"0.in_.weight", "0.in_.bias"}


def test_folder_brings_its_own_weights(tmp_path):
    saved = original("BertModel", "BertConfig", TINY["bert"], seed=5)
    saved.save_pretrained(tmp_path / "saved")
    assert trace(f"hf:{tmp_path / 'saved'}", "--batch", 2, "--seq", 16, "-o", tmp_path / "m.pt") == 0
    inputs = load_file(tmp_path / "m.inputs.safetensors")
    with torch.no_grad():
        expected = saved(**inputs).last_hidden_state
    found = load_file(tmp_path / "m.outputs.safetensors")["output.last_hidden_state"]
    assert torch.allclose(found, expected, atol=1e-5)


def test_folder_without_the_weights_of_a_head_is_refused(tmp_path, capsys):
    original("BertModel", "BertConfig", TINY["bert"]).save_pretrained(tmp_path / "saved")
    refused(tmp_path, capsys, f"hf:{tmp_path / 'saved'}", "--class", "BertForMaskedLM", message="no weights for cls.")


@pytest.mark.parametrize("name, output", [("gpt2", "logits"), ("bert", "logits"), ("t5", "encoder_last_hidden_state")])
def test_training_has_labels_a_loss_and_dropout(trace_model, name, output):
    model = trace_model(f"hf:{name}", "--config", TINY[name], "--batch", 2, "--seq", 16, "--train")
    inputs, outputs = load_file(model.inputs), load_file(model.outputs)
    assert inputs["labels"].shape == inputs["decoder_input_ids" if name == "t5" else "input_ids"].shape
    assert outputs["output.loss"].shape == () and f"output.{output}" in outputs
    script = torch.jit.load(model.path)
    assert script.training and all(modes_of_dropout(script))
    with torch.no_grad():
        torch.manual_seed(0)
        assert_same_bits(call(script, inputs), outputs)
        assert not torch.equal(script(**inputs)["loss"], outputs["output.loss"])


def modes_of_dropout(script):
    """What each dropout of a trace takes for `train`; there are some."""
    graph = script.inlined_graph
    found = [list(node.inputs())[2].toIValue() for node in graph.findAllNodes("aten::dropout")]
    assert found
    return found


@pytest.mark.parametrize("class_name, shapes", [
    ("BertForSequenceClassification", {"labels": (2,)}),
    ("BertForTokenClassification", {"labels": (2, 16)}),
    ("BertForQuestionAnswering", {"start_positions": (2,), "end_positions": (2,)}),
    ("BertModel", {}),
])
def test_labels_of_heads(trace_model, class_name, shapes):
    model = trace_model("hf:bert", "--class", class_name, "--config", TINY["bert"], "--batch", 2, "--seq", 16, "--train")
    inputs = load_file(model.inputs)
    assert {name: tuple(inputs[name].shape) for name in inputs.keys() - {"input_ids", "attention_mask"}} == shapes
    assert ("output.loss" in load_file(model.outputs)) == bool(shapes)


def test_gradients_of_a_trace_are_the_modules(module_file, tmp_path):
    """Where gradients are off, too; buffers are saved as they were."""
    assert trace(f"{module_file}:trained", "-o", tmp_path / "m.pt", "--train") == 0
    module, x = runpy.run_path(str(module_file))["trained"]()
    script = torch.jit.load(tmp_path / "m.pt")
    assert_same_bits(dict(script.named_buffers()), dict(module.named_buffers()))
    for traced in (module, script):
        torch.manual_seed(0)
        traced(x)["loss"].backward()
    assert_same_bits(dict(script.named_buffers()), dict(module.named_buffers()))
    expected = {name: parameter.grad for name, parameter in module.named_parameters()}
    found = {name: parameter.grad for name, parameter in script.named_parameters()}
    assert {name for name, value in expected.items() if value is None} == {
        "teacher.weight", "teacher.bias", "scripted.weight", "scripted.bias"}
    assert {name for name, value in found.items() if value is None} == {name for name in found if expected[name] is None}
    assert all(torch.allclose(found[name], value) for name, value in expected.items() if value is not None)


def test_detaches_where_gradients_are_off_alone(module_file, tmp_path):
    assert trace(f"{module_file}:trained", "-o", tmp_path / "m.pt", "--train") == 0
    # Results of the teacher, torch.max and the scripted module, what is written to either buffer, and y.data.
    assert str(torch.jit.load(tmp_path / "m.pt").inlined_graph).count("aten::detach(") == 6
    assert trace(f"{module_file}:writes_copy", "-o", tmp_path / "m.pt", "--train") == 0
    assert trace(f"{module_file}:nested", "-o", tmp_path / "m.pt", "--train") == 0
    assert "aten::detach(" not in str(torch.jit.load(tmp_path / "m.pt").inlined_graph)


def test_a_scripted_module_is_put_in_training_mode(module_file, tmp_path, capsys):
    assert trace(f"{module_file}:scripted_dropout", "-o", tmp_path / "m.pt", "--train") == 0
    assert capsys.readouterr().err == ("note: the module was in evaluation mode and is traced in training mode; call train() "
                                       "on it in the function\n")
    assert torch.jit.load(tmp_path / "m.pt").training
    assert set(load_file(tmp_path / "m.outputs.safetensors")["output"].tolist()) == {0.0, 2.0}


@pytest.mark.parametrize("function, message", [
    ("differentiable", "my_module.Doubled: found a torch.autograd.Function, whose backward a trace does not record, expected "
     "operators with derivatives of their own; write it with these, or trace without --train"),
    ("writes_unseen", "clamp_: forward writes to a tensor that requires grad while gradients are off"),
    ("writes_alias", "__setitem__: forward writes through detach() or .data to a tensor that requires grad"),
    ("hooked", "register_hook: found a hook on gradients, which a trace does not record, expected none; remove it"),
    ("hooked_weight", "weight: found a hook on its gradient, which a trace does not record, expected none; remove it"),
    ("hooked_module", "0: found a backward hook, which a trace does not record, expected none; remove it"),
    ("renormed", "embedding: found max_norm, with which forward writes to the weight, expected None"),
    ("seen", "0.seen: forward sets this buffer, which a trace does not record"),
    ("unseeing", "scripted code turns gradients off"),
    ("unseeing_part", "scripted code turns gradients off"),
    ("traced_part", "0: traced in evaluation mode, expected a module whose mode can be set"),
    ("frozen", "module: frozen by torch.jit.freeze, expected a module whose mode can be set"),
])
def test_what_a_trace_cannot_train_is_refused(module_file, tmp_path, capsys, function, message):
    refused(tmp_path, capsys, f"{module_file}:{function}", "--train", message=message)


def test_labels_that_it_cannot_make_are_refused(tmp_path, capsys):
    refused(tmp_path, capsys, "hf:bert", "--class", "BertForPreTraining", "--config", TINY["bert"], "--seq", 16, "--train",
            message="--train: no rule for the labels of BertForPreTraining, expected a model of text, or a classifier")


def test_torchvision(tmp_path):
    assert trace("torchvision:squeezenet1_1", "--config", "num_classes=5", "--batch", 1, "-o", tmp_path / "m.pt") == 0
    assert load_file(tmp_path / "m.outputs.safetensors")["output"].shape == (1, 5)


def refused(folder, capsys, *arguments, message):
    """Asserts exit status 1, one line that begins with `error: ` and holds `message`, and nothing written."""
    before = everything_below(folder)
    output = () if "-o" in arguments else ("-o", folder / "refused.pt")
    assert trace(*arguments, *output) == 1
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1 and lines[0].startswith("error: ") and message in lines[0], lines
    assert everything_below(folder) == before


@pytest.mark.parametrize("arguments, message", [
    (["hf:gpt3"], "did you mean hf:gpt"),
    (["hf:gpt2", "--config", "n_lay=2"], "did you mean n_layer?"),
    (["hf:gpt2", "--config", "n_layer=two"], "expected int"),
    (["hf:gpt2", "--config", "n_layer.x=2"], "no fields of its own"),
    (["hf:gpt2", "--config", "n_layer=1,n_positions=8"], "max_position_embeddings=8"),
    (["hf:bert", "--class", "GPT2Model"], "takes a GPT2Config"),
    (["hf:bert", "--class", "BertConfig"], "no model class"),
    (["hf:/nowhere"], "no config.json"),
    (["torchvision:resnet51"], "did you mean torchvision:resnet50?"),
    (["nowhere.py:build"], "no such file"),
    (["hf:gpt2", "-o", "nowhere/m.pt"], "no such folder"),
])
def test_wrong_arguments_are_refused(tmp_path, capsys, arguments, message):
    refused(tmp_path, capsys, *arguments, message=message)


@pytest.mark.parametrize("function, message", [
    ("broken", "ValueError: several lines"),
    ("counter", "output: forward answers otherwise when it is called again"),
    ("in_place", "input x: forward changes it in place"),
    ("seen", "0.seen: forward changes this buffer, so that each call answers otherwise, expected a module without state; give "
     "torch.jit.script(module), which keeps it, or take it as an argument and return it"),
    ("opaque", "forward returns a object"),
    ("same_names", "x.1: two values are named so"),
    ("same_paths", "x.a.b: two values are named so"),
    ("same_outputs", "output.y.1: two values are named so"),
    ("wrong_arguments", "missing a required argument: 'x'"),
    ("no_tensors", "no tensor among them"),
    ("no_pair", "expected (module, example inputs)"),
    ("absent", "no function absent"),
])
def test_unusable_modules_are_refused(module_file, tmp_path, capsys, function, message):
    refused(tmp_path, capsys, f"{module_file}:{function}", message=message)


def test_a_module_that_cannot_be_saved_leaves_nothing(module_file, tmp_path, capsys, monkeypatch):
    def save(module, path):
        path.write_bytes(b"half")
        raise RuntimeError("Could not export Python function")

    monkeypatch.setattr(torch.jit, "save", save)
    refused(tmp_path, capsys, f"{module_file}:quiet", message="cannot save the module")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name)
def test_a_killed_run_leaves_nothing(module_file, tmp_path, number):
    source = f"{module_file}:saved_slowly"
    process = subprocess.Popen([BIN / "cleave-trace", source, "-o", "m.pt"], cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not (tmp_path / "started").exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    process.send_signal(number)
    errors = process.communicate(timeout=60)[1]
    assert process.returncode == 128 + number
    assert errors == f"error: {source}: stopped by {number.name}\n"
    assert not list(tmp_path.glob("*.pt")) and not list(tmp_path.glob(".cleave-trace-*"))


def test_the_script_works_in_any_folder(tmp_path):
    (tmp_path / "torch.py").write_text("raise ImportError('the wrong torch')")
    execute("cleave-trace", "hf:gpt2-small", "--config", TINY["gpt2"], "--seq", 16, "-o", "m.pt", cwd=tmp_path)
    assert sorted(path.name for path in tmp_path.glob("m.*")) == [
        "m.inputs.safetensors", "m.outputs.safetensors", "m.pt", "m.witnesses.safetensors"]


def test_replaces_regular_files_only(tmp_path):
    """A device or a link that is there stays what it is."""
    (tmp_path / "linear.py").write_text("import torch\ndef build():\n    return torch.nn.Linear(2, 2), torch.ones(1, 2)\n")
    (tmp_path / "target.pt").write_text("mine")
    (tmp_path / "link.pt").symlink_to("target.pt")
    os.mkfifo(tmp_path / "pipe.pt")
    for name in ("link.pt", "pipe.pt"):
        result = execute("cleave-trace", "linear.py:build", "-o", name, status=1, cwd=tmp_path)
        assert f"{name}: is there and no regular file" in result.err
    assert (tmp_path / "link.pt").is_symlink() and (tmp_path / "target.pt").read_text() == "mine"
    assert (tmp_path / "pipe.pt").is_fifo()
