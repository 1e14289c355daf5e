"""cleave-trace holds a trace to its module at other sizes and with other values."""

import json
import math
import re

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from cleave_trace import cli, files, tracing
from cleave_trace.errors import TraceError
from cleave_trace.state import State
from cleave_trace.witnesses import collect, dimensions, projection
from traces import module, sizes, witnesses

UNLIMITED = 2**63 - 1


# Sizes -----------------------------------------------------------------------------------------------------------------


def loop(self, x):
    state = torch.zeros_like(x[:, 0])
    for position in range(x.shape[1]):
        state = torch.tanh(state + x[:, position])
    return state


def long_branch(self, x):
    return x * 2 if x.shape[1] > 64 else x * 3


def chunks(self, x):
    batch, length, width = x.shape
    return x.reshape(batch, length // 8, 8, width).softmax(2).reshape(batch, length, width)


def grows(self, x):
    return x.cumsum(1)


def test_a_loop_over_a_length_is_frozen():
    found, groups = witnesses(module(loop), torch.randn(3, 7, 4))
    assert (groups["x.1"].min, groups["x.1"].max) == (7, 7)
    assert "at 6" in groups["x.1"].below and "at 8 the trace differs from the module by" in groups["x.1"].above
    assert groups["x.0"].max == UNLIMITED
    assert any(note.startswith("seq stays 7: at ") for note in found.notes)


@pytest.mark.parametrize("mask", [-1e4, -1e9, torch.finfo(torch.float32).min])
def test_masks_hide_nothing(mask):
    """Tolerances go by the values beside them."""
    def masked_loop(self, x):
        return loop(self, x).masked_fill(torch.arange(x.shape[2]) == 3, mask)

    def masked_item(self, x):
        return (x * x.sum().item()).masked_fill(torch.arange(x.shape[2]) == 3, mask)

    assert sizes(module(masked_loop), torch.randn(3, 7, 4))["x.1"] == (7, 7, 1)
    with pytest.raises(TraceError, match="different outputs when values of input x change"):
        witnesses(module(masked_item), torch.randn(3, 7, 4))


def test_a_maximum_over_a_loop_is_frozen():
    """Repeated inputs have the same maximum; longer ones must not."""
    def maximum(self, x):
        most = x[:, 0]
        for position in range(1, x.shape[1]):
            most = torch.maximum(most, x[:, position])
        return most

    assert sizes(module(maximum), torch.randn(3, 6, 4))["x.1"] == (6, 6, 1)


def test_a_branch_bounds_the_range_and_names_the_module():
    found, groups = witnesses(nn.Sequential(nn.Linear(4, 4), module(long_branch)), torch.randn(2, 100, 4))
    assert (groups["input.1"].min, groups["input.1"].max, groups["input.1"].where) == (65, UNLIMITED, "1")
    assert any(re.match(r"seq is at least 65: at 64 the trace differs .*; they diverge in module 1$", note) for note in found.notes)


def test_the_other_side_of_a_branch():
    assert sizes(module(long_branch), torch.randn(2, 16, 4))["x.1"] == (1, 64, 1)


def test_chunks_allow_multiples():
    group = witnesses(module(chunks), torch.randn(2, 32, 4))[1]["x.1"]
    assert (group.min, group.max, group.divisible_by) == (8, UNLIMITED, 8)
    assert "the module fails" in group.between


def test_a_loop_over_chunks_is_bounded_by_their_number():
    def split(self, x):
        return torch.cat([part.softmax(1) for part in x.split(8, 1)], 1)

    assert sizes(module(split), torch.randn(2, 30, 4))["x.1"] == (25, 32, 1)


def test_a_share_of_the_positions():
    """k of top-k follows the length in a trace only if it stays a size."""
    def top(self, x):
        return x.topk(int(x.shape[1] * 0.5), dim=1).values

    found = sizes(module(top), torch.randn(2, 12, 4))["x.1"]
    assert found == (12, 13, 1)


def test_a_table_of_positions_is_the_limit():
    def look_up(self, x):
        return x + self.places(torch.arange(x.shape[1]))

    group = witnesses(module(look_up, places=nn.Embedding(40, 4)), torch.randn(2, 12, 4))[1]["x.1"]
    assert (group.min, group.max) == (1, 40) and group.above.startswith("at 41 the module fails: IndexError")


def test_a_table_kept_in_python_is_put_back():
    def cached(self, x):
        length = str(x.shape[1])
        if length not in self.tables:
            self.tables[length] = torch.linspace(0, 1, int(x.shape[1]))
        return x + self.tables[length][None, :, None]

    made = module(cached, tables={})
    found, groups = witnesses(made, torch.randn(2, 12, 4))
    assert (groups["x.1"].min, groups["x.1"].max) == (12, 12)
    assert made.tables == {}


def test_a_written_buffer_is_put_back():
    def write(self, x):
        self.kept[:x.shape[0], :x.shape[1]] = x
        return self.kept[:x.shape[0], :x.shape[1]] * 2

    found, groups = witnesses(module(write, kept=torch.zeros(8, 16, 4)), torch.randn(2, 12, 4))
    assert groups["x.1"].max == 16 and groups["x.0"].max == 8


def test_state_restores_what_a_call_changes():
    made = module(grows, table=torch.arange(4.0), names=["a"], seen={"b": [1]})
    state = State(made)
    made.table.add_(1)
    made.names.append("c")
    made.seen["b"].append(2)
    made.new = 3
    assert state.has_changed()
    state.restore()
    assert (made.names, made.seen, hasattr(made, "new")) == (["a"], {"b": [1]}, False)
    assert torch.equal(made.table, torch.arange(4.0)) and not state.has_changed()


def test_one_size_only_is_said_once():
    def fixed(self, x):
        return x.reshape(2, 12, 4) * self.scale

    found, groups = witnesses(module(fixed, scale=torch.ones(2, 12, 4)), torch.randn(2, 12, 4))
    assert groups == {} and len(found.notes) == 1
    assert found.notes[0].startswith("no dimension of the inputs can be changed: batch stays 2: at ")


def test_equal_sizes_at_other_positions_are_joined():
    def attend(self, x, bias):
        return (x @ x.transpose(1, 2) + bias).softmax(-1) @ x

    found, groups = witnesses(module(attend), torch.randn(2, 9, 4), torch.randn(9, 9))
    assert groups["x.1"] is groups["bias.0"] is groups["bias.1"] and groups["x.1"].max == UNLIMITED


def test_two_lengths_are_two_groups():
    def cross(self, x, y):
        return (y @ x.transpose(1, 2)).softmax(-1) @ x

    found, groups = witnesses(module(cross), torch.randn(2, 9, 4), torch.randn(2, 6, 4))
    assert groups["x.1"] is not groups["y.1"] and groups["x.1"].max == groups["y.1"].max == UNLIMITED
    assert groups["x.0"] is groups["y.0"]


def test_nested_inputs_and_names_with_dots():
    def nested(self, x, past):
        return {"y.z": x + past[0]["k.v"], "rest": [past[1][0].cumsum(1)]}

    parts = torch.randn(3, 2, 9, 4)
    found, groups = witnesses(module(nested), parts[0], [{"k.v": parts[1]}, (parts[2],)])
    assert groups["x.1"] is groups["past.0.k.v.1"] is groups["past.1.0.1"] and groups["x.1"].max == UNLIMITED
    assert set(found.entries[0]["outputs"]) == {"output.y.z", "output.rest.0"}


class Sums(nn.Module):
    def forward(self, x):
        return x.cumsum(1)


def test_scripted_modules_have_witnesses():
    found, groups = witnesses(torch.jit.script(Sums()), torch.randn(2, 9, 4))
    assert (groups["x.1"].min, groups["x.1"].max) == (1, UNLIMITED) and len(found.entries) > 2


def test_a_scripted_module_with_state_has_one():
    class Adds(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("sum", torch.zeros(4))

        def forward(self, x):
            self.sum += x.sum(0)
            return x + self.sum

    found, groups = witnesses(torch.jit.script(Adds()), torch.randn(2, 4))
    assert [entry["name"] for entry in found.entries] == ["traced"] and groups == {}


def test_dropout_follows_its_seed():
    torch.manual_seed(0)
    made = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5)).train()
    found = collect.collect(tracing.trace(made, torch.randn(2, 4), train=True))
    assert found.dimensions[0].max == UNLIMITED and found.notes == []


# Values ----------------------------------------------------------------------------------------------------------------


def refusal(made, *example):
    with pytest.raises(TraceError) as raised:
        witnesses(made, *example)
    assert "pass --no-witnesses" in str(raised.value)
    return str(raised.value)


def test_an_item_is_refused():
    def scale(self, x):
        return x * x.sum().item()

    made = nn.Sequential(nn.Linear(4, 4), nn.Sequential(module(scale)))
    assert refusal(made, torch.randn(2, 4)).startswith("1.0: trace and module return different outputs when values of input")


def test_a_branch_by_sign_is_refused():
    def by_sign(self, x):
        return x * 2 if x.mean() > 0 else x * 3

    assert "values of input x change" in refusal(module(by_sign), torch.randn(2, 4))


def test_a_mask_that_is_looked_at_is_refused():
    def drop(self, x, mask):
        return x if mask.all() else x * mask[..., None]

    message = refusal(module(drop), torch.randn(2, 6, 4), torch.ones(2, 6, dtype=torch.bool))
    assert "values of input mask change (end hidden)" in message


def test_places_of_image_tokens():
    ids = torch.tensor([[3, 9, 9, 4, 5, 6], [7, 3, 9, 9, 4, 5]])

    def place(self, ids, image):
        return self.embed(ids).masked_scatter((ids == 9)[..., None], image)

    def place_in_python(self, ids, image):
        positions = torch.stack([torch.arange(6) - row.tolist().index(9) for row in ids])
        return self.embed(ids) + positions[..., None] + image.sum()

    embed = nn.Embedding(10, 4)
    assert "permuted" in [entry["name"] for entry in witnesses(module(place, embed=embed), ids, torch.randn(4, 4))[0].entries]
    assert "values of input ids change" in refusal(module(place_in_python, embed=embed), ids, torch.randn(4, 4))


# Options ----------------------------------------------------------------------------------------------------------------


def test_dynamic_names_what_varies_together():
    def add(self, x, y):
        return x.cumsum(1) + y.sum()

    found, groups = witnesses(module(add), torch.randn(2, 9), torch.randn(2, 9), dynamic=["x=batch,seq", "y=batch,_"])
    assert groups["x.0"] is groups["y.0"] and groups["x.0"].name == "batch"
    assert groups["x.1"] is not groups["y.1"] and groups["x.1"].name == "seq"


def test_two_names_are_two_sizes():
    """A branch on whether they are equal is noticed, although torch's guards say that they are."""
    def unequal(self, q, k):
        return (q * 3 if q.shape[1] != k.shape[1] else q) + k.mean(1, keepdim=True)

    named = ["q=batch,n,_", "k=batch,k,_"]
    _, groups = witnesses(module(unequal), torch.randn(4, 6, 8), torch.randn(4, 6, 8), dynamic=named)
    assert [(groups[dim].min, groups[dim].max) for dim in ("q.1", "k.1")] == [(6, 6)] * 2
    assert groups["q.0"].max == UNLIMITED


def test_a_named_dimension_with_a_limit_is_said():
    def embed(self, x):
        return x + self.table.weight[:x.shape[1]]

    found, _ = witnesses(module(embed, table=nn.Embedding(24, 4)), torch.randn(2, 8, 4), dynamic=["x=batch,seq,_"])
    assert [note for note in found.notes if note.startswith("seq is 1 to 24: at 25 the module fails: ")] == found.notes


def test_a_named_dimension_that_cannot_change_is_said():
    found, groups = witnesses(nn.Linear(4, 4), torch.randn(2, 4), dynamic=["input=batch,width"])
    assert [note for note in found.notes if note.startswith("width stays 4: at ")]
    assert (groups["input.1"].min, groups["input.1"].max) == (4, 4) and "the module fails" in groups["input.1"].why


@pytest.mark.parametrize("text, message", [
    ("y=batch", "no input y, expected one of x"),
    ("x=a,b,c", "found 3 names, expected 2, one for each dimension of x"),
    ("x=a", "found 1 name, expected 2, one for each dimension of x"),
    ("x=a,a", "a is 2 and 9 in the example inputs, expected one size"),
    ("x=4,seq", "dimension 0 of x is 2, found 4"),
    ("x=a b,_", 'found "a b", expected a name, a number or _'),
])
def test_wrong_dynamic(text, message):
    with pytest.raises(TraceError, match=re.escape(message)):
        dimensions.named_groups({"x": torch.zeros(2, 9)}, [text])


def test_inputs_of_ones_own(tmp_path):
    def rare(self, x):
        return x * 2 if x[0, 0] < 1e6 else x * 3

    save_file({"x": torch.full((2, 4), 2e6)}, tmp_path / "rare.safetensors")
    save_file({"x": torch.randn(5, 4)}, tmp_path / "other.safetensors")
    found, groups = witnesses(module(rare), torch.randn(2, 4), files=[tmp_path / "other.safetensors"])
    assert str(tmp_path / "other.safetensors") in [entry["name"] for entry in found.entries]
    with pytest.raises(TraceError, match="on --witness .*rare.safetensors: the trace differs from the module"):
        witnesses(module(rare), torch.randn(2, 4), files=[tmp_path / "rare.safetensors"])


def test_inputs_of_ones_own_at_another_size_restrict(tmp_path):
    """A size that no rule tries."""
    def odd(self, x):
        return x.cumsum(1) if "777" != str(int(x.shape[1])) else -x

    save_file({"x": torch.randn(2, 777)}, tmp_path / "w.safetensors")
    found, groups = witnesses(module(odd), torch.randn(2, 9), files=[tmp_path / "w.safetensors"])
    assert not groups["x.1"].allows(777)
    assert any("w.safetensors: the trace differs" in note for note in found.notes)


@pytest.mark.parametrize("tensors, message", [
    ({"y": torch.zeros(2, 4)}, "no input y"), ({}, "x is missing"),
    ({"x": torch.zeros(2, 4).long()}, "x is i64[2,4], expected f32[2,4]"), ({"x": torch.zeros(4)}, "x is f32[4]"),
])
def test_wrong_inputs_of_ones_own(tmp_path, tensors, message):
    save_file(tensors, tmp_path / "w.safetensors")
    with pytest.raises(TraceError, match=re.escape(message)):
        witnesses(module(lambda self, x: x + 1), torch.randn(2, 4), files=[tmp_path / "w.safetensors"])


# The file ----------------------------------------------------------------------------------------------------------------


def test_projection_by_hand():
    """2 blocks of 8,192 elements of which only three are not 0; signs of elements 0, 1 and 2 as splitmix64 gives them."""
    def splitmix64(z):
        mask = (1 << 64) - 1
        z = (z + 0x9E3779B97F4A7C15) & mask
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
        return z ^ (z >> 31)

    assert splitmix64(0) == 0xE220A8397B1DCDAF  # The reference implementation's first number of seed 0.
    signs = [-1.0 if splitmix64(index) & 1 else 1.0 for index in range(3)]
    value = torch.zeros(2, 8192)
    value[0, :3] = torch.tensor([1.0, 2.0, 4.0])
    value[1, 1], value[1, 2] = math.inf, -3.0
    found = projection.project(value, "k")
    assert found["k.shape"].tolist() == [2, 8192]
    scale = math.sqrt(8192)
    expected = [(signs[0] + 2 * signs[1] + 4 * signs[2]) / scale, -3 * signs[2] / scale]
    torch.testing.assert_close(found["k.projection"], torch.tensor(expected, dtype=torch.float64))
    assert found["k.nonfinite"].tolist() == [0, 1] and found["k.largest"].item() == 4.0
    positions = [splitmix64(1000003 + index) % value.numel() for index in range(64)]
    assert torch.equal(found["k.samples"], value.reshape(-1)[positions].double())


def test_projection_keeps_small_and_complex_outputs():
    assert torch.equal(projection.project(torch.arange(6).reshape(2, 3), "k")["k"], torch.arange(6).reshape(2, 3))
    assert projection.project(torch.ones(3, dtype=torch.complex64), "k")["k"].shape == (3, 2)
    assert projection.project(torch.ones(3000, dtype=torch.complex64), "k")["k.shape"].tolist() == [3000, 2]
    assert projection.project(torch.ones(5000), "k")["k.projection"].shape == ()


MODULES = """
import torch
from torch import nn

class Long(nn.Module):
    def forward(self, x):
        return x * 2 if x.shape[1] > 4 else x * 3

class Item(nn.Module):
    def forward(self, x):
        return x * x.sum().item()

class Wide(nn.Module):
    def forward(self, x):
        return x + 1

long = lambda: (nn.Sequential(nn.Linear(4, 4), Long()).eval(), torch.randn(2, 9, 4))
item = lambda: (Item().eval(), torch.randn(2, 4))
wide = lambda: (Wide().eval(), torch.randn(1500, 1000))
"""


@pytest.fixture
def run(tmp_path, capsys):
    """run(function, *options): (exit status, stdout, stderr) of cleave-trace, in this process."""
    (tmp_path / "modules.py").write_text(MODULES)

    def trace(function, *options):
        capsys.readouterr()
        status = cli.main([f"{tmp_path}/modules.py:{function}", "-o", f"{tmp_path}/m.pt", *map(str, options)])
        return status, *capsys.readouterr()

    return trace


def test_the_file_goes_with_its_model(run, tmp_path):
    status, out, err = run("long", "--json")
    assert status == 0
    assert "note: seq is at least 5: at 4 the trace differs from the module by" in err
    report = json.loads(out)
    tensors = load_file(tmp_path / "m.witnesses.safetensors")
    assert report["witnesses_file"] == str(tmp_path / "m.witnesses.safetensors")
    description = json.loads(bytes(tensors["description"].tolist()))
    assert description["version"] == 1 and description["module"] == "Sequential"
    assert description["model"] == files.serialization_id(tmp_path / "m.pt") != ""
    assert [entry["name"] for entry in description["witnesses"]] == report["witnesses"]
    assert description["witnesses"][0]["name"] == "traced"
    group = next(group for group in description["dimensions"] if group["dims"] == [["input", 1]])
    assert (group["traced"], group["min"], group["max"], group["where"]) == (9, 5, UNLIMITED, "1")
    script = torch.jit.load(tmp_path / "m.pt")
    for entry in description["witnesses"]:
        expected = tensors[entry["outputs"]["output"]]
        torch.testing.assert_close(script(tensors[entry["inputs"]["input"]]), expected)
    assert {key for entry in description["witnesses"] for kind in ("inputs", "outputs") for key in entry[kind].values()} \
        == tensors.keys() - {"description"}


def test_no_witnesses_leaves_none(run, tmp_path):
    run("long")
    status, out, err = run("long", "--no-witnesses", "--json")
    assert status == 0 and "witnesses_file" not in json.loads(out) and "seq" not in err
    assert not (tmp_path / "m.witnesses.safetensors").exists()
    assert run("item", "--no-witnesses")[0] == 0
    with pytest.raises(SystemExit):
        run("long", "--no-witnesses", "--dynamic", "input=batch")


def test_a_refused_trace_writes_nothing(run, tmp_path):
    status, out, err = run("item")
    assert status == 1 and not out and not (tmp_path / "m.pt").exists()
    errors = [line for line in err.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1 and "modules.py:item: module: trace and module return different outputs" in errors[0]


def test_the_file_stays_small(run, tmp_path):
    """Inputs of 6 MB: the traced witness fits, a second of that size does not."""
    status, out, err = run("wide", "--json")
    assert status == 0 and (tmp_path / "m.witnesses.safetensors").stat().st_size <= 10 << 20
    assert json.loads(out)["witnesses"][0] == "traced"


def test_what_fails_in_the_search_lessens_what_is_said(monkeypatch):
    def fail(*arguments):
        raise ArithmeticError("no such search")

    monkeypatch.setattr(collect.RangeFinder, "find", fail)
    found, groups = witnesses(module(grows), torch.randn(2, 9, 4))
    assert groups == {} and found.entries[0]["name"] == "traced"
    assert "ArithmeticError: no such search" in found.notes[-1]


def test_a_large_buffer_is_put_back():
    def caching(self, x):
        self.cache[: x.shape[1]] = x[0]
        return x.sum() + self.cache[:4096].sum()

    made = module(caching, cache=torch.zeros(5_000_000))
    witnesses(made, torch.randn(1, 16))
    assert made.cache.count_nonzero() <= 16


def test_a_constant_that_values_decide_is_no_tie():
    def one_of_many(self, x):
        return x + 10 * torch.eye(100)[int(x[0].argmax())]

    with pytest.raises(TraceError, match="different outputs when values"):
        witnesses(module(one_of_many), torch.randn(2, 100))
