"""What a session keeps between requests: `run --stream`, `--repeat`, and the calls of `verify`."""

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from conftest import cleave
from streams import CALLS, Counts, X


def test_repetitions_begin_with_the_state_that_was_saved(streams):
    streams.check(Counts(), CALLS, "--devices", "1")
    folder = streams.compiler.folder
    for options in [[], ["--repeat", "3"]]:
        cleave("run", "model.plan", "--inputs", "model.inputs.safetensors", "--outputs", "outputs.safetensors",
               *options, cwd=folder)
        torch.testing.assert_close(load_file(folder / "outputs.safetensors")["output"], X * 4)
        torch.testing.assert_close(streams.run(*options, x=CALLS)["output"][1], CALLS[1] * 5)


def test_verify_calls_four_times(compiler):
    compiler.compile(torch.jit.script(Counts()), x=X)
    report = cleave("verify", "model.plan", "--model", "model.pt", "--json", cwd=compiler.folder).json()
    assert [output["call"] for output in report["outputs"]] == [1, 2, 3, 4] and report["ok"]
    assert "same output, call 2: " in cleave("verify", "model.plan", "--model", "model.pt", cwd=compiler.folder).out


def test_a_stream_of_a_model_without_state(streams):
    streams.check(nn.Linear(6, 3).eval().requires_grad_(False), CALLS, "--devices", "1")


@pytest.mark.parametrize("inputs, words", [
    ({"x": torch.zeros(())},
     ["input x: found float32[], expected float32[4, 6] of each request of --stream", "3 dimensions"]),
    ({"x": X}, ["input x: found float32[4, 6], expected float32[4, 6] of each request of --stream along one more dimension "
                "in front; stack the requests, or leave --stream out"]),
    ({"x": CALLS[:0]}, ["input x: found float32[0, 4, 6]", "at least one request"]),
])
def test_a_stream_that_is_none(streams, inputs, words):
    streams.check(Counts(), CALLS)
    save_file(inputs, streams.compiler.folder / "bad.safetensors")
    error = cleave("run", "model.plan", "--inputs", "bad.safetensors", "--stream", status=1,
                   cwd=streams.compiler.folder).err
    assert error.count("\n") == 1 and all(word in error for word in words), error
