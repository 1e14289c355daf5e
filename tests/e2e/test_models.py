"""Real models at full size: compiled for several devices, run, and held against the original."""

import dataclasses
import pathlib
import shutil
import subprocess
import sys

import numpy
import pytest
import torch
from safetensors.torch import load_file, save_file

from conftest import BIN, Model, cleave, minilm_folder

# Of the largest output where that is above 1: random ResNets answer with up to 110, and sums on one thread are made in
# another order than on two.
TOLERANCE = 1e-5

# What cleave-trace is given. Small batches and lengths: the weights are what is large.
MODELS = {
    "gpt2": ("hf:gpt2-small", "--batch", 2, "--seq", 64),
    "bert": ("hf:bert-base", "--batch", 2, "--seq", 64),
    "t5": ("hf:t5-small", "--batch", 2, "--seq", 64),
    "vit": ("hf:vit-base", "--batch", 2),
    "resnet": ("hf:resnet-50", "--batch", 2),
    "torchvision-resnet": ("torchvision:resnet50", "--batch", 2),
    "minilm": (f"hf:{minilm_folder()}", "--batch", 4, "--seq", 32),
}
TEXT = ("--dynamic", "input_ids=batch,seq")
IMAGES = ("--dynamic", "pixel_values=batch,_,_,_")
DYNAMIC = {
    "gpt2": TEXT,
    "bert": (*TEXT, "--dynamic", "attention_mask=batch,seq"),
    "t5": (*TEXT, "--dynamic", "decoder_input_ids=batch,target"),
    "vit": IMAGES,
    "resnet": IMAGES,
    "torchvision-resnet": ("--dynamic", "x=batch,_,_,_"),
    "minilm": (*TEXT, "--dynamic", "attention_mask=batch,seq"),
}
# GPT-2 has all of them; of the others each has a plan of each kind.
PLANS = [("gpt2", devices, kind) for kind in ("fixed", "dynamic") for devices in (2, 3, 4, 8)]
PLANS += [(name, devices, kind) for name in MODELS if name != "gpt2" for devices, kind in ((2, "fixed"), (4, "dynamic"))]

SENTENCES = ["A man is playing a guitar on stage.", "Someone performs music with a guitar before an audience.",
             "The central bank raised its interest rate.", "My cat sleeps under the kitchen table."]


@dataclasses.dataclass
class Plan:
    path: pathlib.Path
    name: str
    model: Model
    devices: int
    is_dynamic: bool

    def inspect(self):
        return cleave("inspect", self.path, "--json").json()


@pytest.fixture
def model(trace_model):
    return lambda name: trace_model(*MODELS[name])


@pytest.fixture(scope="module", params=PLANS, ids=lambda param: "-".join(map(str, param)))
def plan(request, trace_model, tmp_path_factory):
    """A plan with its model; removed before the next is made, since each is as large as the model."""
    name, devices, kind = request.param
    folder = tmp_path_factory.mktemp("plan")
    model = trace_model(*MODELS[name])
    more = DYNAMIC[name] if kind == "dynamic" else ()
    yield Plan(compile_plan(model, folder, devices, *more), name, model, devices, kind == "dynamic")
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def measured(plan, tmp_path_factory):
    """What `cleave run` reports, and the outputs."""
    outputs = tmp_path_factory.mktemp("outputs") / "outputs.safetensors"
    report = cleave("run", plan.path, "--inputs", plan.model.inputs, "--outputs", outputs, "--check-types", "--json").json()
    yield report, load_file(outputs)
    outputs.unlink()


def compile_plan(model, folder, devices, *more):
    plan = folder / "model.plan"
    cleave("compile", model.path, "--inputs", model.inputs, "--devices", devices, *more, "-o", plan)
    return plan


def tolerance(expected):
    return TOLERANCE * max(1, *(tensor.abs().max().item() for tensor in expected.values()))


def assert_close(found, expected):
    assert found.keys() == expected.keys()
    for path, tensor in expected.items():
        assert found[path].shape == tensor.shape, path
        assert (found[path] - tensor).abs().max().item() <= tolerance(expected), path


def test_plan_answers_as_the_original(plan):
    """At the traced sizes and, where they may change, at others."""
    report = cleave("verify", plan.path, "--model", plan.model.path, "--inputs", plan.model.inputs, "--json").json()
    expected = load_file(plan.model.outputs)
    assert report["ok"] and report["max_abs_error"] <= tolerance(expected)
    sizes = [output.get("sizes", "") for output in report["outputs"]]
    assert sizes.count("") == len(expected)
    other = [size for size in sizes if size]
    # Smaller or larger, 1, and larger; ViT and ResNet take one size of image only.
    assert len(other) == (3 * len(expected) if plan.is_dynamic else 0) and not report["skipped_sizes"]
    assert all("batch=" in size for size in other)


def test_types_are_as_predicted(plan, measured):
    """`cleave run --check-types` fails where a value is not what the plan says."""
    report, outputs = measured
    assert_close(outputs, load_file(plan.model.outputs))
    assert [note for note in plan.inspect()["notes"] if note["kind"] == "unknown-type"] == []


def test_memory_is_as_predicted(plan, measured):
    report, _ = measured
    stages = plan.inspect()["stages"]
    assert [stage["devices"] for stage in stages] == [[device["name"]] for device in report["devices"]]
    assert len(stages) == plan.devices
    for stage, device in zip(stages, report["devices"]):
        assert device["peak_bytes"] == pytest.approx(stage["predicted_peak_bytes"], rel=0.05), device["name"]


def test_stages_are_balanced(plan):
    report = plan.inspect()
    seconds = [stage["predicted_seconds"] for stage in report["stages"]]
    # A plan may be worse if one operation makes it so, which it then names.
    culprits = [note for note in report["notes"] if note["kind"] == "balance" and note["op"]]
    assert max(seconds) / numpy.mean(seconds) <= 1.10 or culprits, seconds
    assert report["balance"]["max_over_mean"] == pytest.approx(max(seconds) / numpy.mean(seconds))


def test_other_batch_sizes_and_lengths(model, tmp_path):
    plan = compile_plan(model("gpt2"), tmp_path, 4, *DYNAMIC["gpt2"])
    original = torch.jit.load(model("gpt2").path)
    inputs, outputs = tmp_path / "inputs.safetensors", tmp_path / "outputs.safetensors"
    for batch, seq in ((1, 1), (1, 7), (3, 200), (2, 64)):
        ids = torch.randint(0, 50257, (batch, seq), generator=torch.Generator().manual_seed(seq))
        save_file({"input_ids": ids}, inputs)
        cleave("run", plan, "--inputs", inputs, "--outputs", outputs)
        with torch.no_grad():
            expected = {"output.logits": original(ids)["logits"]}
        assert_close(load_file(outputs), expected)


def test_paraphrases_are_closer_than_strangers(model, tmp_path):
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(minilm_folder() / "tokenizer.json"))
    tokenizer.enable_padding(length=32)
    tokens = tokenizer.encode_batch(SENTENCES)
    mask = torch.tensor([token.attention_mask for token in tokens])
    inputs, outputs = tmp_path / "inputs.safetensors", tmp_path / "outputs.safetensors"
    save_file({"input_ids": torch.tensor([token.ids for token in tokens]), "attention_mask": mask}, inputs)
    cleave("run", compile_plan(model("minilm"), tmp_path, 2), "--inputs", inputs, "--outputs", outputs)

    states, mask = load_file(outputs)["output.last_hidden_state"].numpy(), mask.numpy()[:, :, None]
    means = (states * mask).sum(axis=1) / mask.sum(axis=1)
    means /= numpy.linalg.norm(means, axis=1, keepdims=True)
    closeness = means @ means.T
    assert closeness[0, 1] > 0.5
    assert max(closeness[0, 2], closeness[0, 3], closeness[2, 3]) < 0.3


def test_compiling_does_not_read_the_model_into_memory(model, tmp_path):
    command = [BIN / "cleave", "compile", model("gpt2").path, "--inputs", model("gpt2").inputs, "--devices", "4", "-o",
               tmp_path / "model.plan"]
    # A child's peak counts the process that it was forked from, so a small one lies between.
    measure = "import resource as r, subprocess as s, sys; s.run(sys.argv[1:], check=True, stdout=2); " \
              "print(r.getrusage(r.RUSAGE_CHILDREN).ru_maxrss)"
    done = subprocess.run([sys.executable, "-S", "-c", measure, *map(str, command)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) <= 350 * 1024


def test_same_input_gives_the_same_plan(tiny_model, tmp_path):
    plans = []
    for folder in (tmp_path / "a", tmp_path / "elsewhere" / "b"):
        folder.mkdir(parents=True)
        for path in (tiny_model("gpt2").path, tiny_model("gpt2").inputs):
            shutil.copy(path, folder)
        for name in ("p.plan", "another.plan"):
            cleave("compile", "model.pt", "--inputs", "model.inputs.safetensors", "--devices", 3, "-o", name, cwd=folder)
            plans.append({path.name: path.read_bytes() for path in (folder / name).iterdir()})
    assert all(plan == plans[0] for plan in plans)
    assert set(plans[0]) == {"plan.fb", *(f"rank-{rank:03}.safetensors" for rank in range(3))}
