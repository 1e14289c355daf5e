"""Plans are held to what the traced module itself answered: at other sizes and values, within the range that it gives."""

import json
import os
import random
import shutil
import subprocess

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

import witness_files
from conftest import BIN, cleave, refused, run_refused, verify_refused
from witness_files import dimension, path_beside

SAME_ERROR = "same as the module at "


class Chunked(nn.Module):
    """Subtracts the mean of each chunk of 4 positions, in a loop whose turns a trace fixes."""

    def __init__(self, width=8):
        super().__init__()
        self.out = nn.Linear(width, width)

    def forward(self, x):
        parts = [x[:, begin:begin + 4] - x[:, begin:begin + 4].mean(1, keepdim=True) for begin in range(0, x.size(1), 4)]
        return self.out(torch.cat(parts, 1))


class Branching(nn.Module):
    """Decides by values, which a trace fixes."""

    def forward(self, x):
        return x * 2 if x.sum() > 0 else x * 3


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Linear(8, 8)

    def forward(self, x):
        return torch.tanh(self.scale(x))


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(()))

    def forward(self, x):
        self.count += 1
        return x + self.count


def numbers(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


class Traced:
    """A module in a folder, with its trace and inputs."""

    def __init__(self, folder, module, x):
        self.folder, self.module, self.x = folder, module.eval(), x
        self.path = folder / "model.pt"
        torch.manual_seed(0)
        with torch.no_grad():
            trace = torch.jit.trace(module, x, check_trace=False)
        torch.jit.save(trace, self.path)
        save_file({"x": x}, folder / "model.inputs.safetensors")

    def answer(self, x):
        with torch.no_grad():
            return {"x": x}, {"output": self.module(x)}

    def write(self, witnesses, *dimensions, **more):
        """`witnesses`: inputs by name."""
        witness_files.write(self.path, {name: self.answer(x) for name, x in witnesses.items()}, dimensions, **more)

    def compile(self, *options):
        return cleave("compile", "model.pt", "--inputs", "model.inputs.safetensors", *options, "-o", "model.plan",
                      cwd=self.folder)

    def refuse(self, *options):
        return refused(self.folder, "compile", "model.pt", "--inputs", "model.inputs.safetensors", *options, "-o", "model.plan")

    def symbols(self):
        found = cleave("inspect", "model.plan", "--json", cwd=self.folder).json()["signatures"][0]["symbols"]
        return {symbol["name"]: symbol.get("witnessed") for symbol in found}

    def run(self, x, *options, status=0):
        save_file({"x": x}, self.folder / "other.safetensors")
        if status:
            return run_refused(self.folder / "model.plan", "other.safetensors", *options)
        cleave("run", "model.plan", "--inputs", "other.safetensors", "--outputs", "found.safetensors", *options, cwd=self.folder)
        return load_file(self.folder / "found.safetensors")["output"]


@pytest.fixture
def scaled(tmp_path):
    return Traced(tmp_path, Scaled(), numbers(2, 8, 8))


@pytest.fixture
def chunked(tmp_path):
    return Traced(tmp_path, Chunked(), numbers(2, 8, 8))


ANY_SIZE = dimension([("x", 0)], 2), dimension([("x", 1)], 8)
WHY = {"above": "at 9 the trace differs from the module by 10.4 in output", "where": "out", "diverges": True}
SEQ = ("--dynamic", "x=_,seq,_")


def test_a_frozen_loop_is_refused(chunked):
    chunked.write({"traced": chunked.x, "seq=12": numbers(2, 12, 8)}, dimension([("x", 1)], 8, 8, 8, **WHY))
    assert chunked.refuse(*SEQ) == (
        "error: --dynamic x=_,seq,_: found a trace that equals the module at 8 alone (at 9 the trace differs from the module by "
        "10.4 in output, in out), expected one that equals it at several sizes of seq; script the submodule, or trace at the "
        "size that you need")
    assert SAME_ERROR + "1 size: " in chunked.compile("--verify").out
    x = numbers(2, 8, 8, seed=3)
    torch.testing.assert_close(chunked.run(x), chunked.answer(x)[1]["output"])


def test_beyond_witnesses(chunked):
    chunked.write({"traced": chunked.x, "seq=12": numbers(2, 12, 8)}, dimension([("x", 1)], 8, 8, 8, **WHY))
    out = chunked.compile(*SEQ, "--beyond-witnesses").out
    assert "note: seq is dynamic beyond the sizes at which trace and module agree: 8 (at 9 the trace" in out
    assert chunked.symbols() == {"seq": None}
    chunked.run(numbers(2, 12, 8))


def test_verify_holds_a_plan_to_the_module(chunked):
    """Where the trace itself is wrong, which the trace cannot tell."""
    kept = {"traced": chunked.x, "seq=12": numbers(2, 12, 8)}
    chunked.write(kept)
    assert "--dynamic x=_,seq,_: found no other size of seq at which trace and module were compared, expected some" in chunked.refuse(*SEQ)
    chunked.write(kept, ANY_SIZE[1])
    chunked.compile(*SEQ)
    message = verify_refused_after_output(chunked)
    assert "model.plan: differs from the module of model.pt in output of witness seq=12: found an error of " in message
    assert "the plan differs from the module in output of witness seq=12" in chunked.refuse(*SEQ, "--verify")
    report = cleave("verify", "model.plan", "--model", "model.pt", "--json", cwd=chunked.folder, status=1).json()
    assert [(entry["witness"], entry["ok"]) for entry in report["witnesses"]] == [("traced", True), ("seq=12", False)]
    assert not report["ok"]


def verify_refused_after_output(traced):
    result = cleave("verify", "model.plan", "--model", "model.pt", cwd=traced.folder, status=1)
    assert "DIFFERENT output of witness" in result.out and SAME_ERROR not in result.out
    return result.err


def test_values(tmp_path):
    x = numbers(2, 8).abs()
    traced = Traced(tmp_path, Branching(), x)
    traced.write({"traced": x, "permuted": x.flip(1), "mirrored": -x})
    assert traced.refuse("--verify").endswith(
        "(the trace differs, too: it holds what the module decides as it runs; script that submodule); no plan was written")
    traced.write({"traced": x, "permuted": x.flip(1)})
    out = traced.compile("--verify").out
    assert SAME_ERROR + "2 sizes and values: largest error 0.0e+00, allowed " in out


def test_a_range_restricts_what_runs(scaled):
    scaled.write({"traced": scaled.x, "seq=12": numbers(2, 12, 8), "seq=16": numbers(2, 16, 8), "seq=20": numbers(2, 20, 8)},
                 dimension([("x", 0)], 2), dimension([("x", 1)], 8, 4, 16, divisible_by=4, between="at 9 the module fails"))
    result = scaled.compile("--dynamic", "x=batch,seq,_", "--verify")
    assert ("note: seq: trace and module agree at 4 to 16 in multiples of 4 (at 9 the module fails); run refuses "
            "other sizes") in result.out
    assert SAME_ERROR + "3 sizes and values: " in result.out
    assert scaled.symbols() == {"batch": {"min": 1, "divisible_by": 1}, "seq": {"min": 4, "max": 16, "divisible_by": 4}}
    text = cleave("inspect", "model.plan", cwd=scaled.folder).out
    assert "  compared with the module at batch any size, seq 4 to 16 in multiples of 4\n" in text
    x = numbers(3, 12, 8)
    torch.testing.assert_close(scaled.run(x), scaled.answer(x)[1]["output"])
    assert scaled.run(numbers(2, 20, 8), status=1) == (
        "error: input x: dimension 1 (seq) is 20, expected 4 to 16 in multiples of 4, where the trace was compared with the "
        "module; --beyond-witnesses (SessionOptions::beyondWitnesses) runs it all the same")
    x = numbers(2, 20, 8)
    torch.testing.assert_close(scaled.run(x, "--beyond-witnesses"), scaled.answer(x)[1]["output"])
    # verify's own sizes are within the range.
    report = cleave("verify", "model.plan", "--model", "model.pt", "--json", cwd=scaled.folder).json()
    sizes = [dict(part.split("=") for part in entry["sizes"].split(", ")) for entry in report["outputs"] if "sizes" in entry]
    assert sizes and all(int(size["seq"]) in (4, 8, 12, 16) for size in sizes)


def test_the_batch_of_microbatches(scaled):
    """Nobody asked for other sizes of it."""
    scaled.write({"traced": scaled.x}, dimension([("x", 0)], 2, 2, 2, above="at 3 the trace differs from the module", diverges=True))
    scaled.compile("--devices", 2, "--microbatches", 2, "--verify")
    assert scaled.symbols() == {"batch": {"min": 2, "max": 2, "divisible_by": 1}}
    assert "dimension 0 (batch) is 3, expected 2, where" in scaled.run(numbers(3, 8, 8), status=1)


def test_a_fixed_size_that_is_wrong(scaled):
    scaled.write({"traced": scaled.x}, dimension([("x", 1)], 8, 8, 8, **WHY))
    save_file({"x": numbers(2, 12, 8)}, scaled.folder / "model.inputs.safetensors")
    assert "input x: dimension 1 is 12, expected 8, where the trace equals the module (at 9" in scaled.refuse()
    scaled.compile("--beyond-witnesses")


def test_large_outputs(scaled):
    """More than 4096 elements are compared as signed sums."""
    large = {"traced": numbers(2, 8, 8), "large": numbers(4, 300, 8, seed=1)}
    scaled.write(large, *ANY_SIZE)
    assert SAME_ERROR + "2 sizes and values" in scaled.compile("--dynamic", "x=batch,seq,_", "--verify").out
    inputs, outputs = scaled.answer(large["large"])
    outputs["output"][3, 299, 7] += 1e-2
    witness_files.write(scaled.path, {"large": (inputs, outputs)}, ANY_SIZE)
    assert "differs from the module in output of witness large" in scaled.refuse("--dynamic", "x=batch,seq,_", "--verify")


@pytest.mark.parametrize("options", [(), ("--dtype", "bf16"), ("--devices", 2), ("--mesh", "dp=2")],
                         ids=["one device", "bf16", "two stages", "data-parallel"])
def test_split_plans(scaled, options):
    scaled.write({"traced": scaled.x, "large": numbers(2, 300, 8, seed=1)}, *ANY_SIZE)
    assert SAME_ERROR + "2 sizes and values" in scaled.compile(*SEQ, "--verify", *options).out


def test_a_model_with_state(tmp_path):
    """The first answer is that of the state that was saved."""
    torch.jit.save(torch.jit.script(Counting()), tmp_path / "model.pt")
    x = numbers(2, 8)
    save_file({"x": x}, tmp_path / "model.inputs.safetensors")
    witness_files.write(tmp_path / "model.pt", {"traced": ({"x": x}, {"output": x + 1}), "again": ({"x": x}, {"output": x + 2})})
    compile = ("compile", "model.pt", "--inputs", "model.inputs.safetensors", "--verify", "-o", "model.plan")
    assert SAME_ERROR + "1 size: " in cleave(*compile, cwd=tmp_path).out
    witness_files.write(tmp_path / "model.pt", {"traced": ({"x": x}, {"output": x + 2})})
    assert "differs from the module" in refused(tmp_path, *compile)


def test_a_model_that_draws_random_numbers(tmp_path):
    class Noise(nn.Module):
        def forward(self, x):
            return x + torch.rand_like(x)

    traced = Traced(tmp_path, Noise(), numbers(2, 8))
    traced.write({"traced": traced.x})
    reason = ", and the model draws random numbers (aten.rand_like in the model itself)"
    message = traced.refuse("--verify")
    assert reason in message, message
    traced.compile()
    result = cleave("verify", "model.plan", "--model", "model.pt", cwd=tmp_path, status=1)
    assert reason in result.err and "note: not compared with the module's own answers" in result.out


def test_warnings_are_repeated_where_a_size_varies(scaled):
    scaled.write({"traced": scaled.x}, dimension([("x", 1)], 8), warnings=[f"net.py:{line}: a length" for line in range(7)])
    assert "net.py" not in scaled.compile().out
    out = scaled.compile(*SEQ).out
    assert [line for line in out.splitlines() if "of the trace" in line] == [
        *(f"note: of the trace: net.py:{line}: a length" for line in range(5)), "note: of the trace: and 2 more such warnings"]
    notes = cleave("inspect", "model.plan", "--json", cwd=scaled.folder).json()["notes"]
    assert sum(note["kind"] == "trace" for note in notes) == 6


# Files that are none of ours ------------------------------------------------------------------------------------------


def test_no_file(scaled):
    note = "verified against the trace alone: found no file model.witnesses.safetensors beside the model; cleave-trace writes it"
    assert "held to" not in scaled.compile().out
    assert f"note: {note}\n" in scaled.compile("--verify").out
    assert cleave("verify", "model.plan", "--model", "model.pt", "--json", cwd=scaled.folder).json()["notes"] == [note]


def test_of_another_trace(scaled):
    scaled.write({"traced": scaled.x}, dimension([("x", 1)], 8, 8, 8, **WHY), model="1234")
    note = "note: model.witnesses.safetensors belongs to another trace than model.pt, and is not used"
    for options in ((), ("--verify",)):
        assert scaled.compile(*SEQ, *options).out.count(note) == 1
    assert note in cleave("verify", "model.plan", "--model", "model.pt", cwd=scaled.folder).out


UNUSED = "note: model.witnesses.safetensors beside the model is no regular file, and is not used"


def test_a_link(scaled):
    """Whoever sent it may have chosen its target."""
    scaled.write({"traced": scaled.x}, dimension([("x", 1)], 8, 8, 8, **WHY))
    path_beside(scaled.path).rename(scaled.folder / "elsewhere")
    path_beside(scaled.path).symlink_to("elsewhere")
    for options in ((), ("--verify",)):
        assert UNUSED in scaled.compile(*SEQ, *options).out


@pytest.mark.parametrize("make", [lambda path: os.mkfifo(path), lambda path: path.mkdir()], ids=["pipe", "folder"])
def test_no_regular_file(scaled, make):
    make(path_beside(scaled.path))
    assert UNUSED in scaled.compile("--verify").out


def remedied(traced, what):
    message = traced.refuse()
    assert "model.witnesses.safetensors" in message and what in message, message
    assert message.endswith("; trace the model again, or remove the file"), message


def test_damaged_files(scaled):
    path = path_beside(scaled.path)
    for write, what in [(lambda: path.write_bytes(b""), "0 bytes"), (lambda: path.write_text("no tensors at all"), "header"),
                        (lambda: save_file({"x": scaled.x}, path), "found no tensor description"),
                        (lambda: (path.touch(), os.truncate(path, 1 << 40)), "found 1099511627776 bytes, expected at most 16777216"),
                        (lambda: scaled.write({"traced": scaled.x}, version=2), "found version 2, expected 1"),
                        (lambda: scaled.write({"traced": scaled.x}, dimension([("x", 3)], 8)), "found dimension 3 of input x"),
                        (lambda: scaled.write({}, dimension([("x", 1)], 8, diverges="no")), "found diverges"),
                        (lambda: scaled.write({}, dimension([("x", 1)], 8, 9)), "expected 8 among them")]:
        write()
        remedied(scaled, what)
        path.unlink(missing_ok=True)
    scaled.compile()
    scaled.write({}, version=2)
    message = verify_refused(scaled.folder / "model.plan", "model.pt")
    assert "found version 2" in message


def test_any_damage_is_found_or_harmless(scaled):
    """What changes a number of an answer is a difference; everything else is refused in one line, or means the same."""
    scaled.write({"traced": scaled.x, "large": numbers(2, 300, 8, seed=1)}, dimension([("x", 1)], 8, 1, 512))
    path = path_beside(scaled.path)
    whole, draw = path.read_bytes(), random.Random(1)
    end = 8 + int.from_bytes(whole[:8], "little")
    start = whole.index(b'{"version"')
    for position in (*draw.sample(range(end), 3), *draw.sample(range(start, whole.index(b"}}]}", start)), 4)):
        changed = bytearray(whole)
        changed[position] ^= 1 << draw.randrange(8)
        path.write_bytes(changed)
        command = [BIN / "cleave", "compile", "model.pt", "--inputs", "model.inputs.safetensors", *SEQ, "-o", "new.plan"]
        done = subprocess.run(command, cwd=scaled.folder, capture_output=True, text=True)
        if done.returncode == 1:
            assert done.stderr.startswith("error: ") and done.stderr.count("\n") == 1, (position, done.stderr)
            assert not (scaled.folder / "new.plan").exists()
        else:
            assert done.returncode == 0, (position, done.stderr)
            shutil.rmtree(scaled.folder / "new.plan")


def test_text_of_strangers(scaled):
    """Control characters do not reach the terminal."""
    scaled.write({"\x1b[2Jtraced": scaled.x}, dimension([("x", 1)], 8, 1, 9, above="\x1b[31m" + "long " * 1000),
                 warnings=["\x1b]0;title\x07"])
    result = scaled.compile(*SEQ, "--verify")
    report = cleave("verify", "model.plan", "--model", "model.pt", cwd=scaled.folder)
    assert "\x1b" not in result.out + result.err + report.out + report.err
    assert max(map(len, result.out.splitlines())) < 1000


def test_json(scaled):
    scaled.write({"traced": scaled.x, "permuted": scaled.x.flip(1)})
    report = json.loads(scaled.compile("--verify", "--json").out)
    assert report["witnesses"] == ["traced", "permuted"] and report["witness_error"] <= report["witness_allowed"]


# Files that cleave-trace writes ---------------------------------------------------------------------------------------

MODULES = """
import torch
from torch import nn

class Windows(nn.Module):
    def forward(self, x):
        count = int(x.size(1)) // 4
        windows = x.reshape(-1, count, 4, x.size(2))
        return (windows - windows.mean(2, keepdim=True)).reshape(x.shape)

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.windows, self.out = Windows(), nn.Linear(8, 8)

    def forward(self, x):
        return self.out(self.windows(x))

class Positions(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(24, 8)

    def forward(self, x):
        return torch.tanh(x + self.table(torch.arange(x.size(1))))

class Attends(nn.Module):
    def forward(self, q, k):
        found = (q @ k.mT).softmax(-1) @ k
        return found * 3 if q.size(1) == k.size(1) else found

def attends():
    return Attends().eval(), (torch.randn(2, 6, 8), torch.randn(2, 6, 8))

def block():
    torch.manual_seed(0)
    return Block().eval(), (torch.randn(2, 8, 8),)

def positions():
    torch.manual_seed(0)
    return Positions().eval(), (torch.randn(2, 8, 8),)
"""


@pytest.fixture
def trace(tmp_path):
    pytest.importorskip("cleave_trace.witnesses")
    from cleave_trace import cli

    (tmp_path / "modules.py").write_text(MODULES)

    def traced(name, *options):
        assert cli.main([f"{tmp_path / 'modules.py'}:{name}", *options, "-o", str(tmp_path / "model.pt")]) == 0
        return ("compile", "model.pt", "--inputs", "model.inputs.safetensors", "-o", "model.plan")

    return traced


def test_a_traced_loop(trace, tmp_path):
    """Its trace follows the module at no other length, and compile says in which submodule."""
    compile = trace("block")
    message = refused(tmp_path, *compile, *SEQ)
    assert message.startswith("error: --dynamic x=_,seq,_: found a trace that equals the module at 8 alone ("), message
    assert ", in windows)" in message
    assert SAME_ERROR in cleave(*compile, "--verify", cwd=tmp_path).out


def test_a_traced_range(trace, tmp_path):
    compile = trace("positions")
    out = cleave(*compile, "--dynamic", "x=batch,seq,_", "--verify", cwd=tmp_path).out
    assert SAME_ERROR in out and "seq: trace and module agree at 1 to 24 (at 25 the module fails" in out
    save_file({"x": numbers(2, 25, 8)}, tmp_path / "longer.safetensors")
    assert "dimension 1 (seq) is 25, expected 1 to 24, where" in run_refused(tmp_path / "model.plan", "longer.safetensors")
    save_file({"x": numbers(5, 24, 8)}, tmp_path / "longest.safetensors")
    cleave("run", "model.plan", "--inputs", "longest.safetensors", cwd=tmp_path)


def test_sizes_that_were_compared_together_are_not_named_apart(trace, tmp_path):
    apart = ("--dynamic", "q=batch,n,_", "--dynamic", "k=batch,m,_")
    compile = trace("attends")
    assert refused(tmp_path, *compile, *apart) == (
        "error: --dynamic k=batch,m,_: found the name m for dimension 1 of input k and not for dimension 1 of input q, whose sizes "
        "cleave-trace changed together, expected one name for both; name both so, or give cleave-trace these --dynamic, or pass "
        "--beyond-witnesses")
    assert "found the name n" in refused(tmp_path, *compile, "--dynamic", "q=_,n,_")
    cleave(*compile, *apart, "--beyond-witnesses", cwd=tmp_path)
    assert SAME_ERROR in cleave(*compile, "--dynamic", "q=batch,n,_", "--dynamic", "k=batch,n,_", "--verify", cwd=tmp_path).out
    compile = trace("attends", *apart)
    assert "found a trace that equals the module at 6 alone" in refused(tmp_path, *compile, *apart)
