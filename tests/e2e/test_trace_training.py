"""cleave-trace --train alone."""

import json
import runpy

import pytest
import torch
from safetensors.torch import load_file

from conftest import TINY
from traces import assert_same_bits, call, module_file, refused, trace  # noqa: F401


def test_warnings_of_training_name_the_same_places(module_file, tmp_path, capsys):
    warnings = []
    for option in ([], ["--train"]):
        assert trace(f"{module_file}:noticed", "-o", tmp_path / "m.pt", "--json", "--no-witnesses", *option) == 0
        warnings.append(json.loads(capsys.readouterr().out)["warnings"])
    assert len(warnings[0]) == 3 and warnings[0] == warnings[1]


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
