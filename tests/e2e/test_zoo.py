"""The models of docs/coverage.md: a part of `make zoo`, and that the tables are of these models."""

import sys

import pytest

from conftest import BIN, SOURCE, cleave

sys.path.insert(0, str(SOURCE / "tests/zoo"))
import picked  # noqa: E402
import rolling  # noqa: E402
import zoo  # noqa: E402


def facts(row):
    """What is the same on every machine, and whichever idioms are found: name, what it has, sizes, calls without semantics."""
    cells = [cell.strip() for cell in row.split("|")[1:5]]
    known, calls = cells[3].split(" of ")
    return [*cells[:3], int(calls) - int(known)]


@pytest.mark.parametrize("name", [name for name, entry in picked.ZOO.items() if entry.is_tested])
def test_answers_as_the_original(name, trace_model, tmp_path):
    model = trace_model(*picked.ZOO[name].trace)
    found = picked.compiled(name, model.path, lambda *arguments: cleave(*arguments).json(), tmp_path)
    assert facts(found.row(name)) == facts(picked.rows()[name]), "docs/coverage.md is out of date: make zoo"


def test_table_has_every_model():
    assert list(picked.rows()) == list(picked.ZOO), "docs/coverage.md is out of date: make zoo"


# Architecture, and the least share of matrices' bytes that tensor parallelism shards.
SHRUNK = {"hf:gpt2": 0.9, "hf:phi3": 0.9, "hf:bart": 0.9, "hf:vit": 0.9, "hf:convnext": 0.5, "hf:mixtral": 0.4, "hf:mamba": 0.5}


@pytest.mark.parametrize("name", SHRUNK)
def test_shrunk_by_rule_over_a_mesh(name, tmp_path):
    import architectures

    path = tmp_path / "model.pt"
    trace = architectures.trace(name, path)
    assert not trace.reason, trace.reason
    for mesh in ("tp=2", "pp=2,tp=2"):
        found = zoo.compiled(zoo.Cleave(BIN), path, mesh, name)
        assert not found["reason"], f"--mesh {mesh}: {found['reason']}"
        assert found["sharded"] >= SHRUNK[name]
        assert found["error"] <= found["allowed"] <= 1e-4
    found = rolling.rolled(BIN / "rollModel", path)
    assert not found["reason"] and not found["failures"], rolling.summary([found])
    assert found["rolled"] == found["groups"] > 10


def test_counts_collectives_of_repeated_modules():
    names = ["embed.weight", *(f"h.{layer}.mlp.{part}.weight" for layer in range(2) for part in ("up", "down")), "head.0.weight"]
    weights = [{"name": name, "role": "parameter", "shape": [4, 6], "style": "colwise" if "h." in name else "replicate"}
               for name in names]
    collectives = [{"module_path": path} for path in ("embed", "h.0.mlp.down", "h.1.mlp.down", "head.0")]
    found = zoo.counted({"weights": weights, "collectives": collectives, "replicated_ops": [], "calls": 9})
    assert found["layers"] == 2 and found["layer_collectives"] == 2 and found["collectives"] == 4
    assert found["sharded"] == pytest.approx(4 / 6)


def test_shrinks_configurations_by_what_fields_are_called():
    import shrinking
    from transformers import CLIPConfig, MixtralConfig, Zamba2Config

    way = shrinking.WAYS[0]
    mixtral = shrinking.shrink(MixtralConfig(), way)
    assert (mixtral.num_attention_heads, mixtral.num_key_value_heads, mixtral.hidden_size) == (12, 3, 96)
    assert (mixtral.num_hidden_layers, mixtral.num_local_experts, mixtral.vocab_size) == (2, 4, 504)
    assert sorted(shrinking.shrink(Zamba2Config(), way).layers_block_type) == ["hybrid", "linear_attention"]
    clip = shrinking.shrink(CLIPConfig(), way)
    assert (clip.text_config.hidden_size, clip.vision_config.image_size, clip.vision_config.patch_size) == (96, 128, 32)


def test_groups_failures_by_what_they_say():
    reasons = ["h.0.attn: aten.view fails on 12 elements", "model.layers.7.mixer: aten.view fails on 9 elements"]
    assert zoo.pattern(reasons[0]) == zoo.pattern(reasons[1]) == "…: aten.view fails on N elements"
