"""Output that cannot be written, or not to its end: one clear error, and what was there before."""

import os
import pathlib
import resource
import signal
import subprocess
import time
from typing import List, Tuple

import pytest
import torch
from safetensors.torch import save_file

from conftest import BIN, cleave, compile_refused, contents, everything_below, execute, refused, run_refused


# Where it cannot be written -----------------------------------------------------------------------------------------


def occupy_with_a_file(path):
    path.write_text("precious")


def occupy_with_a_folder(path):
    path.mkdir()
    (path / "precious").write_text("")


@pytest.mark.parametrize("occupy", [occupy_with_a_file, occupy_with_a_folder])
def test_what_is_no_plan_is_not_replaced(model, occupy):
    occupy(model.parent / "taken")
    message = compile_refused(model, "-o", "taken")
    assert "taken" in message and "remove it, or give another name" in message


# Nobody may make folders in /proc, root included.
@pytest.mark.parametrize("output", ["no/such/folder", "model.pt/new.plan", "/proc/new.plan", "", "."])
def test_an_output_that_cannot_be_made(model, plan, output):
    compile_refused(model, "-o", output)
    if output:
        run_refused(plan, model.parent / "model.inputs.safetensors", "--outputs", output)


def occupy_with_a_text(path):
    path.mkdir()
    (path / "plan.fb").write_text("precious")


def occupy_with_a_folder_of_that_name(path):
    (path / "plan.fb").mkdir(parents=True)
    (path / "plan.fb/precious").write_text("")


@pytest.mark.parametrize("occupy", [occupy_with_a_text, occupy_with_a_folder_of_that_name])
def test_what_only_has_a_plans_name_is_not_replaced(model, occupy):
    occupy(model.parent / "taken")
    assert "plan.fb" in compile_refused(model, "-o", "taken")


def test_a_failure_leaves_the_older_plan(model, plan):
    """`refused` looks at what is there."""
    compile_refused(model, "--devices", "1000", "-o", plan.name)
    cleave("compile", model.name, "--inputs", "model.inputs.safetensors", "--devices", 3, "-o", plan.name, cwd=plan.parent)
    assert len(contents(plan)) == 4


def limit_file_size():
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))


def test_a_limit_on_the_size_of_files(model, plan):
    inputs = model.parent / "model.inputs.safetensors"
    remedy = "File too large; raise the limit on the size of files (ulimit -f)"
    assert remedy in compile_refused(model, preexec_fn=limit_file_size)
    assert remedy in run_refused(plan, inputs, preexec_fn=limit_file_size)


LINEAR = "import torch\ndef build():\n    return torch.nn.Linear(2, 2), torch.ones(1, 2)\n"


def test_a_trace_leaves_nothing_else(tmp_path):
    (tmp_path / "linear.py").write_text(LINEAR)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    execute("cleave-trace", "linear.py:build", "-o", "m.pt", cwd=tmp_path, env=environment)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "linear.py", "m.inputs.safetensors", "m.outputs.safetensors", "m.pt", "m.witnesses.safetensors"]


def test_a_limit_on_the_size_of_traces(tmp_path):
    """TorchScript would abort, and leave its folder."""
    (tmp_path / "linear.py").write_text(LINEAR)
    # Python itself would keep a part of the bytecode of cleave-trace, and not take it.
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    result = execute("cleave-trace", "linear.py:build", "-o", "m.pt", status=1, cwd=tmp_path, env=environment,
                     preexec_fn=limit_file_size)
    assert "raise the limit (ulimit -f)" in result.err.splitlines()[-1]
    assert [path.name for path in tmp_path.iterdir()] == ["linear.py"]


@pytest.mark.parametrize("trace", ["no/such/trace.json", "model.pt/trace.json", "/proc/trace.json", "folder"])
def test_a_trace_that_cannot_be_written(model, plan, trace):
    """Neither are the outputs, and nothing is run: the inputs would fail."""
    (model.parent / "folder").mkdir()
    message = run_refused(plan, "no.safetensors", "--trace", trace)
    assert message.startswith("error: cannot write '") and f"{trace}': " in message, message


@pytest.mark.parametrize("target", ["inputs", "a symbolic link to inputs", "a hard link to inputs", "plan.fb", "a new file",
                                    "a symbolic link to plan.fb", "a hard link to plan.fb", "a link into the plan"])
def test_outputs_do_not_replace_what_is_read(model, plan, target):
    inputs, link = model.parent / "model.inputs.safetensors", model.parent / "link"
    if "inputs" in target or "plan.fb" in target:
        link = inputs if "inputs" in target else plan / "plan.fb"
    if target.startswith("a symbolic link"):
        (model.parent / "link").symlink_to(link)
        link = model.parent / "link"
    elif target.startswith("a hard link"):
        os.link(link, model.parent / "link")
        link = model.parent / "link"
    elif target == "a new file":
        link = plan / "outputs.safetensors"
    elif target == "a link into the plan":
        (model.parent / "folder").symlink_to(plan)
        link = model.parent / "folder/outputs.safetensors"
    assert "give another name" in run_refused(plan, inputs, "--outputs", link)


def test_a_limit_on_the_size_of_emitted_ir(model):
    (model.parent / "ir").mkdir()
    message = compile_refused(model, "--emit-ir", "ir", preexec_fn=limit_file_size)
    assert message.startswith("error: --emit-ir: cannot write ") and "ulimit -f" in message


@pytest.mark.parametrize("is_there", [False, True])
@pytest.mark.parametrize("ir, why", [("new.plan", "is in the folder of the plan"), ("./new.plan/ir/x", "is in the folder of the plan"),
                                     ("link/new.plan/ir", "is in the folder of the plan"), ("dangling", "is a link to nothing"),
                                     ("dangling/ir", "dangling is a link to nothing")])
def test_emitted_ir_is_elsewhere_than_the_plan(model, ir, why, is_there):
    """Before the work, which would fail: there is no model."""
    if is_there:
        (model.parent / "new.plan").mkdir()
    (model.parent / "link").symlink_to(".")
    (model.parent / "dangling").symlink_to("none")
    model.unlink()
    assert compile_refused(model, "--emit-ir", ir).startswith(f"error: --emit-ir {ir}: {why}")


def test_links_to_nothing_stay(model):
    """Before the work, which would fail: there is no model."""
    model.unlink()
    for name, target in (("dangling", "none"), ("loop", "loop")):
        (model.parent / name).symlink_to(target)
        assert f"cannot write '{name}': it is a link to nothing" in refused(model.parent, "compile", model.name, "-o", name)
        assert f"cannot write '{name}': it is a link to nothing" in refused(
            model.parent, "simulate", model.name, "--inputs", "model.inputs.safetensors", "--trace", name)
        assert f"cannot write '{name}': it is a link to nothing" in refused(model.parent, "cut", "graph.json", "-o", name)


def test_emitted_ir_does_not_replace_a_folder(model):
    (model.parent / "ir/01-strip-boundaries.mlir").mkdir(parents=True)
    assert "01-strip-boundaries.mlir" in compile_refused(model, "--emit-ir", "ir")


def test_emitted_ir_shows_where_a_pass_failed(model):
    cleave("compile", model.name, "--input", "input_ids:f32[2,16]", "-o", "new.plan", "--emit-ir", "ir", cwd=model.parent,
           status=1)
    last = max((model.parent / "ir").iterdir())
    assert "infer-types" in last.name and "aten.embedding" in last.read_text()
    assert not (model.parent / "new.plan").exists()


class Prints(torch.nn.Module):
    def forward(self, x):
        print("in forward")
        return x + 1


@pytest.mark.parametrize("command", ["compile", "run", "verify", "inspect"])
def test_a_full_standard_output(model, plan, command):
    arguments = {"compile": (model.name, "--inputs", "model.inputs.safetensors", "-o", "new.plan"),
                 "run": (plan.name, "--inputs", "model.inputs.safetensors"),
                 "verify": (plan.name, "--model", model.name), "inspect": (plan.name,)}
    with open("/dev/full", "w") as full:
        result = cleave(command, *arguments[command], status=1, cwd=model.parent, stdout=full)
    assert result.err.startswith("error: cannot write to the standard output: ")
    assert len(result.err.splitlines()) == 1


def test_a_full_standard_error(tmp_path):
    """What a model prints is no part of what is asked for."""
    torch.jit.save(torch.jit.script(Prints()), tmp_path / "model.pt")
    with open("/dev/full", "w") as full:
        result = cleave("compile", "model.pt", "--input", "x:f32[3]", "--verify", "-o", "new.plan", cwd=tmp_path, stderr=full)
    assert result.out.startswith("new.plan: 1 stage") and (tmp_path / "new.plan/plan.fb").exists()


def test_a_standard_output_that_nobody_reads(model):
    """Any program dies of that; the plan is in place by then."""
    reading, writing = os.pipe()
    os.close(reading)
    result = cleave("compile", model.name, "--inputs", "model.inputs.safetensors", "-o", "new.plan", status=-signal.SIGPIPE,
                    cwd=model.parent, stdout=writing)
    os.close(writing)
    assert not result.err and (model.parent / "new.plan/plan.fb").exists()


@pytest.fixture
def tiny_disk(tmp_path):
    """A file system of 64 KiB, on which no plan has room."""
    if os.geteuid() != 0:
        pytest.skip("NOT TESTED: a full disk takes root, to mount one")
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", folder], capture_output=True, text=True)
    if mount.returncode != 0:
        pytest.skip(f"NOT TESTED: a full disk cannot be mounted here: {mount.stderr}")
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=True)


def test_a_disk_without_room(model, plan, tiny_disk):
    assert "No space left on device; free some space" in compile_refused(model, "-o", tiny_disk / "new.plan")
    (tiny_disk / "filler").write_bytes(bytes(56 << 10))
    outputs = tiny_disk / "outputs.safetensors"
    assert "No space left on device; free some space" in run_refused(plan, "model.inputs.safetensors", "--outputs", outputs)
    assert "No space left on device" in run_refused(plan, "model.inputs.safetensors", "--repeat", 200, "--trace",
                                                    tiny_disk / "trace.json")
    (tiny_disk / "ir").mkdir()
    assert "free some space" in compile_refused(model, "--emit-ir", tiny_disk / "ir")


# What ends a command ------------------------------------------------------------------------------------------------

# While the model is read; while shards are written, or just after; while the plan is verified.
MOMENTS = pytest.mark.parametrize("moment", ["", "rank-*.safetensors", "plan.fb"], ids=["reading", "writing", "verifying"])
SIGNALS = pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name)


def start(model, *arguments):
    return subprocess.Popen([BIN / "cleave", *map(str, arguments)], cwd=model.parent, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True)


def start_compile(model, moment):
    """A compilation that has come as far as `moment`."""
    process = start(model, "compile", model.name, "--inputs", "model.inputs.safetensors", "--devices", 4, "--verify", "-o",
                    "new.plan")
    while process.poll() is None and not list(model.parent.glob(f".new.plan.partial-*/{moment}")):
        time.sleep(0.001)
    return process


def child_of(process):
    """The process in which `cleave compile` and `cleave verify` work."""
    while not (children := pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()):
        time.sleep(0.001)
    return int(children[0])


@SIGNALS
@MOMENTS
def test_a_killed_compile_leaves_nothing(model, number, moment):
    before = everything_below(model.parent)
    process = start_compile(model, moment)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (-number, "", f"error: compile: stopped by {number.name}\n")
    assert everything_below(model.parent) == before


def test_ctrl_c_reaches_both_processes(model):
    """A terminal gives it to the whole group; a shell shows it as 128 and the signal's number."""
    before = everything_below(model.parent)
    command = f"{BIN}/cleave compile model.pt --inputs model.inputs.safetensors --verify -o new.plan; echo $?"
    # A shell that is no terminal's has children ignore SIGINT only behind &.
    process = subprocess.Popen(["bash", "-c", f"trap : INT; {command}"], cwd=model.parent, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True, start_new_session=True)
    while not list(model.parent.glob(".new.plan.partial-*")):
        time.sleep(0.001)
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert out == "130\n" and err == "error: compile: stopped by SIGINT\n"
    assert everything_below(model.parent) == before


@SIGNALS
def test_a_killed_run_leaves_nothing(model, plan, number):
    before = everything_below(model.parent)
    process = start(model, "run", plan.name, "--inputs", "model.inputs.safetensors", "--outputs", "outputs.safetensors",
                    "--repeat", 1000000000)
    # Until it computes.
    while len(os.listdir(f"/proc/{process.pid}/task")) < 3:
        time.sleep(0.001)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (-number, "", f"error: run: stopped by {number.name}\n")
    assert everything_below(model.parent) == before


@MOMENTS
@pytest.mark.parametrize("number, words", [(signal.SIGSEGV, "crashed (SIGSEGV)"), (signal.SIGABRT, "crashed (SIGABRT)"),
                                           (signal.SIGKILL, "want of memory"), (signal.SIGRTMIN, "crashed (signal 34)")],
                         ids=lambda value: getattr(value, "name", ""))
def test_a_crash_is_one_error(model, number, words, moment):
    """The process that works on the file dies of it, as libtorch may."""
    before = everything_below(model.parent)
    process = start_compile(model, moment)
    os.kill(child_of(process), number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 1 and not out
    assert err.startswith("error: compile: model.pt: ") and words in err and len(err.splitlines()) == 1
    assert everything_below(model.parent) == before


@pytest.mark.parametrize("handler", [signal.SIG_DFL, signal.SIG_IGN], ids=["", "where SIGTERM is ignored"])
def test_work_ends_with_the_command(tmp_path, handler):
    """Even where that is killed, which it cannot see coming: the work itself would take for ever."""
    torch.jit.save(torch.jit.script(Endless(0)), tmp_path / "model.pt")
    before = everything_below(tmp_path)
    process = subprocess.Popen([BIN / "cleave", "compile", "model.pt", "--input", "x:f32[3]", "-o", "new.plan"], cwd=tmp_path,
                               stderr=subprocess.PIPE, preexec_fn=lambda: signal.signal(signal.SIGTERM, handler))
    while process.poll() is None and not list(tmp_path.glob(".new.plan.partial-*")):
        time.sleep(0.001)
    process.kill()
    # The pipe has an end once no process has its other one.
    process.communicate(timeout=60)
    while everything_below(tmp_path) != before:
        time.sleep(0.001)


# Limits -------------------------------------------------------------------------------------------------------------


class Endless(torch.nn.Module):
    """A file that computes for ever, and takes memory for it, as soon as it is opened."""

    kept: List[torch.Tensor]

    def __init__(self, step: int):
        super().__init__()
        self.step = step
        self.kept = []

    def forward(self, x):
        return x + 1

    @torch.jit.export
    def __getstate__(self):
        return self.step, self.training

    @torch.jit.export
    def __setstate__(self, state: Tuple[int, bool]):
        self.step = state[0]
        self.training = state[1]
        self.kept = []
        while True:
            self.kept.append(torch.ones([self.step]))


@pytest.mark.parametrize("step, limit, words", [
    (0, ("--time-limit", 1), "took longer than 1 s and was stopped; allow more with --time-limit"),
    (1 << 20, ("--memory-limit", "300MB", "--time-limit", 60), "took more than 300.0 MB of memory and was stopped; allow more with --memory-limit"),
], ids=["time", "memory"])
def test_a_file_that_takes_all(tmp_path, plan, step, limit, words):
    # Not loaded here, and so saved before it is asked to do anything.
    torch.jit.save(torch.jit.script(Endless(step)), tmp_path / "model.pt")
    save_file({"x": torch.ones(3)}, tmp_path / "model.inputs.safetensors")
    assert compile_refused(tmp_path / "model.pt", *limit) == f"error: compile: model.pt: {words}"
    message = refused(tmp_path, "verify", plan.name, "--model", "model.pt", *limit)
    assert message == f"error: verify: model.pt: {words}"


@torch.jit.script
def print_without_end(line: str):
    while True:
        print(line)


class Talks(torch.nn.Module):
    """As it is opened, in a thread that does not end; then it fails, or waits for it."""

    def __init__(self, length: int, fails: bool):
        super().__init__()
        self.length = length
        self.fails = fails

    def forward(self, x):
        return x + 1

    @torch.jit.export
    def __getstate__(self):
        return self.length, self.fails, self.training

    @torch.jit.export
    def __setstate__(self, state: Tuple[int, bool, bool]):
        self.length = state[0]
        self.fails = state[1]
        self.training = state[2]
        line = "A"
        while len(line) < self.length:
            line = line + line
        talk = torch.jit.fork(print_without_end, line)
        if self.fails:
            # The thread is likely to have begun by then.
            product = torch.ones(200, 200)
            for i in range(20):
                product = torch.mm(product, product)
            raise ValueError("done")
        torch.jit.wait(talk)


def test_the_error_is_a_line_of_its_own(tmp_path):
    """Where the work is killed amid a line, which is longer than a pipe is wide."""
    torch.jit.save(torch.jit.script(Talks(1 << 20, False)), tmp_path / "model.pt")
    process = start(tmp_path / "model.pt", "compile", "model.pt", "--input", "x:f32[3]", "-o", "new.plan", "--time-limit", 1)
    child = child_of(process)
    while os.path.exists(f"/proc/{child}"):
        time.sleep(0.01)
    err = process.communicate(timeout=60)[1]
    assert err.startswith("model: AAA") and err.count("error: ") == 1
    assert err.splitlines()[-1].startswith("error: compile: model.pt: took longer than 1 s")


def test_the_error_is_the_last_line(tmp_path):
    """And ends the work, whatever threads of the model still do."""
    torch.jit.save(torch.jit.script(Talks(1, True)), tmp_path / "model.pt")
    result = cleave("compile", "model.pt", "--input", "x:f32[3]", "-o", "new.plan", "--time-limit", 60, status=1, cwd=tmp_path)
    *lines, error = result.err.splitlines()
    assert error.startswith("error: model.pt: ") and error.endswith("done")
    assert all(line == "model: A" for line in lines)


def test_limits_that_hold(model):
    cleave("compile", model.name, "--inputs", "model.inputs.safetensors", "--verify", "-o", "new.plan", "--memory-limit", "4GB",
           "--time-limit", 600, cwd=model.parent)
    cleave("verify", "new.plan", "--model", model.name, "--memory-limit", 0, "--time-limit", 0, cwd=model.parent)
