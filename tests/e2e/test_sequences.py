"""States with a row for each sample: micro-batches, data-parallel ranks and requests of several sequences have their own."""

import copy
import json
import os

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from conftest import cleave, execute
from launching import Processes, same_bits

BATCH, CALLS, SEQUENCES = 8, 4, 8
WORDS, WIDTH, CLASSES = 50, 32, 10


class Cell(nn.Module):
    """A gated recurrent cell that keeps its hidden state, whose saved value has `rows` rows."""

    def __init__(self, rows):
        super().__init__()
        self.inputs, self.hidden = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, 3 * WIDTH)
        self.register_buffer("h", torch.linspace(-1, 1, rows * WIDTH).reshape(rows, WIDTH))

    def forward(self, x):
        a, b = self.inputs(x).chunk(3, -1), self.hidden(self.h).chunk(3, -1)
        forget, keep = torch.sigmoid(a[0] + b[0]), torch.sigmoid(a[1] + b[1])
        new = torch.tanh(a[2] + forget * b[2])
        self.h = new + keep * (self.h - new)
        return self.h * 1


class Recurrent(nn.Module):
    """An embedding, two cells, and a head with a table: an index beyond the table fails in the last stage."""

    def __init__(self, rows=1):
        super().__init__()
        self.embedding = nn.Embedding(WORDS, WIDTH)
        self.first, self.second = Cell(rows), Cell(rows)
        self.head = nn.Linear(WIDTH, CLASSES)
        self.bias = nn.Embedding(CLASSES, CLASSES)

    def forward(self, word, kind):
        return self.head(self.second(self.first(self.embedding(word)))) + self.bias(kind)


def recurrent(rows=1):
    torch.manual_seed(0)
    module = Recurrent(rows).eval()
    return torch.jit.script(module)


def calls(sequences=SEQUENCES, count=CALLS, batch=BATCH):
    """Inputs of `count` requests of each sequence."""
    generator = torch.Generator().manual_seed(1)
    return {"word": torch.randint(0, WORDS, (count, sequences, batch), generator=generator),
            "kind": torch.randint(0, CLASSES, (count, sequences, batch), generator=generator)}


def expected(module, inputs, skipped=()):
    """What the original gives, called in turn by each sequence alone; nothing where `skipped` has the call and sequence."""
    count, sequences, batch = inputs["word"].shape
    outputs = torch.zeros(count, sequences, batch, CLASSES)
    with torch.no_grad():
        for sequence in range(sequences):
            own = copy.deepcopy(module)
            for call in range(count):
                if (call, sequence) not in skipped:
                    outputs[call, sequence] = own(inputs["word"][call, sequence], inputs["kind"][call, sequence])
    return outputs


ONE_THREAD = {**os.environ, "OMP_NUM_THREADS": "1"}
MESHES = [("pp=2,tp=2,dp=2", 4), ("pp=2", 4), ("pp=2,dp=2", 1), ("dp=3", 2), ("tp=2", 2)]


def compile_plan(compiler, module, mesh, microbatches):
    inputs = calls()
    return compiler.compile(module, "--mesh", mesh, "--microbatches", str(microbatches), "--json",
                            word=inputs["word"][0, 0], kind=inputs["kind"][0, 0]).json()


def run(compiler, inputs, *more, processes=1):
    """Outputs and report of runSequences."""
    folder = compiler.folder
    save_file(inputs, folder / "sequences.safetensors")
    arguments = (folder / "model.plan", folder / "sequences.safetensors", folder / "outputs.safetensors", *more)
    if processes == 1:
        out = execute("runSequences", *arguments, env=ONE_THREAD).out
    else:
        with Processes(processes, *arguments, program=("runSequences",)) as started:
            ended = started.end()
        assert all(end.status == 0 and not end.err for end in ended.values()), ended
        out = ended[0].out
    return load_file(folder / "outputs.safetensors"), json.loads(out)


@pytest.mark.parametrize("mesh, microbatches", MESHES)
def test_each_row_has_its_own_state(compiler, mesh, microbatches):
    module = recurrent()
    report = compile_plan(compiler, module, mesh, microbatches)
    assert report["microbatches"] == microbatches
    plan = cleave("inspect", "model.plan", "--json", cwd=compiler.folder).json()
    assert [(state["name"], state["scope"], state["batch_dim"], state["shape"][1]) for state in plan["states"]] == [
        ("first.h", "sequence", 0, WIDTH), ("second.h", "sequence", 0, WIDTH)]
    inputs = calls()
    together, written = run(compiler, inputs)
    torch.testing.assert_close(together["output"], expected(module, inputs), atol=1e-5, rtol=1e-4)
    alone, _ = run(compiler, inputs, "alone")
    assert same_bits(together, alone)
    # Both states, on each tensor-parallel rank, and no copy.
    tp = 2 if "tp=2" in mesh else 1
    assert written["written"] == CALLS * SEQUENCES * BATCH * 2 * WIDTH * 4 * tp
    assert not written["failures"] and written["copied"] == 0, written


def test_processes_give_the_same_bits(compiler):
    compile_plan(compiler, recurrent(), "pp=2,tp=2,dp=2", 4)
    inputs = calls(count=2)
    threads, _ = run(compiler, inputs)
    processes, report = run(compiler, inputs, processes=8)
    assert same_bits(threads, processes) and not report["failures"]


@pytest.mark.parametrize("mesh, microbatches", MESHES[:2])
def test_a_request_that_fails_in_the_middle_changes_nothing(compiler, mesh, microbatches):
    module = recurrent()
    compile_plan(compiler, module, mesh, microbatches)
    inputs = calls(sequences=4, count=6)
    # One sample of one micro-batch, another in each.
    failing = [(1, 0), (2, 1), (2, 2), (4, 3)]
    for call, sequence in failing:
        inputs["kind"][call, sequence, 2 * sequence + 1] = CLASSES
    outputs, report = run(compiler, inputs)
    torch.testing.assert_close(outputs["output"], expected(module, inputs, failing), atol=1e-5, rtol=1e-4)
    assert len(report["failures"]) == len(failing)
    assert all("(stage " in failure and "bias: aten::embedding" in failure for failure in report["failures"]), report


def test_other_batches(compiler):
    """A saved value with one row is that of every sample; one with more fixes the batch."""
    module = recurrent()
    compile_plan(compiler, module, "pp=2", 4)
    for batch in (1, 3, 11):
        inputs = calls(sequences=2, count=2, batch=batch)
        outputs, _ = run(compiler, inputs)
        torch.testing.assert_close(outputs["output"], expected(module, inputs), atol=1e-5, rtol=1e-4)


def test_saved_rows(compiler):
    module = recurrent(rows=BATCH)
    compile_plan(compiler, module, "pp=2,dp=2", 2)
    symbols = cleave("inspect", "model.plan", "--json", cwd=compiler.folder).json()["signatures"][0]["symbols"]
    assert [(symbol["min"], symbol["max"]) for symbol in symbols] == [(BATCH, BATCH)]
    inputs = calls()
    outputs, _ = run(compiler, inputs)
    torch.testing.assert_close(outputs["output"], expected(module, inputs), atol=1e-5, rtol=1e-4)
    _, report = run(compiler, calls(sequences=1, count=1, batch=5))
    assert "state first.h begins with 8 rows, found a batch of 5; give a batch of 8" in report["failures"][0]


class InPlace(Cell):
    """Its hidden state is written in place, as a trace records it."""

    def forward(self, x):
        self.h.copy_(torch.tanh(self.inputs(x) + self.hidden(self.h))[:, :WIDTH])
        return self.h * 1


def test_traced(compiler):
    torch.manual_seed(0)
    inputs = calls()
    module = Recurrent(BATCH)
    module.first, module.second = InPlace(BATCH), InPlace(BATCH)
    example = (inputs["word"][0, 0], inputs["kind"][0, 0])
    traced_module = torch.jit.trace(copy.deepcopy(module).eval(), example, check_trace=False)
    for own, saved in zip(traced_module.buffers(), module.buffers()):
        own.copy_(saved)
    compile_plan(compiler, traced_module, "pp=2,dp=2", 2)
    outputs, _ = run(compiler, inputs)
    torch.testing.assert_close(outputs["output"], expected(module, inputs), atol=1e-5, rtol=1e-4)


def test_run_counts_the_bytes_of_a_step(compiler):
    compile_plan(compiler, recurrent(), "pp=2", 2)
    inputs = calls()
    save_file({"word": inputs["word"][0, 0], "kind": inputs["kind"][0, 0]}, compiler.folder / "one.safetensors")
    report = cleave("run", "model.plan", "--inputs", "one.safetensors", "--json", cwd=compiler.folder).json()
    assert all(device["state_bytes_written"] == BATCH * WIDTH * 4 for device in report["devices"]), report


def test_the_predicted_memory_has_the_rows_of_all_microbatches(compiler):
    compile_plan(compiler, recurrent(), "pp=2", 4)
    stages = cleave("inspect", "model.plan", "--json", cwd=compiler.folder).json()["stages"]
    report = cleave("run", "model.plan", "--inputs", "model.inputs.safetensors", "--json", cwd=compiler.folder).json()
    for stage, device in zip(stages, report["devices"]):
        assert stage["predicted_peak_bytes"] >= device["peak_bytes"], (stage, device)
