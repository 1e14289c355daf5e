"""`cleave train`: the batches it takes from its data, and steps whose loss or gradients are not finite."""

import pytest
import torch
from safetensors.torch import load_file, save_file

from conftest import cleave, refused
from training_modules import (BATCH, BATCHES, Classifier, Logarithms, batches_of, compiled, made, put, results, traced, trained,
                              with_nan)

pytestmark = pytest.mark.usefixtures("one_thread")


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
