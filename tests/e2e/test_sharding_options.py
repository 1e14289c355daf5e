"""Ranks that share tensors, with other options: micro-batches, captured values, and which weights are split."""

import json

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from conftest import cleave, compile_refused


def test_microbatches_give_the_same_bits(compiler):
    """Of whole numbers, whose sums are exact: products of few rows may have another order of sums than those of many."""
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(6, 9), nn.ReLU(), nn.Linear(9, 6))
    for parameter in module.parameters():
        nn.init.uniform_(parameter, -9, 9)
        parameter.data.round_()
    x = torch.randint(-8, 9, (16, 6)).float()
    for mesh in ("pp=2", "pp=2,tp=2", "tp=3"):
        one, four = (compiler.run(module, "--mesh", mesh, "--microbatches", count, input=x)["output"] for count in "14")
        cleave("run", "model.plan", "--inputs", "model.inputs.safetensors", "--outputs", "again.safetensors",
               cwd=compiler.folder)
        assert torch.equal(one, four), mesh
        assert torch.equal(four, load_file(compiler.folder / "again.safetensors")["output"])


def test_captured_values_stay(tiny_model, tmp_path):
    """Also those that are split: a plan over ranks has the points that one without has, of the whole values."""
    model, pattern = tiny_model("gpt2"), "transformer.h.*.mlp.c_fc"
    points = []
    for mesh in ("pp=1", "tp=2"):
        cleave("compile", model.path, "--inputs", model.inputs, "--mesh", mesh, "--capture-points", pattern, "--verify",
               "-o", tmp_path / "a.plan")
        found = cleave("inspect", tmp_path / "a.plan", "--json").json()["capture_points"]
        points.append([point for point in found if point["path"].endswith(".mlp.c_fc")])
    assert len(points[0]) == 4
    assert {point.pop("split_dim") for point in points[0]} == {None}
    assert {point.pop("split_dim") for point in points[1]} != {None}
    assert points[0] == points[1]


@pytest.mark.parametrize("options, status, words", [
    (("--shard", "h.*.c_fcc=colwise"), 1, "matches no weight"),
    (("--shard", "transformer.h.0.mlp.c_fcc=colwise"), 1, "did you mean transformer.h.0.mlp.c_fc"),
    (("--shard", "transformer.h.*=colwis"), 2, "did you mean colwise?"),
    (("--shard", "transformer.h.*"), 2, "expected PATTERN=STYLE"),
    (("--shard", "=colwise"), 2, "found pattern"),
    (("--shard", "transformer.h[=colwise"), 2, "found pattern"),
    (("--shard-file", "no.json"), 1, "no.json"),
    (("--shard-file", "words.json"), 1, "expected a JSON object"),
    (("--shard-file", "deep.json"), 1, "more than 8 levels of arrays and objects"),
    (("--shard-file", "twice.json"), 1, 'the key "a" is given twice'),
    (("--shard-file", "large.json"), 1, "at most 1 MiB"),
    (("--shard-file", "."), 1, "no regular file"),
    (("--shard-file", "list.json"), 1, "expected an object"),
    (("--shard-file", "number.json"), 1, "expected a style in quotes"),
    (("--shard-file", "style.json"), 1, "did you mean rowwise?"),
])
def test_what_users_say_wrong(options, status, words, model):
    for name, content in {"list": [], "number": {"a": 1}, "style": {"a": "rowise"}}.items():
        (model.parent / f"{name}.json").write_text(json.dumps(content))
    (model.parent / "words.json").write_text("colwise")
    (model.parent / "deep.json").write_text(200_000 * "[")
    (model.parent / "twice.json").write_text('{"a": "rowwise", "a": "colwise"}')
    (model.parent / "large.json").write_text(" " * (2**20 + 1))
    assert words in compile_refused(model, "--mesh", "tp=2", *options, "--devices", 2, status=status)


def test_nothing_to_split_over(model):
    assert "nothing to split over" in compile_refused(model, "--shard", "transformer.*=colwise", status=2)
