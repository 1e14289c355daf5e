"""`cleave compile --gradients`: gradients as a plan gives them, against those of the module by PyTorch's autograd."""

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from cleave_trace import cli, sources
from conftest import cleave, execute
from launching import Processes, same_bits
from training_architectures import MODELS, source_of


def traced(model, config, folder, *options):
    """The module that was traced, and its example inputs; model.pt in the folder."""
    name, class_name = source_of(model)
    execute("cleave-trace", name, *(["--class", *class_name] if class_name else []), "--config", config, "--batch", 3, "--seq", 16,
            "--train", *options, "-o", folder / "model.pt")
    [fields] = cli.parse([name, "--config", config, "-o", "model.pt"]).config
    module, *_ = sources.load(name, sources.Options(config=fields, class_name=class_name[0] if class_name else None, batch=3,
                                                   seq=16, seed=0, train=True))
    return module.train(), load_file(folder / "model.inputs.safetensors")


def gradients_of(module, loss):
    """Gradients of all parameters by name; parameters that are tied count once."""
    names, parameters = zip(*module.named_parameters())
    return dict(zip(names, torch.autograd.grad(loss, parameters, allow_unused=True)))


def run(folder, inputs, plan="model.plan"):
    save_file({name: tensor.clone() for name, tensor in inputs.items()}, folder / "given.safetensors")
    cleave("run", folder / plan, "--inputs", folder / "given.safetensors", "--outputs", folder / "found.safetensors")
    return load_file(folder / "found.safetensors")


def check(found, expected):
    """Within what 32 bits allow: of the gradient's largest value, and of the model's."""
    largest = max(gradient.abs().max() for gradient in expected.values() if gradient is not None)
    assert {name.removeprefix("grad.") for name in found if name.startswith("grad.")} == {
        name for name, gradient in expected.items() if gradient is not None}
    for name, gradient in expected.items():
        if gradient is not None:
            error = (found[f"grad.{name}"] - gradient).abs().max()
            assert error <= 1e-5 * gradient.abs().max() + 1e-6 * largest, name


@pytest.mark.parametrize("model", MODELS)
def test_gradients_are_those_of_pytorch(model, tmp_path):
    module, inputs = traced(model, MODELS[model], tmp_path)
    cleave("compile", tmp_path / "model.pt", "--inputs", tmp_path / "model.inputs.safetensors", "--gradients", "-o",
           tmp_path / "model.plan")
    found = run(tmp_path, inputs)
    loss = module(**inputs).loss
    assert found["output.loss"] == pytest.approx(loss.item(), rel=1e-5)
    check(found, gradients_of(module, loss))


@pytest.mark.parametrize("mesh", ["pp=3", "pp=2,tp=2"])
@pytest.mark.parametrize("model", MODELS)
def test_gradients_over_stages_and_ranks(model, mesh, tmp_path):
    module, inputs = traced(model, MODELS[model], tmp_path)
    cleave("compile", tmp_path / "model.pt", "--inputs", tmp_path / "model.inputs.safetensors", "--gradients", "--mesh", mesh, "-o",
           tmp_path / "model.plan")
    found = run(tmp_path, inputs)
    loss = module(**inputs).loss
    assert found["output.loss"] == pytest.approx(loss.item(), rel=1e-5)
    check(found, gradients_of(module, loss))


def test_stages_in_processes_give_the_same_bits(tmp_path):
    traced("hf:gpt2", MODELS["hf:gpt2"], tmp_path)
    plan, inputs = tmp_path / "model.plan", tmp_path / "model.inputs.safetensors"
    cleave("compile", tmp_path / "model.pt", "--inputs", inputs, "--gradients", "--mesh", "pp=2,tp=2", "-o", plan)
    cleave("run", plan, "--inputs", inputs, "--outputs", tmp_path / "threads.safetensors")
    with Processes(4, plan, "--inputs", inputs, "--outputs", tmp_path / "processes.safetensors") as processes:
        ended = processes.end()
    assert [end.status for end in ended.values()] == [0] * 4, ended
    assert same_bits(load_file(tmp_path / "processes.safetensors"), load_file(tmp_path / "threads.safetensors"))


def test_sizes_may_vary(tmp_path):
    module, inputs = traced("hf:gpt2", MODELS["hf:gpt2"], tmp_path)
    cleave("compile", tmp_path / "model.pt", "--inputs", tmp_path / "model.inputs.safetensors", "--gradients",
           "--dynamic", "input_ids=batch,seq", "--dynamic", "labels=batch,seq", "-o", tmp_path / "model.plan")
    for batch, seq in ((3, 16), (5, 9), (1, 31)):
        ids = torch.randint(128, (batch, seq))
        check(run(tmp_path, {"input_ids": ids, "labels": ids}), gradients_of(module, module(ids, labels=ids).loss))


class Classifier(nn.Module):
    """Has no loss of its own; returns logits at the top of its outputs."""

    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Sequential(nn.Linear(8, 16), nn.GELU()), nn.Linear(16, 5)

    def forward(self, x, labels):
        return self.head(self.body(x)), labels


class Frozen(Classifier):
    def __init__(self):
        super().__init__()
        self.body[0].weight.requires_grad_(False)

    def forward(self, x):
        return {"loss": self.head(self.body(x)).square().mean()}


class Attends(nn.Module):
    """With a mask of keys that repeats for heads and queries, and a query that repeats for the batch."""

    def __init__(self):
        super().__init__()
        self.query, self.key = nn.Parameter(torch.randn(1, 2, 5, 4)), nn.Linear(4, 4)

    def forward(self, x):
        key, mask = self.key(x), torch.arange(5.0).view(1, 1, 1, 5).expand(3, 2, 1, 5)
        attended = nn.functional.scaled_dot_product_attention(self.query.expand(3, -1, -1, -1), key, key, attn_mask=mask)
        return {"loss": attended.sum()}


class Pools(Classifier):
    """Pools a value whose channels are last in memory, as its indices then are."""

    def __init__(self):
        super().__init__()
        self.body = nn.Linear(8, 4)

    def forward(self, x):
        channels = self.body(x.view(1, 4, 4, 4).repeat(1, 1, 1, 2)).permute(0, 3, 1, 2)
        return {"loss": nn.functional.max_pool2d(channels, 2).square().mean()}


class Stops(Classifier):
    def forward(self, x):
        with torch.no_grad():
            hidden = self.body(x)
        return self.head(hidden).square().mean()


def saved(module, inputs, folder):
    """model.pt of a module, as cleave-trace --train makes it of a file."""
    torch.manual_seed(3)
    (folder / "made.py").write_text(
        "import sys, torch\n"
        f"sys.path.insert(0, {str(__file__.rsplit('/', 1)[0])!r})\n"
        f"from test_gradients import {module}\n"
        "def build():\n"
        "    torch.manual_seed(3)\n"
        f"    return {module}().train(), {{name: tensor for name, tensor in torch.load('inputs.pth').items()}}\n")
    torch.save(inputs, folder / "inputs.pth")
    execute("cleave-trace", "made.py:build", "--train", "-o", "model.pt", cwd=folder)
    return globals()[module]().train()


@pytest.fixture(scope="module")
def classifier(tmp_path_factory):
    folder = tmp_path_factory.mktemp("classifier")
    inputs = {"x": torch.randn(4, 8), "labels": torch.tensor([0, 4, -100, 2])}
    return folder, saved("Classifier", inputs, folder), inputs


def compiled(folder, *options, **more):
    return cleave("compile", "model.pt", "--inputs", "model.inputs.safetensors", "--gradients", *options, "-o", "model.plan",
                  cwd=folder, **more)


def test_loss_can_be_attached(classifier):
    folder, module, inputs = classifier
    compiled(folder, "--loss", "cross_entropy(output.0, labels, label_smoothing=0.1)")
    found = run(folder, inputs)
    loss = nn.functional.cross_entropy(module(**inputs)[0], inputs["labels"], label_smoothing=0.1)
    assert found["loss"] == pytest.approx(loss.item(), rel=1e-5)
    check(found, gradients_of(module, loss))


def test_only_weights_that_are_trained_have_gradients(classifier):
    folder, module, inputs = classifier
    compiled(folder, "--loss", "cross_entropy(output.0, labels)", "--trainable", "head.*")
    found = run(folder, inputs)
    loss = nn.functional.cross_entropy(module(**inputs)[0], inputs["labels"])
    check(found, {name: gradient for name, gradient in gradients_of(module, loss).items() if name.startswith("head.")})


def test_gradients_stop_where_the_module_stops_them(tmp_path):
    inputs = {"x": torch.randn(4, 8)}
    module = saved("Stops", inputs, tmp_path)
    compiled(tmp_path)
    found = run(tmp_path, inputs)
    check(found, gradients_of(module, module(**inputs)))
    assert "grad.head.weight" in found and "grad.body.0.weight" not in found


def test_attention_with_repeated_operands(tmp_path):
    inputs = {"x": torch.randn(3, 2, 5, 4)}
    module = saved("Attends", inputs, tmp_path)
    compiled(tmp_path)
    check(run(tmp_path, inputs), gradients_of(module, module(**inputs)["loss"]))


def test_pooling_of_channels_that_are_last_in_memory(tmp_path):
    inputs = {"x": torch.randn(2, 32)}
    module = saved("Pools", inputs, tmp_path)
    compiled(tmp_path)
    found, expected = run(tmp_path, inputs), gradients_of(module, module(**inputs)["loss"])
    check(found, {name: gradient for name, gradient in expected.items() if gradient is not None})


def test_frozen_parameters_have_none_unless_they_are_named(tmp_path):
    inputs = {"x": torch.randn(4, 8)}
    module = saved("Frozen", inputs, tmp_path)
    compiled(tmp_path)
    found = run(tmp_path, inputs)
    assert "grad.body.0.bias" in found and "grad.body.0.weight" not in found
    compiled(tmp_path, "--trainable", "body.*")
    found = run(tmp_path, inputs)
    module.body[0].weight.requires_grad_()
    expected = gradients_of(module, module(**inputs)["loss"])
    check(found, {name: gradient for name, gradient in expected.items() if name.startswith("body.")})


def test_loss_may_be_an_output(tmp_path):
    inputs = {"x": torch.randn(4, 8)}
    module = saved("Frozen", inputs, tmp_path)
    compiled(tmp_path, "--loss", "loss", "--trainable", "head.*")
    expected = gradients_of(module.head, module(**inputs)["loss"])
    check(run(tmp_path, inputs), {f"head.{name}": gradient for name, gradient in expected.items()})


@pytest.mark.parametrize("options, status, error", [
    ([], 1, "the loss: found output.0, output.1, expected a result 'loss'; name one of these (--loss NAME), attach a loss of one (--loss 'mse(output, target)'), or trace the model with labels"),
    (["--loss", "mse(output.0, labels)"], 1, "the loss: found 'labels' of type"),
    (["--loss", "mse(output.0)"], 1, "expected a result and an input in brackets, as in mse(logits, labels)"),
    (["--loss", "cross_entropy(output.0, labels)", "--trainable", "nothing.*"], 1,
     'trainable parameters: found "nothing.*", which matches none, expected a name as '),
    (["--mesh", "dp=2"], 2, "--gradients: found data-parallel ranks, expected one"),
    (["--microbatches", 2], 2, "--gradients: found --microbatches"),
    (["--loss", "mse('a', b)"], 2, "found a quote or brace"),
])
def test_what_cannot_be_is_refused(classifier, options, status, error):
    folder, _, _ = classifier
    found = compiled(folder, *options, status=status)
    assert error in found.err and found.err.count("error: ") == 1


def test_loss_without_gradients_is_refused(classifier):
    folder, _, _ = classifier
    found = cleave("compile", "model.pt", "--loss", "mse(a, b)", "-o", "model.plan", cwd=folder, status=2)
    assert "--gradients" in found.err
