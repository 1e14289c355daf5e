"""`cleave compile --train` and `cleave train`: losses, weights and checkpoints, against training by PyTorch itself."""

import copy
import functools

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from torch import nn
from torch.nn import functional

from cleave_trace import cli, files, gradients, sources, tracing
from conftest import cleave, refused
from test_gradients import MODELS

BATCH, BATCHES = 4, 5


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """Threads have too little to do in small models: they wait for one another, long where the machine is busy."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "1")
        yield
    torch.set_num_threads(threads)


# Models and their data


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.LayerNorm(32)), nn.Linear(32, 5)

    def forward(self, x, labels):
        return {"loss": functional.cross_entropy(self.head(self.body(x)), labels)}


class Frozen(Classifier):
    def __init__(self):
        super().__init__()
        self.body.requires_grad_(False)
        self.body[2].bias.requires_grad_()


class Drops(Classifier):
    def __init__(self):
        super().__init__()
        self.body.append(nn.Dropout(0.5))


class Normalized(Classifier):
    """With convolutions and batch norm."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 8, 3, bias=False), nn.BatchNorm2d(8), nn.ReLU(),
                                  nn.Conv2d(8, 8, 3, stride=2, bias=False), nn.BatchNorm2d(8), nn.ReLU(),
                                  nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.head = nn.Linear(8, 5)


class SharedNorm(Normalized):
    """With one batch norm that is called twice."""

    def __init__(self):
        super().__init__()
        self.body[4] = self.body[1]


class Logarithm(nn.Module):
    def forward(self, x):
        return x.log()


class Logarithms(Classifier):
    """Of numbers below 0 it makes NaN."""

    def __init__(self):
        super().__init__()
        self.body.insert(0, Logarithm())


SIZES = {Normalized: (3, 8, 8), SharedNorm: (3, 8, 8)}


def rows(model, count, seed=0):
    """Inputs of a model, `count` of each."""
    generator = torch.Generator().manual_seed(seed)
    return {"x": torch.rand(count, *SIZES.get(model, (8,)), generator=generator) + 0.1,
            "labels": torch.randint(5, (count,), generator=generator)}


def made(model):
    torch.manual_seed(3)
    return model().train()


def traced(model, folder):
    """A module; model.pt in the folder, as cleave-trace --train makes it; and data.safetensors, of some batches."""
    module, inputs = made(model), rows(model, BATCH)
    gradients.check_can_train(module)
    files.write(tracing.trace(copy.deepcopy(module), inputs, train=True), str(folder / "model.pt"))
    save_file(rows(model, BATCH * BATCHES + BATCH - 1, seed=1), folder / "data.safetensors")
    return module


def batches_of(folder):
    data = load_file(folder / "data.safetensors")
    return [{name: tensor[first:first + BATCH] for name, tensor in data.items()}
            for first in range(0, BATCH * BATCHES, BATCH)]


# Training


def compiled(folder, *options):
    cleave("compile", "model.pt", "--inputs", "model.inputs.safetensors", "--train", *options, "-o", "model.plan",
           cwd=folder)


def trained(folder, steps, *options, lr=1e-2, data="data.safetensors", output="weights.safetensors"):
    """What a training reports, and its weights."""
    done = cleave("train", "model.plan", "--data", data, "--steps", steps, "--lr", lr, "--output", output, "--json",
                  *options, cwd=folder)
    return done.json(), load_file(folder / output)


def train_eagerly(module, batches, steps, optimizer, clip=float("inf"), scheduler=None):
    """Losses, norms of gradients before they are clipped, and learning rates."""
    losses, norms, rates = [], [], []
    for step in range(steps):
        optimizer.zero_grad()
        loss = module(**batches[step % len(batches)])["loss"]
        loss.backward()
        norms.append(nn.utils.clip_grad_norm_(module.parameters(), clip).item())
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        if scheduler:
            scheduler.step()
        losses.append(loss.item())
    return losses, norms, rates


def check(found, module, expected):
    """Within what 32 bits allow."""
    report, weights = found
    losses, norms, rates = expected
    assert report["losses"] == pytest.approx(losses, rel=1e-4)
    # PyTorch's own float32 norms of the tied GPT-2 are up to 1.5e-3 off those in float64.
    assert report["gradient_norms"] == pytest.approx(norms, rel=2e-3)
    assert report["learning_rates"] == pytest.approx(rates, rel=1e-6)
    assert report["steps"] == len(losses) and report["skipped_steps"] == []
    parameters = {name: parameter for name, parameter in module.named_parameters() if parameter.requires_grad}
    assert set(weights) >= set(parameters)
    largest = max(parameter.abs().max() for parameter in parameters.values())
    for name, parameter in parameters.items():
        assert (weights[name] - parameter).abs().max() <= 1e-4 * largest, name


OPTIMIZERS = {
    "adamw": (torch.optim.AdamW, {"lr": 1e-2}),
    "adamw(weight_decay=0.1, beta1=0.8, beta2=0.95, eps=1e-6)": (
        torch.optim.AdamW, {"lr": 1e-2, "weight_decay": 0.1, "betas": (0.8, 0.95), "eps": 1e-6}),
    "adam": (torch.optim.Adam, {"lr": 1e-2}),
    "adam(weight_decay=0.1)": (torch.optim.Adam, {"lr": 1e-2, "weight_decay": 0.1}),
    "sgd": (torch.optim.SGD, {"lr": 0.1}),
    "sgd(momentum=0.9, weight_decay=0.01)": (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01}),
    "sgd(momentum=0.9, nesterov=true)": (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
}


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_optimizers(optimizer, tmp_path):
    module = traced(Classifier, tmp_path)
    compiled(tmp_path, "--optimizer", optimizer)
    make, options = OPTIMIZERS[optimizer]
    expected = train_eagerly(module, batches_of(tmp_path), 50, make(module.parameters(), **options))
    check(trained(tmp_path, 50, lr=options["lr"]), module, expected)


def test_clipped_gradients(tmp_path):
    module = traced(Classifier, tmp_path)
    compiled(tmp_path, "--optimizer", "sgd(momentum=0.9)", "--clip-norm", "2")
    expected = train_eagerly(module, batches_of(tmp_path), 50,
                             torch.optim.SGD(module.parameters(), lr=0.05, momentum=0.9), clip=2)
    assert min(expected[1]) < 2 < max(expected[1])
    check(trained(tmp_path, 50, lr=0.05), module, expected)


def test_weights_without_decay(tmp_path):
    module = traced(Classifier, tmp_path)
    compiled(tmp_path, "--optimizer", "adamw(weight_decay=0.5)", "--no-decay", "*.bias", "--no-decay", "body.2.*")
    kept = [parameter for name, parameter in module.named_parameters() if name.endswith("bias") or "body.2" in name]
    decayed = [module.body[0].weight, module.head.weight]
    optimizer = torch.optim.AdamW([{"params": kept, "weight_decay": 0}, {"params": decayed}], lr=1e-2,
                                  weight_decay=0.5)
    check(trained(tmp_path, 50), module, train_eagerly(module, batches_of(tmp_path), 50, optimizer))


@pytest.mark.parametrize("shape, name", [("constant", "constant_with_warmup"), ("linear", "linear"),
                                         ("cosine", "cosine")])
@pytest.mark.parametrize("warmup", [0, 7])
def test_learning_rates_are_those_of_transformers(shape, name, warmup, classifier):
    module = made(Classifier)
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-2)
    scheduler = transformers.get_scheduler(name, optimizer, num_warmup_steps=warmup, num_training_steps=50)
    expected = train_eagerly(module, batches_of(classifier), 50, optimizer, scheduler=scheduler)
    check(trained(classifier, 50, "--lr-schedule", shape, "--warmup", warmup), module, expected)


@pytest.fixture(scope="module")
def gpt2(trace_model):
    """A folder with a language model, whose head and embedding are one weight; and what makes its module."""
    arguments = ("hf:gpt2", "--config", MODELS["hf:gpt2"], "--batch", 3, "--seq", 16, "--train")
    [config] = cli.parse([*map(str, arguments), "-o", "model.pt"]).config
    options = sources.Options(config=config, class_name=None, batch=3, seq=16, seed=0, train=True)
    return trace_model(*arguments).path.parent, lambda: sources.load("hf:gpt2", options)[0].train()


@pytest.mark.parametrize("without_decay", [
    (), ("transformer.wte.weight",),
    ("lm_head.weight",)])
def test_tied_weights(gpt2, without_decay):
    folder, build = gpt2
    module, inputs = build(), load_file(folder / "model.inputs.safetensors")
    compiled(folder, "--optimizer", "adamw(weight_decay=0.5)", "--clip-norm", "1",
             *(option for name in without_decay for option in ("--no-decay", name)))
    kept = [module.lm_head.weight] if without_decay else []
    decayed = [parameter for parameter in module.parameters() if all(parameter is not other for other in kept)]
    optimizer = torch.optim.AdamW([{"params": kept, "weight_decay": 0}, {"params": decayed}], lr=1e-3, weight_decay=0.5)
    expected = train_eagerly(module, [inputs], 50, optimizer, clip=1)
    found = trained(folder, 50, lr=1e-3, data="model.inputs.safetensors")
    check(found, module, expected)
    assert build().load_state_dict(found[1], strict=False).missing_keys == ["lm_head.weight"]


@pytest.mark.parametrize("model, optimizer", [(Normalized, "adamw"), (Normalized, "sgd(momentum=0.9)"), (SharedNorm, "adamw")])
def test_batch_norm(model, optimizer, tmp_path):
    module = traced(model, tmp_path)
    compiled(tmp_path, "--optimizer", optimizer)
    make = torch.optim.AdamW if optimizer == "adamw" else functools.partial(torch.optim.SGD, momentum=0.9)
    expected = train_eagerly(module, batches_of(tmp_path), 50, make(module.parameters(), lr=1e-2))
    check(trained(tmp_path, 50, "--checkpoint", "all.safetensors"), module, expected)
    checkpoint = load_file(tmp_path / "all.safetensors")
    for name, buffer in module.named_buffers():
        torch.testing.assert_close(checkpoint[f"state/{name}"], buffer, rtol=1e-4, atol=1e-5)


def test_output_has_the_running_statistics(tmp_path):
    module = traced(Normalized, tmp_path)
    compiled(tmp_path)
    train_eagerly(module, batches_of(tmp_path), 10, torch.optim.AdamW(module.parameters(), lr=1e-2))
    again = made(Normalized)
    assert again.load_state_dict(trained(tmp_path, 10)[1], strict=False).missing_keys == []
    again, expected, inputs = again.eval(), module.eval(), rows(Normalized, 7, seed=2)
    assert again(**inputs)["loss"].item() == pytest.approx(expected(**inputs)["loss"].item(), rel=1e-3)


@pytest.mark.parametrize("model, options, frozen", [
    (Frozen, (), {"body.0.weight", "body.0.bias", "body.2.weight"}),
    (Classifier, ("--trainable", "head.*", "--trainable", "body.?.bias"), {"body.0.weight", "body.2.weight"}),
    (Frozen, ("--trainable", "body.0.*"), {"body.2.weight", "body.2.bias", "head.weight", "head.bias"}),
])
def test_frozen_parameters_keep_their_bits(model, options, frozen, tmp_path):
    module = traced(model, tmp_path)
    compiled(tmp_path, *options)
    before = copy.deepcopy(module.state_dict())
    for name, parameter in module.named_parameters():
        parameter.requires_grad_(name not in frozen)
    found = trained(tmp_path, 20)
    loaded = made(model)
    assert set(loaded.load_state_dict(found[1], strict=False).missing_keys) == frozen
    for name, parameter in loaded.named_parameters():
        assert torch.equal(parameter, before[name]) == (name in frozen), name
    optimizer = torch.optim.AdamW([parameter for parameter in module.parameters() if parameter.requires_grad], lr=1e-2)
    check(found, module, train_eagerly(module, batches_of(tmp_path), 20, optimizer))


def test_a_loss_that_is_attached(tmp_path):
    class Regression(nn.Linear):
        def forward(self, x, target):
            return super().forward(x), target

    module, inputs = Regression(8, 2), {"x": torch.randn(4, 8), "target": torch.randn(4, 2)}
    files.write(tracing.trace(copy.deepcopy(module).train(), inputs, train=True), str(tmp_path / "model.pt"))
    compiled(tmp_path, "--loss", "mse(output.0, target)", "--optimizer", "sgd")
    report, weights = trained(tmp_path, 20, lr=0.1, data="model.inputs.safetensors")
    module.forward = lambda x, target: {"loss": functional.mse_loss(nn.Linear.forward(module, x), target)}
    check((report, weights), module,
          train_eagerly(module, [inputs], 20, torch.optim.SGD(module.parameters(), lr=0.1)))


class Rates(Classifier):
    """With inputs of names that a training step gives its own."""

    def forward(self, x, labels, learning_rate, step):
        return super().forward(x * learning_rate + step, labels)


class OneLoss(Classifier):
    """Gives a loss of one dimension, which autograd takes, too."""

    def forward(self, x, labels):
        return {"loss": super().forward(x, labels)["loss"].reshape(1)}


class Doubles(Classifier):
    def __init__(self):
        super().__init__()
        self.double()

    def forward(self, x, labels):
        return super().forward(x.double(), labels)


class Counts(Classifier):
    """Writes to buffers of names that a training step gives its own states."""

    def __init__(self):
        super().__init__()
        self.register_buffer("loss", torch.zeros(()))
        self.grad = nn.Module()
        self.grad.head = nn.Module()
        self.grad.head.register_buffer("weight", torch.zeros(()))

    def forward(self, x, labels):
        found = super().forward(x, labels)
        self.loss += found["loss"].detach()
        self.grad.head.weight += 1
        return found


class Repeats(Classifier):
    """Uses a weight ten times."""

    def __init__(self):
        super().__init__()
        self.wide = nn.Linear(8, 600)
        self.square = nn.Linear(600, 600, bias=False)
        self.narrow = nn.Linear(600, 8)

    def forward(self, x, labels):
        x = self.wide(x)
        for _ in range(10):
            x = x + self.square(x).tanh() / 10
        return super().forward(self.narrow(x), labels)


class Narrow(Classifier):
    """In bfloat16, with sums of gradients in float32."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(8, 600), nn.GELU(), nn.Linear(600, 600), nn.GELU(), nn.Linear(600, 32))
        self.bfloat16()

    def forward(self, x, labels):
        return super().forward(x.bfloat16(), labels)


@pytest.mark.parametrize("model", [Rates, OneLoss, Doubles, Counts, Repeats])
def test_other_models(model, tmp_path):
    module = made(model)
    inputs = rows(model, BATCH)
    if model is Rates:
        inputs.update(learning_rate=torch.tensor(2.0), step=torch.tensor(0.5))
    files.write(tracing.trace(copy.deepcopy(module), inputs, train=True), str(tmp_path / "model.pt"))
    compiled(tmp_path)
    expected = train_eagerly(module, [inputs], 20, torch.optim.AdamW(module.parameters(), lr=1e-2))
    check(trained(tmp_path, 20, data="model.inputs.safetensors"), module, expected)


# The same bits


@pytest.fixture(scope="module")
def classifier(tmp_path_factory):
    """A folder with model.plan, which trains with AdamW, and data.safetensors."""
    folder = tmp_path_factory.mktemp("classifier")
    traced(Classifier, folder)
    compiled(folder)
    return folder


def results(folder, steps, *options, output="weights.safetensors", **more):
    """All that a training says of its steps, and the file it writes."""
    report, _ = trained(folder, steps, *options, output=output, **more)
    numbers = [report[name] for name in ("losses", "gradient_norms", "learning_rates")]
    return numbers, (folder / output).read_bytes()


@pytest.mark.parametrize("model", [Classifier, Normalized, Drops])
def test_two_runs_give_the_same_bits(model, tmp_path):
    traced(model, tmp_path)
    compiled(tmp_path)
    plan = {path: path.read_bytes() for path in (tmp_path / "model.plan").iterdir()}
    assert results(tmp_path, 20, "--seed", 7) == results(tmp_path, 20, "--seed", 7)
    assert {path: path.read_bytes() for path in (tmp_path / "model.plan").iterdir()} == plan
    if model is Drops:
        assert results(tmp_path, 20, "--seed", 8) != results(tmp_path, 20, "--seed", 7)


def put(data, folder, name="given.safetensors"):
    save_file({key: tensor.contiguous() for key, tensor in data.items()}, folder / name)
    return folder / name


def with_nan(folder, batch, name="nan.safetensors"):
    """The name of data with a batch of NaN in place of batch `batch`."""
    data = load_file(folder / "data.safetensors")
    data["x"][batch * BATCH:(batch + 1) * BATCH] = float("nan")
    save_file(data, folder / name)
    return name


@pytest.mark.parametrize("model, optimizer, shape", [
    (Normalized, "sgd(momentum=0.9)", "cosine"), (Normalized, "adamw", "constant"), (Normalized, "adamw", "linear"),
    (Drops, "adamw", "cosine"), (Classifier, "sgd", "constant")])
def test_resumed(model, optimizer, shape, tmp_path):
    """A training that fails after its checkpoint goes on as if it had not."""
    traced(model, tmp_path)
    compiled(tmp_path, "--optimizer", optimizer, "--clip-norm", "1")
    save_file(rows(model, BATCH * 20), tmp_path / "data.safetensors")
    options = ("--lr-schedule", shape, "--warmup", "12")
    numbers, weights = results(tmp_path, 20, *options, "--checkpoint", "at_once.safetensors")
    stopped = cleave("train", "model.plan", "--data", with_nan(tmp_path, 12), "--steps", 20, "--lr", "1e-2", *options,
                     "--checkpoint", "half.safetensors", "--checkpoint-every", 10, cwd=tmp_path, status=1)
    assert "step 13: the loss is nan" in stopped.err
    assert load_file(tmp_path / "half.safetensors")["steps"] == 10
    resumed, same_weights = results(tmp_path, 20, *options, "--checkpoint", "half.safetensors", "--resume")
    assert resumed == [each[10:] for each in numbers] and same_weights == weights
    assert (tmp_path / "half.safetensors").read_bytes() == (tmp_path / "at_once.safetensors").read_bytes()


def test_resumed_at_the_end(classifier, tmp_path):
    checkpoint = tmp_path / "all.safetensors"
    _, weights = results(classifier, 3, "--checkpoint", checkpoint)
    before = checkpoint.read_bytes()
    report, same_weights = trained(classifier, 3, "--checkpoint", checkpoint, "--resume")
    assert report["losses"] == [] and report["steps"] == 3
    assert (classifier / "weights.safetensors").read_bytes() == weights and checkpoint.read_bytes() == before


def test_notes(trace_model):
    """Of dropout in a training, and of a model that was saved in evaluation mode; nothing of tensor-parallel ranks."""
    config = ("hf:gpt2", "--config", "n_layer=1,n_embd=16,n_head=2,vocab_size=50,n_positions=16", "--batch", 2, "--seq", 8)
    said = {}
    for mode, options in {"train": ("--train",), "eval": ()}.items():
        model = trace_model(*config, *options)
        loss = () if options else ("--loss", "cross_entropy(output.logits, input_ids, shift=true)")
        said[mode] = cleave("compile", model.path, "--inputs", model.inputs, "--train", *loss, "-o",
                            model.path.parent / "noted.plan").out
    assert "draws random numbers, other ones than PyTorch; of train, each --seed gives its own" in said["train"]
    assert "evaluation mode" not in said["train"] and "tensor-parallel" not in said["train"]
    assert "the model was saved in evaluation mode: dropouts are off" in said["eval"]


# Other commands


def test_run_takes_steps(classifier, tmp_path):
    batch = batches_of(classifier)[0]

    def last_loss(steps, rate):
        given = put({**batch, "learning_rate": torch.tensor(rate), "step": torch.tensor(1.0)}, tmp_path)
        cleave("run", classifier / "model.plan", "--inputs", given, "--repeat", steps,
               "--outputs", tmp_path / "found.safetensors")
        found = load_file(tmp_path / "found.safetensors")
        assert set(found) == {"loss", "grad_norm"}
        return found["loss"].item()

    expected = made(Classifier)(**batch)["loss"].item()
    assert last_loss(3, rate=0.0) == pytest.approx(expected, rel=1e-5)
    assert last_loss(20, rate=1e-2) < last_loss(5, rate=1e-2) < expected


def test_run_begins_with_the_weights_of_the_plan(classifier, tmp_path):
    batch = batches_of(classifier)[0]
    given = put({**batch, "learning_rate": torch.tensor(1e-2), "step": torch.tensor(1.0)}, tmp_path)
    cleave("run", classifier / "model.plan", "--inputs", given, "--outputs", tmp_path / "found.safetensors")
    expected = made(Classifier)(**batch)["loss"].item()
    assert load_file(tmp_path / "found.safetensors")["loss"].item() == pytest.approx(expected, rel=1e-5)
