"""Several signatures of one model in a plan: other shapes, with and without a mask or labels. They share weights and states."""

import dataclasses
import pathlib
import re
from typing import Optional

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import nn

from conftest import cleave
from launching import run_ranks, same_bits

MESHES = {"pp=2": ("--mesh", "pp=2"), "tp=2": ("--mesh", "tp=2"), "pp=2,tp=2": ("--mesh", "pp=2,tp=2"),
          "auto": ("--mesh", "auto", "--devices", 2)}


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor, mask: Optional[torch.Tensor]):
        y = self.down(torch.relu(self.up(self.norm(x))))
        if mask is not None:
            y = y * mask.unsqueeze(-1)
        return x + y


class Classifier(nn.Module):
    def __init__(self, width=32, words=64):
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.blocks = nn.ModuleList([Block(width) for _ in range(4)])
        self.head = nn.Linear(width, words)

    def forward(self, ids: torch.Tensor, mask: Optional[torch.Tensor] = None, labels: Optional[torch.Tensor] = None):
        x = self.words(ids)
        for block in self.blocks:
            x = block(x, mask)
        logits = self.head(x)
        loss = torch.zeros(1)
        if labels is not None:
            loss = nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten()).unsqueeze(0)
        return logits, loss


@dataclasses.dataclass
class Signatures:
    folder: pathlib.Path
    model: nn.Module
    inputs: dict

    def files(self, *names):
        for name in names:
            yield from ("--inputs", f"{name}={name}.inputs.safetensors")

    def compile(self, names, *options, plan, status=0):
        return cleave("compile", "model.pt", *self.files(*names), *options, "-o", plan, status=status, cwd=self.folder)

    def run(self, plan, name, *options):
        result = cleave("run", plan, "--signature", name, "--inputs", f"{name}.inputs.safetensors", "--outputs",
                        "y.safetensors", "--json", *options, cwd=self.folder).json()
        return load_file(self.folder / "y.safetensors"), result

    def shard_bytes(self, plan):
        """By rank: names and bytes of the weights in its file."""
        ranks = []
        for path in sorted((self.folder / plan).glob("rank-*.safetensors")):
            with safe_open(path, "pt") as file:
                ranks.append({name: file.get_tensor(name).nbytes for name in file.keys()})
        return ranks


def make(folder, model, inputs):
    torch.jit.save(torch.jit.script(model.eval()), folder / "model.pt")
    for name, given in inputs.items():
        save_file(given, folder / f"{name}.inputs.safetensors")
    return Signatures(folder, model, inputs)


@pytest.fixture
def three(tmp_path):
    torch.manual_seed(0)
    ids = torch.randint(0, 64, (8, 16))
    return make(tmp_path, Classifier(), {
        "forward": {"ids": ids},
        "masked": {"ids": ids[:2, :5].contiguous(), "mask": torch.tensor([[1.0, 1, 1, 0, 0], [1, 1, 1, 1, 1]])},
        "loss": {"ids": ids[:4].contiguous(), "labels": torch.randint(0, 64, (4, 16))}})


@pytest.mark.parametrize("mesh", MESHES)
def test_each_signature_is_its_own_plan(three, mesh):
    options = MESHES[mesh]
    three.compile(three.inputs, *options, "--verify", plan="all.plan")
    together = three.shard_bytes("all.plan")
    plan = cleave("inspect", "all.plan", "--json", cwd=three.folder).json()
    # A search may choose another mesh for one signature alone.
    if mesh == "auto":
        options = ("--mesh", ",".join(f"{axis}={size}" for axis, size in plan["mesh"].items()))
    for name, inputs in three.inputs.items():
        three.compile([name], *options, plan=f"{name}.plan")
        outputs, report = three.run("all.plan", name)
        alone, _ = three.run(f"{name}.plan", name)
        expected = {f"output.{i}": value for i, value in enumerate(three.model(**inputs))}
        assert outputs.keys() == alone.keys() == expected.keys()
        for key, value in expected.items():
            assert torch.equal(outputs[key], alone[key]), (name, key)
            torch.testing.assert_close(outputs[key], value, atol=1e-5, rtol=1e-5)
        # One copy of each weight on each device: as much as the plan of one signature has.
        own = three.shard_bytes(f"{name}.plan")
        assert len(own) == len(together)
        assert sum(sum(rank.values()) for rank in own) == sum(sum(rank.values()) for rank in together)
        assert [device["weight_bytes"] for device in report["devices"]] == [sum(rank.values()) for rank in together]
    assert [signature["name"] for signature in plan["signatures"]] == list(three.inputs)
    assert all(len(weight["stages"]) == 1 for weight in plan["weights"])


def test_predicted_memory_has_each_weight_once(three):
    three.compile(three.inputs, "--mesh", "pp=2", plan="all.plan")
    stages = cleave("inspect", "all.plan", "--json", cwd=three.folder).json()["stages"]
    held = [sum(rank.values()) for rank in three.shard_bytes("all.plan")]
    for name in three.inputs:
        _, report = three.run("all.plan", name)
        for stage, device, weights in zip(stages, report["devices"], held):
            assert stage["weight_bytes"] == weights
            assert device["peak_bytes"] <= stage["predicted_peak_bytes"]


def test_device_memory(three):
    error = three.compile(three.inputs, *MESHES["auto"], "--device-memory", "120kB", plan="no.plan", status=1).err
    enough = re.search(r"--device-memory (\d+)B", error)[1]
    three.compile(three.inputs, *MESHES["auto"], "--device-memory", f"{enough}B", "--verify", plan="all.plan")
    assert len(three.shard_bytes("all.plan")) == 2
    for name in three.inputs:
        _, report = three.run("all.plan", name)
        assert all(device["peak_bytes"] <= int(enough) for device in report["devices"])


def test_micro_batches_of_each_batch(three):
    three.compile(three.inputs, "--mesh", "pp=2", "--microbatches", 2, plan="refused.plan", status=1)
    three.compile(["forward", "masked"], "--mesh", "pp=2", "--microbatches", 2, "--verify", plan="all.plan")
    plan = cleave("inspect", "all.plan", "--json", cwd=three.folder).json()
    assert [signature["microbatches"] for signature in plan["signatures"]] == [2, 2]
    assert [signature["inputs"][0]["shape"] for signature in plan["signatures"]] == [["batch", 16], ["batch", 5]]


def test_micro_batches_are_chosen_for_each(three):
    three.compile(three.inputs, "--mesh", "pp=2", "--microbatches", "auto", "--verify", plan="all.plan")
    plan = cleave("inspect", "all.plan", "--json", cwd=three.folder).json()
    # The loss is a mean over the batch.
    assert plan["signatures"][2]["microbatches"] == 1


def test_dynamic_dimensions_of_each(three):
    three.compile(three.inputs, "--dynamic", "ids=batch,seq", "--dynamic", "loss/labels=batch,seq", "--dynamic",
                  "masked/mask=batch,seq", "--role", "loss/labels=labels", "--mesh", "pp=2", "--verify", plan="all.plan")
    report = cleave("verify", "all.plan", "--model", "model.pt", "--json", cwd=three.folder).json()
    assert report["ok"] and {output["signature"] for output in report["outputs"]} == set(three.inputs)
    one = cleave("verify", "all.plan", "--model", "model.pt", "--signature", "masked", "--inputs",
                 "masked.inputs.safetensors", "--json", cwd=three.folder).json()
    assert {output["signature"] for output in one["outputs"]} == {"masked"}


def test_bf16_weights_are_one_for_all(three):
    three.compile(three.inputs, "--dtype", "bf16", "--mesh", "pp=2", "--verify", plan="all.plan")


def test_frequency_is_what_costs_count(three):
    """The search's estimate is the time of all signatures."""
    seconds = []
    for frequency in (1, 10):
        three.compile(["forward", "masked"], "--frequency", f"masked={frequency}", *MESHES["auto"], plan="all.plan")
        seconds.append(cleave("inspect", "all.plan", "--json", cwd=three.folder).json()["candidates"][0]["seconds"])
    assert 1.5 * seconds[0] < seconds[1] < 10 * seconds[0]


def test_first_name_is_forward(three):
    files = ("--inputs", "forward.inputs.safetensors", "--inputs", "loss.inputs.safetensors")
    cleave("compile", "model.pt", *files, "-o", "all.plan", cwd=three.folder)
    plan = cleave("inspect", "all.plan", "--json", cwd=three.folder).json()
    assert [signature["name"] for signature in plan["signatures"]] == ["forward", "loss"]


def test_processes(three):
    three.compile(three.inputs, "--mesh", "pp=2", plan="all.plan")
    for name in three.inputs:
        alone, _ = three.run("all.plan", name)
        run_ranks(2, "all.plan", "--signature", name, "--inputs", f"{name}.inputs.safetensors", "--outputs",
                  "ranks.safetensors", cwd=three.folder)
        assert same_bits(load_file(three.folder / "ranks.safetensors"), alone)


def test_ir_of_all_functions(three):
    three.compile(three.inputs, "--mesh", "pp=2,tp=2", "--emit-ir", "ir", plan="all.plan")
    files = sorted((three.folder / "ir").iterdir())
    assert [int(path.name.split("-")[0]) for path in files] == list(range(1, len(files) + 1))
    assert all(path.read_text().count("func.func @") == 3 for path in files)
    (typed,) = (three.folder / "ir").glob("*-fold-sizes.mlir")
    report = cleave("simulate", typed, "--mesh", "pp=2,tp=2", "--json").json()
    assert len(report["devices"]) == 4


@pytest.mark.parametrize("options, why", [
    (("--inputs", "a=forward.inputs.safetensors", "--inputs", "a=loss.inputs.safetensors"),
     "--inputs a=loss.inputs.safetensors: a signature a is given twice; give another name, NAME=FILE"),
    (("--inputs", "forward.inputs.safetensors", "--dynamic", "losss/ids=batch,seq"),
     "--dynamic losss/ids=batch,seq: there is no signature losss; signatures are: forward"),
    (("--inputs", "forward.inputs.safetensors", "--frequency", "forward=0"),
     "--frequency forward=0: expected SIGNATURE=NUMBER, such as decode=100"),
    (("--inputs", "forward.inputs.safetensors", "--inputs", "loss.inputs.safetensors", "--dynamic", "forward/ids=b,s",
      "--microbatches", "2"), "the batch of signature loss is called batch, that of signature forward b; give both one name"),
])
def test_usage(three, options, why):
    assert why in cleave("compile", "model.pt", *options, "-o", "p", status=2, cwd=three.folder).err


def test_a_signature_that_forward_refuses(three):
    save_file({"ids": torch.zeros(2, 4, dtype=torch.int64), "other": torch.zeros(2)}, three.folder / "bad.safetensors")
    error = cleave("compile", "model.pt", "--inputs", "forward.inputs.safetensors", "--inputs", "bad.safetensors", "-o",
                   "p", status=1, cwd=three.folder).err
    assert "other" in error and "(in signature bad)" in error


def test_no_such_signature(three):
    three.compile(["forward"], plan="one.plan")
    error = cleave("run", "one.plan", "--signature", "backward", status=1, cwd=three.folder).err
    assert "one.plan: there is no signature backward; signatures are: forward" in error
    error = cleave("verify", "one.plan", "--model", "model.pt", "--signature", "backward", status=1, cwd=three.folder).err
    assert "there is no signature backward" in error


# States ---------------------------------------------------------------------------------------------------------------


class Counter(nn.Module):
    """Adds what it is given to what it holds, or tells that alone."""

    def __init__(self):
        super().__init__()
        self.total: torch.Tensor
        self.register_buffer("total", torch.zeros(3))
        self.scale = nn.Linear(3, 3)

    def forward(self, x: Optional[torch.Tensor] = None):
        if x is not None:
            self.total = self.total + self.scale(x)
        return self.total * 2


def test_signatures_share_states(tmp_path):
    torch.manual_seed(0)
    model = make(tmp_path, Counter(), {"add": {"x": torch.ones(3)}})
    save_file({}, tmp_path / "read.inputs.safetensors")
    model.compile(["add", "read"], "--verify", plan="all.plan")
    plan = cleave("inspect", "all.plan", "--json", cwd=tmp_path).json()
    assert [state["name"] for state in plan["states"]] == ["total"]
