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


class Logarithm(nn.Module):
    def forward(self, x):
        return x.log()


class Logarithms(Classifier):
    """Of numbers below 0 it makes NaN."""

    def __init__(self):
        super().__init__()
        self.body.insert(0, Logarithm())


SIZES = {Normalized: (3, 8, 8)}


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
    assert report["gradient_norms"] == pytest.approx(norms, rel=1e-3)
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


@pytest.mark.parametrize("optimizer", ["adamw", "sgd(momentum=0.9)"])
def test_batch_norm(optimizer, tmp_path):
    module = traced(Normalized, tmp_path)
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


# Data


def put(data, folder, name="given.safetensors"):
    save_file({key: tensor.contiguous() for key, tensor in data.items()}, folder / name)
    return folder / name


def test_batches_follow_one_another_and_begin_again(classifier, tmp_path):
    """A rate of 0 leaves the weights as they are."""
    losses = trained(classifier, 2 * BATCHES + 1, lr=0)[0]["losses"]
    module = made(Classifier)
    expected = [module(**batch)["loss"].item() for batch in batches_of(classifier)]
    assert losses == pytest.approx(expected + expected + expected[:1], rel=1e-5)
    assert losses[:BATCHES] == losses[BATCHES:-1] and len(set(losses)) == BATCHES


def test_rows_that_fill_no_batch_are_left_out(classifier, tmp_path):
    data = load_file(classifier / "data.safetensors")
    whole = put({name: tensor[:BATCH * BATCHES] for name, tensor in data.items()}, tmp_path)
    assert data["x"].shape[0] > BATCH * BATCHES
    assert results(classifier, 12, data=whole) == results(classifier, 12)


def test_an_input_may_be_the_same_in_each_step(classifier, tmp_path):
    data = load_file(classifier / "data.safetensors")
    labels = data["labels"][:BATCH]
    once = put({"x": data["x"], "labels": labels}, tmp_path, "once.safetensors")
    repeated = put({"x": data["x"], "labels": labels.repeat(BATCHES)}, tmp_path, "repeated.safetensors")
    assert results(classifier, 12, data=once) == results(classifier, 12, data=repeated)


BAD_DATA = {
    "x: found Double, expected Float": lambda data: {**data, "x": data["x"].double()},
    "labels: found Int, expected Long": lambda data: {**data, "labels": data["labels"].int()},
    "input labels is missing": lambda data: {"x": data["x"]},
    "tensor step is no input of a step, which takes x, labels": lambda data: {**data, "step": torch.tensor(1.0)},
    r"tensor a\x0aerror: b is no input": lambda data: {**data, "a\nerror: b": torch.ones(1)},
    "x: found [3, 8], expected [4, 8] with as many or more in dimension 0": lambda data: {**data, "x": data["x"][:3]},
    "x: found [23, 7], expected [4, 8]": lambda data: {**data, "x": data["x"][:, :7]},
    "x: found [0, 8], expected [4, 8]": lambda data: {**data, "x": data["x"][:0]},
    "labels: found [], expected [4]": lambda data: {**data, "labels": torch.tensor(1)},
    "labels: found rows for 2 batches, other inputs have 5": lambda data: {**data, "labels": data["labels"][:8]},
}


@pytest.mark.parametrize("error", BAD_DATA)
def test_bad_data(error, classifier, tmp_path):
    data = put(BAD_DATA[error](load_file(classifier / "data.safetensors")), tmp_path)
    found = refused(classifier, "train", "model.plan", "--data", data, "--steps", 3, "--lr", 1, "--json",
                    "--output", "no.safetensors", "--checkpoint", "nor.safetensors")
    assert f"{data}: {error}" in found


# What is not finite


def test_a_step_that_is_not_finite_ends_the_training(tmp_path):
    traced(Logarithms, tmp_path)
    compiled(tmp_path)
    trained(tmp_path, 2, "--checkpoint", "two.safetensors", output="two_weights.safetensors")
    data = load_file(tmp_path / "data.safetensors")
    data["x"][2 * BATCH + 1, 3] = -1
    save_file(data, tmp_path / "data.safetensors")
    options = ("--data", "data.safetensors", "--steps", 5, "--lr", "1e-2", "--output", "weights.safetensors")
    found = cleave("train", "model.plan", *options, "--checkpoint", "last.safetensors", "--checkpoint-every", 1, cwd=tmp_path,
                   status=1)
    [line] = found.err.splitlines()
    assert line.startswith("error: step 3: the loss is nan, the norm of its gradients nan") and not found.out
    assert "body.0: aten::log: makes a NaN" in line
    assert (tmp_path / "last.safetensors").read_bytes() == (tmp_path / "two.safetensors").read_bytes()
    assert not (tmp_path / "weights.safetensors").exists()


def test_steps_that_are_not_finite_may_be_skipped(classifier):
    data = classifier / with_nan(classifier, 2)
    _, before = trained(classifier, 2)
    report, after = trained(classifier, 3, "--skip-nonfinite", data=data)
    assert before.keys() == after.keys() and all(torch.equal(before[name], after[name]) for name in before)
    assert report["losses"][2] is None and report["gradient_norms"][2] is None and report["skipped_steps"] == [3]
    report, _ = trained(classifier, 12, "--skip-nonfinite", data=data)
    assert report["skipped_steps"] == [3, 8] and report["steps"] == 12
    assert [step for step, loss in enumerate(report["losses"], 1) if loss is None] == [3, 8]


# What is refused


@pytest.mark.parametrize("options, error", [
    (("--train", "--optimizer", "lion"), "--optimizer lion: expected sgd, adam or adamw"),
    (("--train", "--optimizer", ""), "expected sgd, adam or adamw"),
    (("--train", "--optimizer", "adamw(momentum=0.9)"), 'found the option "momentum", which adamw does not have'),
    (("--train", "--optimizer", "sgd(beta1=0.9)"), 'found the option "beta1", which sgd does not have'),
    (("--train", "--optimizer", "adamw(beta1=1)"), 'option beta1: found "1", expected a number from 0 to below 1'),
    (("--train", "--optimizer", "adam(beta2=-0.1)"), 'option beta2: found "-0.1", expected a number from 0'),
    (("--train", "--optimizer", "adam(beta2=nan)"), 'option beta2: found "nan", expected a number from 0'),
    (("--train", "--optimizer", "adam(eps=-1)"), 'option eps: found "-1", expected a number that is not negative'),
    (("--train", "--optimizer", "sgd(momentum)"), 'option momentum: found ""'),
    (("--train", "--optimizer", "sgd(momentum=0.9"), "expected options in parentheses"),
    (("--train", "--optimizer", "sgd(momentum=0.9, momentum=0.8)"), "option momentum is given twice"),
    (("--train", "--optimizer", "sgd(nesterov=true)"), "nesterov requires a momentum"),
    (("--train", "--optimizer", "sgd(momentum=0.9, nesterov=yes)"), 'option nesterov: found "yes"'),
    (("--train", "--optimizer", "a'} ,b{\nerror: c"), r"--optimizer a'} ,b{\x0aerror: c: expected sgd"),
    (("--train", "--clip-norm", "0"), "--clip-norm"),
    (("--train", "--clip-norm", "-1"), "--clip-norm"),
    (("--train", "--clip-norm", "nan"), "--clip-norm"),
    (("--train", "--gradients"), "excludes"),
    (("--train", "--devices", "2"), "--train: found several devices, expected one"),
    (("--optimizer", "adam"), "--optimizer requires --train"),
    (("--gradients", "--optimizer", "adam"), "--optimizer requires --train"),
    (("--gradients", "--clip-norm", "1"), "--clip-norm requires --train"),
    (("--no-decay", "*.bias"), "--no-decay requires --train"),
    (("--loss", "loss"), "--loss requires --gradients or --train"),
    (("--trainable", "head.*"), "--trainable requires --gradients or --train"),
])
def test_wrong_options_of_compile(options, error, classifier):
    found = refused(classifier, "compile", "model.pt", "--inputs", "model.inputs.safetensors", *options,
                    "-o", "no.plan", status=2)
    assert error in found


@pytest.mark.parametrize("option", ["--no-decay", "--trainable", "--recompute"])
@pytest.mark.parametrize("pattern", ["", "\\", "a\nb", "[", "(", "a'b", 'a"b', "a b", "a}", "{a", "a} b{"])
def test_patterns_that_are_none(option, pattern, classifier):
    found = refused(classifier, "compile", "model.pt", "--inputs", "model.inputs.safetensors", "--train", option, pattern,
                    "-o", "no.plan", status=2, timeout=60)
    assert f"{option}: found " in found and "expected a name with * and ?" in found


@pytest.mark.parametrize("option", ["--no-decay", "--trainable", "--recompute"])
def test_patterns_that_match_nothing(option, classifier):
    found = refused(classifier, "compile", "model.pt", "--inputs", "model.inputs.safetensors", "--train", option, "nothing.*",
                    "-o", "no.plan", timeout=60)
    assert "match" in found


@pytest.mark.parametrize("options, error", [
    (("--checkpoint-every", 2), "--checkpoint-every: found no --checkpoint"),
    (("--resume",), "--resume: found no --checkpoint"),
    (("--warmup", 11), "--warmup 11: expected at most --steps 10"),
    (("--lr", "-1"), "--lr"),
    (("--lr", "nan"), "--lr"),
    (("--lr-schedule", "step"), "--lr-schedule"),
    (("--output", "a.safetensors", "--checkpoint", "a.safetensors"), "is the file of --checkpoint"),
    (("--output", "./a.safetensors", "--checkpoint", "a.safetensors"), "is the file of --checkpoint"),
])
def test_wrong_options_of_train(options, error, classifier):
    rate = () if "--lr" in options else ("--lr", "1e-2")
    found = refused(classifier, "train", "model.plan", "--data", "data.safetensors", "--steps", 10, *rate, *options,
                    status=2)
    assert error in found


@pytest.mark.parametrize("options, error", [
    (("--output", "data.safetensors"), "--output data.safetensors: is the file of --"),
    (("--checkpoint", "data.safetensors"), "--checkpoint data.safetensors: is the file of --"),
    (("--output", "data.safetensors"), "is the file of --data"),
    (("--output", "model.plan/weights.safetensors"), "is in the plan"),
    (("--checkpoint", "no_folder/all.safetensors"), "No such file or directory"),
])
def test_files_that_cannot_be_written(options, error, classifier):
    found = refused(classifier, "train", "model.plan", "--data", "data.safetensors", "--steps", 3, "--lr", 1, *options)
    assert error in found


def test_plans_that_do_not_train(tmp_path):
    traced(Classifier, tmp_path)
    for options in ((), ("--gradients",)):
        cleave("compile", "model.pt", "--inputs", "model.inputs.safetensors", *options, "-o", "other.plan",
               cwd=tmp_path)
        found = refused(tmp_path, "train", "other.plan", "--data", "data.safetensors", "--steps", 3, "--lr", 1)
        assert found == "error: other.plan: this plan does not train; make one with cleave compile --train"


def test_recomputation_within_a_limit_of_memory(trace_model):
    """As few blocks as suffice; the training keeps within the limit, with the same losses."""
    config = "n_layer=6,n_embd=64,n_head=4,vocab_size=50,n_positions=64"
    folder = trace_model("hf:gpt2", "--config", config, "--batch", 8, "--seq", 64, "--train").path.parent
    losses = []
    for limit, recomputed in (("40MB", None), ("20MB", "transformer.h.0 to transformer.h.2 (3 modules)"),
                              ("14MB", "transformer.h.0 to transformer.h.4 (5 modules)")):
        said = cleave("compile", "model.pt", "--inputs", "model.inputs.safetensors", "--train", "--device-memory", limit, "-o",
                      "limited.plan", cwd=folder)
        assert recomputed in said.out if recomputed else "recomputes" not in said.out
        _, measured, found, _ = peaks("limited.plan", folder)
        assert measured <= int(limit[:-2]) * 1e6
        losses.append(found)
    assert losses[0] == losses[1] == losses[2]


@pytest.mark.parametrize("options, error", [
    (("--device-memory", "12MB"), "use a smaller batch, micro-batches, or more memory"),
    (("--device-memory", "100kB"), "its device has 100000; use a smaller batch, micro-batches, or more memory"),
    (("--device-memory", "14MB", "--recompute", "transformer.h.0"), "leave out --recompute, so that modules are chosen"),
])
def test_too_little_memory(options, error, trace_model):
    config = "n_layer=6,n_embd=64,n_head=4,vocab_size=50,n_positions=64"
    folder = trace_model("hf:gpt2", "--config", config, "--batch", 8, "--seq", 64, "--train").path.parent
    said = cleave("compile", "model.pt", "--inputs", "model.inputs.safetensors", "--train", *options, "-o", "none.plan", cwd=folder,
                  status=1)
    assert error in said.err and not (folder / "none.plan").exists()


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


def without(checkpoint, name):
    return {each: tensor for each, tensor in checkpoint.items() if each != name}


BAD_CHECKPOINTS = {
    "weight 'head.bias' is missing": lambda all: without(all, "weight/head.bias"),
    "found 7 weights, the plan trains 6": lambda all: {**all, "weight/tail.bias": torch.ones(5)},
    "weight 'head.bias': found Float[6], expected Float[5]": lambda all: {**all, "weight/head.bias": torch.ones(6)},
    "weight 'head.bias': found Half[5], expected Float[5]":
        lambda all: {**all, "weight/head.bias": torch.ones(5).half()},
    "state 'head.bias.exp_avg': found Float[6], expected Float[5]":
        lambda all: {**all, "state/head.bias.exp_avg": torch.ones(6)},
    "state 'head.bias.momentum_buffer' is not in the plan":
        lambda all: {**all, "state/head.bias.momentum_buffer": torch.ones(5)},
    "found no number of steps": lambda all: without(all, "steps"),
    "found no number of steps, expected a checkpoint": lambda all: {**all, "steps": torch.tensor(-1)},
    "found 'steps', expected": lambda all: {**all, "steps": torch.tensor(3.0)},
    "found 'head.bias', expected weights, states and steps": lambda all: {"head.bias": torch.ones(5)},
    "state 'head.bias.exp_avg' is missing": lambda all: without(all, "state/head.bias.exp_avg"),
    r"found 'a\x0aerror: b', expected": lambda all: {**all, "a\nerror: b": torch.ones(1)},
}


@pytest.fixture(scope="module")
def checkpoint(classifier):
    trained(classifier, 5, "--checkpoint", "good.safetensors")
    return classifier / "good.safetensors"


def resume_refused(folder, checkpoint):
    before = checkpoint.read_bytes()
    found = refused(folder, "train", "model.plan", "--data", "data.safetensors", "--steps", 9, "--lr", 1, "--json",
                    "--checkpoint", checkpoint, "--resume", "--output", "no.safetensors")
    assert checkpoint.read_bytes() == before
    return found


@pytest.mark.parametrize("error", BAD_CHECKPOINTS)
def test_bad_checkpoints(error, classifier, checkpoint, tmp_path):
    bad = put(BAD_CHECKPOINTS[error](load_file(checkpoint)), tmp_path)
    assert f"{bad}: {error}" in resume_refused(classifier, bad)


def test_truncated_checkpoints(classifier, checkpoint, tmp_path):
    data, cut = checkpoint.read_bytes(), tmp_path / "cut.safetensors"
    for size in (0, 7, 100, len(data) // 2, len(data) - 1):
        cut.write_bytes(data[:size])
        assert f"cannot read '{cut}'" in resume_refused(classifier, cut)


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


def peaks(plan, folder):
    """Bytes on the device, as predicted and as measured."""
    predicted = cleave("inspect", plan, "--format", "json", cwd=folder).json()["stages"][0]["predicted_peak_bytes"]
    report = cleave("train", plan, "--data", "model.inputs.safetensors", "--steps", 3, "--lr", 1e-3, "--json",
                    "--output", "out.safetensors", cwd=folder).json()
    return predicted, report["devices"][0]["peak_bytes"], report["losses"], load_file(folder / "out.safetensors")


@pytest.mark.parametrize("model", [Repeats, Narrow])
def test_predicted_memory(model, tmp_path):
    traced(model, tmp_path)
    cleave("compile", "model.pt", "--inputs", "model.inputs.safetensors", "--train", "--optimizer", "sgd", "-o", "model.plan",
           cwd=tmp_path)
    predicted, measured, *_ = peaks("model.plan", tmp_path)
    assert abs(predicted - measured) <= 0.03 * measured


def test_recomputation(trace_model):
    """The same bits, also of dropout, in less memory, which is predicted to 3 %."""
    config = "n_layer=6,n_embd=64,n_head=4,vocab_size=50,n_positions=64"
    folder = trace_model("hf:gpt2", "--config", config, "--batch", 8, "--seq", 64, "--train").path.parent
    found = {}
    for name, options in {"none": (), "full": ("--recompute", "full"), "one": ("--recompute", "transformer.h.3")}.items():
        cleave("compile", "model.pt", "--inputs", "model.inputs.safetensors", "--train", *options, "-o", f"{name}.plan",
               cwd=folder)
        found[name] = peaks(f"{name}.plan", folder)
    for predicted, measured, losses, weights in found.values():
        assert abs(predicted - measured) <= 0.03 * measured
        assert losses == found["none"][2]
        assert all(torch.equal(weights[key], tensor) for key, tensor in found["none"][3].items())
    # Of six blocks, the activations of one are there at a time.
    assert found["full"][1] < 0.6 * found["none"][1]
    assert found["full"][1] < found["one"][1] < found["none"][1]
