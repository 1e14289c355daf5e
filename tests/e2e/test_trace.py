"""cleave-trace alone, without --train."""

import json
import os
import re
import signal
import subprocess
import time
import zipfile

import pytest
import torch
from safetensors.torch import load_file

from conftest import BIN, TINY, execute
from cleave_trace.cli import assignments
from traces import assert_same_bits, call, module_file, refused, trace  # noqa: F401


def test_says_what_the_trace_fixes_and_leaves_out(module_file, tmp_path, capsys):
    assert trace(f"{module_file}:noticed", "-o", tmp_path / "m.pt", "--no-witnesses") == 0
    line = next(number for number, text in enumerate(module_file.read_text().splitlines(), 1) if "x.sum() > 0" in text)
    stays = "stays as the example has it; script the module if it may change"
    assert capsys.readouterr().err.splitlines() == [
        f"warning: deciding: {module_file}:{line}: a condition on a tensor or a size {stays}",
        f"warning: {module_file}:{line + 11}: the number of a loop's turns over a tensor {stays}",
        f"warning: {module_file}:{line + 12}: an integer taken from a tensor or a size {stays}",
        "note: the module was in training mode and is traced in evaluation mode; call eval() on it in the function",
        "note: scale=0.5: constant in the trace, which takes tensors only; script the module to leave it open",
        "note: output.length=3, output.word.0=word: returned by forward and left out, since it is no tensor; return "
        "torch.tensor(…) of it to keep it"]


def test_notes_are_in_the_report(module_file, tmp_path, capsys):
    assert trace(f"{module_file}:library", "-o", tmp_path / "m.pt", "--json", "--no-witnesses") == 0
    report = json.loads(capsys.readouterr().out)
    assert len(report["warnings"]) == 3 and len(report["notes"]) == 1


def test_few_warnings_are_printed(module_file, tmp_path, capsys):
    (tmp_path / "many.py").write_text(module_file.read_text() + "class Many(nn.Module):\n    def forward(self, x):\n"
                                      + "        x = x + int(x.sum())\n" * 9 + "        return x\n"
                                      "many = lambda: (Many().eval(), torch.ones(2))\n")
    assert trace(f"{tmp_path / 'many.py'}:many", "-o", tmp_path / "m.pt", "--no-witnesses") == 0
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 6 and lines[-1] == "warning: and 4 more such warnings; --json has all"


def test_replaces_traces_only(module_file, capsys):
    before = module_file.read_text()
    assert trace(f"{module_file}:nested", "-o", module_file) == 1
    assert "is there and no traced model, expected one to replace; choose another name" in capsys.readouterr().err
    assert module_file.read_text() == before


def test_values_of_config_may_nest():
    given = 'a=1,b=[[1,2],"x"],c={"d":"e","f":[3,4],"g":5},h=2'
    assert assignments(given) == {"a": "1", "b": '[[1,2],"x"]', "c": '{"d":"e","f":[3,4],"g":5}', "h": "2"}


def trace_tiny(name, output, *more):
    assert trace(f"hf:{name}", "--config", TINY[name], "--batch", 2, "--seq", 16, "-o", output, *more) == 0


def original(model_class, config_class, fields, seed=0):
    """The model that `cleave-trace --config fields --seed seed` traces."""
    import transformers

    config = {key: int(value) for key, value in (field.split("=") for field in fields.split(","))}
    torch.manual_seed(seed)
    return getattr(transformers, model_class)(getattr(transformers, config_class)(**config)).eval()


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


def test_torchvision(tmp_path):
    assert trace("torchvision:squeezenet1_1", "--config", "num_classes=5", "--batch", 1, "-o", tmp_path / "m.pt") == 0
    assert load_file(tmp_path / "m.outputs.safetensors")["output"].shape == (1, 5)


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
