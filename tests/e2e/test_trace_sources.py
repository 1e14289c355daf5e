"""cleave-trace of what users have: loaded TorchScript, programs of torch.export, models of transformers, files of weights."""

import json

import pytest
import torch
from safetensors.torch import load_file

from conftest import everything_below
from cleave_trace import cli, hf_config, hf_dependent

MODULES = """
import pathlib

import torch
from torch import nn

FOLDER = pathlib.Path(__file__).parent
x = torch.ones(2, 4)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.dropout = nn.Dropout(0.5)

    def forward(self, x, scale: float = 2.0):
        return self.dropout(self.linear(x)) * scale

class Rows(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(Net())

    def forward(self, x, *, more):
        rows, width = x.shape
        parts = x.view(rows, 2, width // 2).transpose(0, 1).reshape(2, -1)
        return {"y": self.net(x) + torch.arange(rows).view(-1, 1) / rows, "parts": parts[:, :rows] + more["k"][0], "n": (None, 3)}

def loaded(module):
    torch.jit.save(module, FOLDER / "saved.bin")
    return torch.jit.load(FOLDER / "saved.bin"), x

def traced(module):
    return torch.jit.trace(module, x, check_trace=False)

def rows(train=False):
    shapes = {"x": {0: torch.export.Dim.AUTO}, "more": {"k": [None]}}
    return torch.export.export(Rows().train(train), (x,), {"more": {"k": [torch.ones(())]}}, dynamic_shapes=shapes)

scripted = lambda: loaded(torch.jit.script(Net()))
scripted_eval = lambda: loaded(torch.jit.script(Net().eval()))
traced_eval = lambda: loaded(traced(Net().eval()))
traced_train = lambda: loaded(traced(Net()))
frozen = lambda: loaded(torch.jit.freeze(torch.jit.script(Net().eval())))

program = lambda: rows()
program_with_inputs = lambda: (rows(), (torch.zeros(3, 4),))
program_named = lambda: (rows(), {"x": torch.zeros(3, 4), "more": {"k": [torch.zeros(())]}})
program_in_training = lambda: rows(True)
program_of_one_size = lambda: torch.export.export(Net().eval(), (x,))

path = lambda: (str(FOLDER / "saved.bin"), x)
path_alone = lambda: FOLDER / "saved.bin"
alone = lambda: Net()
script_alone = lambda: torch.jit.script(Net())
class_alone = lambda: Net
class_with_inputs = lambda: (Net, x)
three = lambda: (Net(), x, x)
state = lambda: (Net().state_dict(), x)
function = lambda: (torch.relu, x)

class Holding(nn.Module):
    def __init__(self, weight, buffer=None):
        super().__init__()
        self.part = nn.Linear(4, 4)
        self.part.other = nn.Parameter(weight)
        self.register_buffer("table", buffer)

    def forward(self, x):
        return self.part(x)

sparse = lambda: (Holding(torch.eye(4).to_sparse()), x)
sparse_buffer = lambda: (Holding(torch.eye(4), torch.eye(4).to_sparse_csr()), x)
sparse_input = lambda: (Holding(torch.eye(4)), {"x": x.to_sparse()})
nested_input = lambda: (Holding(torch.eye(4)), torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]))
lazy = lambda: (nn.LazyLinear(3), x)
compiled = lambda: (torch.compile(Net().eval()), x)
meta_input = lambda: (Holding(torch.eye(4)), x.to("meta"))

def meta():
    with torch.device("meta"):
        return Holding(torch.eye(4)), torch.ones(2, 4, device="cpu")

class Returns(nn.Module):
    def __init__(self, make):
        super().__init__()
        self.make = [make]

    def forward(self, x):
        return self.make[0](x)

nothing = lambda: (Returns(lambda x: None), x)
nones = lambda: (Returns(lambda x: (None, {"a": None})), x)
generator = lambda: (Returns(lambda x: {"a": (x * i for i in range(3))}), x)
tensor_key = lambda: (Returns(lambda x: {x: x}), x)
keys = lambda: (Returns(lambda x: {1: x, (2, "b"): x + 1, None: x}).eval(), x)

def llama(**more):
    import transformers

    ids = torch.arange(16).view(2, 8)
    fields = dict(hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2, vocab_size=20)
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**fields)).eval()
    return model, {"input_ids": ids, **more}

class Wrapped(nn.Module):
    def __init__(self):
        super().__init__()
        self.model = llama()[0]

    def forward(self, ids):
        return self.model(ids)

llama_by_position = lambda: (llama()[0], torch.arange(16).view(2, 8))
llama_without = lambda: llama(use_cache=False)
llama_with = lambda: llama(use_cache=True)
wrapped = lambda: (Wrapped().eval(), torch.arange(16).view(2, 8))
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "modules.py").write_text(MODULES)
    return tmp_path


def trace(folder, name, *more):
    source = str(folder / name) if "." in name else f"{folder / 'modules.py'}:{name}"
    return cli.main([source, "-o", str(folder / "m.pt"), *more])


def report(folder, capsys, name, *more):
    assert trace(folder, name, "--json", *more) == 0
    return json.loads(capsys.readouterr().out)


def refused(folder, capsys, name, *more):
    """The one line that says why `name` is not traced; nothing is written."""
    before = everything_below(folder)
    assert trace(folder, name, *more) == 1
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1 and lines[0].startswith("error: "), lines
    assert everything_below(folder).keys() - {"saved.bin"} == before.keys() - {"saved.bin"}
    return lines[0]


@pytest.mark.parametrize("name, notes", [("scripted", 1), ("scripted_eval", 0), ("traced_eval", 0), ("frozen", 0)])
def test_loaded_torchscript(folder, capsys, name, notes):
    """Of the mode it was saved in there is one note, where it can be set."""
    found = report(folder, capsys, name)
    assert [item["name"] for item in found["inputs"]] == ["x"] and len(found["notes"]) == notes
    expected = torch.jit.load(folder / "saved.bin").eval()(torch.ones(2, 4))
    assert torch.equal(load_file(folder / "m.outputs.safetensors")["output"], expected)


def test_a_training_mode_that_is_fixed_is_noted(folder, capsys):
    for name in ("traced_train", "program_in_training"):
        notes = report(folder, capsys, name)["notes"]
        assert [note.startswith("operators have their training mode fixed to be on") for note in notes][0], notes
        assert not any("was in training mode" in note for note in notes)


@pytest.mark.parametrize("name", ["traced_eval", "program"])
def test_an_evaluation_mode_that_is_fixed_cannot_train(folder, capsys, name):
    assert "exported in evaluation mode, expected a module whose mode can be set" in refused(folder, capsys, name, "--train")


def test_what_reads_its_mode_can_train(folder, capsys):
    assert report(folder, capsys, "scripted_eval", "--train")["outputs"]
    notes = report(folder, capsys, "program_in_training", "--train")["notes"]
    assert not any("mode" in note for note in notes)


@pytest.mark.parametrize("name, rows", [("program", 2), ("program_named", 3)])
def test_exported_programs(folder, capsys, name, rows):
    """They keep the names of arguments, the paths of modules and sizes that are open."""
    found = report(folder, capsys, name)
    assert [item["name"] for item in found["inputs"]] == ["x", "more.k.0"]
    assert found["inputs"][0]["shape"] == [rows, 4]
    assert [item["name"] for item in found["outputs"]] == ["output.y", "output.parts"]
    script = torch.jit.load(folder / "m.pt")
    assert {"net", "net.0", "net.0.linear", "net.0.dropout"} <= {path for path, _ in script.named_modules()}
    answer = script(torch.ones(6, 4), {"k.0": torch.ones(())})
    assert answer["y"].shape == (6, 4) and answer["parts"].shape == (2, 6)


def test_an_example_must_fit_the_program(folder, capsys):
    assert "missing a required" in refused(folder, capsys, "program_with_inputs")


def test_pt2_files(folder, capsys):
    code = {}
    exec(MODULES.replace("__file__", repr(str(folder / "modules.py"))), code)
    program = code["rows"]()
    torch.export.save(program, folder / "program.pt2")
    report(folder, capsys, "program.pt2")
    expected = program.module()(torch.ones(2, 4), more={"k": [torch.ones(())]})["y"]
    assert torch.allclose(load_file(folder / "m.outputs.safetensors")["output.y"], expected)


def test_fixed_sizes_of_a_program_are_noted(folder, capsys):
    notes = report(folder, capsys, "program_of_one_size")["notes"]
    assert len(notes) == 1 and notes[0].startswith("exported with fixed sizes")


@pytest.mark.parametrize("name, write, message", [
    ("model.pt", lambda path: torch.jit.save(torch.jit.script(torch.nn.ReLU()), path), "found TorchScript, which needs no trace; "
     "give the file to cleave compile"),
    ("model.pt2", lambda path: torch.jit.save(torch.jit.script(torch.nn.ReLU()), path), "found TorchScript"),
    ("model.pth", lambda path: torch.save({"a": torch.ones(2)}, path), "found a checkpoint, which holds no code of a model; write"),
    ("model.bin", lambda path: path.write_bytes(b"old"), "found a checkpoint"),
    ("model.pt2", lambda path: path.write_bytes(b"PK\x03\x04 damaged"), "found no archive of torch.export.save"),
    ("model.safetensors", lambda path: path.write_bytes(b"x"), "found tensors without the code of a model"),
    ("model.onnx", lambda path: path.write_bytes(b"x"), "found an ONNX graph"),
    ("model.gguf", lambda path: path.write_bytes(b"x"), "found a GGUF file"),
    ("model.pt2", lambda path: None, "no such file, expected a model; check the path"),
])
def test_files_are_named_as_what_they_are(folder, capsys, name, write, message):
    write(folder / name)
    assert message in refused(folder, capsys, name)


@pytest.mark.parametrize("name, message", [
    ("path", "returned a str, '{folder}/saved.bin' with inputs, expected (module, example inputs); load the module, with torch"),
    ("path_alone", "returned a PosixPath, '{folder}/saved.bin', expected"),
    ("alone", "returned a Net alone, expected (module, example inputs); return the inputs of a call with it"),
    ("script_alone", "returned a RecursiveScriptModule alone, expected"),
    ("class_alone", "returned the class Net, expected (module, example inputs); make one: Net(…)"),
    ("class_with_inputs", "returned the class Net with inputs, expected (module, example inputs); make one: Net(…)"),
    ("three", "returned a tuple of 3, expected (module, example inputs); return both from the function"),
    ("state", "returned a state dict with inputs, expected (module, example inputs); build the module and return it after"),
    ("function", "returned a builtin_function_or_method with inputs, expected (module, example inputs); call it in the forward"),
    ("sparse", "part.other: a tensor of layout torch.sparse_coo, expected a dense one"),
    ("sparse_buffer", "table: a tensor of layout torch.sparse_csr, expected"),
    ("sparse_input", "example inputs: x: a tensor of layout torch.sparse_coo, expected"),
    ("nested_input", "example inputs: a nested tensor, expected a dense one"),
    ("lazy", "weight: has no shape yet, expected values; call the module once"),
    ("meta", "part.weight, part.bias, part.other: on the meta device, without values, expected tensors with values"),
    ("meta_input", "example inputs: on the meta device, without values"),
    ("nothing", "output: forward returns no tensor, expected at least one"),
    ("nones", "output: forward returns no tensor, expected at least one"),
    ("generator", "output.a: forward returns a generator, expected tensors in tuples, lists or dictionaries"),
    ("tensor_key", "expected one of printable characters; rename it"),
    ("llama_with", "output.past_key_values: forward returns a DynamicCache, expected tensors"),
])
def test_what_is_no_module_with_inputs_is_refused(folder, capsys, name, message):
    assert message.format(folder=folder) in refused(folder, capsys, name)


def test_keys_may_be_anything_that_has_a_name(folder, capsys):
    assert [item["name"] for item in report(folder, capsys, "keys")["outputs"]] == ["output.1", "output.(2, 'b')", "output.None"]


def test_compiled_modules_trace_as_they_were(folder, capsys):
    assert report(folder, capsys, "compiled")["class"] == "Net"


@pytest.mark.parametrize("name, path", [("llama", ""), ("llama_by_position", ""), ("wrapped", "model: ")])
def test_a_cache_is_turned_off_and_noted(folder, capsys, name, path):
    found = report(folder, capsys, name)
    assert found["notes"] == [
        f"{path}use_cache was True in the configuration and is False in the trace, which cannot return a cache object; give "
        "use_cache=False among the inputs, or set it in the configuration"]
    assert [item["name"] for item in found["outputs"]] == ["output.logits"]


def test_who_gives_use_cache_decides(folder, capsys):
    assert not any("configuration" in note for note in report(folder, capsys, "llama_without")["notes"])


def config_of(model_type, fields):
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    return hf_config.build(CONFIG_MAPPING[model_type], fields)


@pytest.mark.parametrize("model_type, fields, expected", [
    ("qwen3_moe", {"num_attention_heads": "4", "num_experts": "4"}, {"num_key_value_heads": 1, "num_experts_per_tok": 4}),
    ("deepseek_v3", {"num_attention_heads": "4"}, {"num_key_value_heads": 4}),
    ("deepseek_v3", {"num_attention_heads": "4", "num_key_value_heads": "2"}, {"num_key_value_heads": 2}),
    ("axk1", {"n_routed_experts": "4"}, {"n_group": 1, "topk_group": 1, "num_experts_per_tok": 4}),
    ("codegen", {"n_embd": "64", "n_head": "4"}, {"rotary_dim": 16}),
    ("gpt2", {"n_layer": "2"}, {"n_head": 12, "bos_token_id": 50256}),
])
def test_fields_follow_those_that_are_set(model_type, fields, expected):
    config = config_of(model_type, fields)
    assert {name: getattr(config, name) for name in expected} == expected


def test_tokens_are_below_the_vocabulary():
    config = config_of("eurobert", {"vocab_size": "500"})
    tokens = [value for name, value in vars(config).items() if name.endswith("_token_id") and value is not None]
    assert tokens and all(0 <= value < 500 for value in tokens)


def test_positions_share_a_smaller_head():
    rope = {"rope_type": "default", "mrope_section": [16, 24, 24]}
    fields = {"hidden_size": 64, "num_attention_heads": 4}
    assert hf_dependent.sections(rope, fields, fields) == {"rope_type": "default", "mrope_section": [4, 2, 2]}
    assert hf_dependent.sections(rope, {}, fields) is None


def test_nested_configurations_keep_what_is_not_set():
    default, config = config_of("exaone4_5", {}), config_of("exaone4_5", {"text_config.num_hidden_layers": "2"})
    assert type(config.text_config) is type(default.text_config) and config.text_config.num_hidden_layers == 2
    assert config.text_config.hidden_size == default.text_config.hidden_size


def test_a_field_without_a_value_is_named(tmp_path, capsys):
    assert cli.main(["hf:esm", "--config", "num_hidden_layers=1", "-o", str(tmp_path / "m.pt")]) == 1
    line = capsys.readouterr().err
    assert "cannot be built with this configuration: " in line and line.endswith(
        "; it has no vocab_size, set it with --config vocab_size=VALUE\n"), line


def test_a_small_mixture_traces(tmp_path):
    fields = "vocab_size=500,hidden_size=32,moe_intermediate_size=16,num_hidden_layers=2,num_attention_heads=4,num_experts=4"
    assert cli.main(["hf:qwen3_moe", "--config", fields, "--batch", "2", "--seq", "8", "-o", str(tmp_path / "m.pt")]) == 0
