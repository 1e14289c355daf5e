"""What `cleave compile --train` and `cleave train` refuse: options, patterns, files, plans, checkpoints."""

import pytest
import torch
from safetensors.torch import load_file

from conftest import cleave, refused
from training_modules import Classifier, put, traced, trained

pytestmark = pytest.mark.usefixtures("one_thread")


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
