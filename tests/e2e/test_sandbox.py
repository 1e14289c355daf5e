"""What a model, and a plan, cannot reach: others' files, processes, the network."""

import contextlib
import ctypes
import errno
import json
import os
import shutil
import signal
import struct
import subprocess
import time
from typing import Tuple

import pytest
import torch
from safetensors.torch import load_file, save_file

from conftest import BIN, cleave, contents, everything_below, rewrite_records

SECRET = b"a secret of 32 bytes, as float32"
HINT = "; a model may open no files of its own: if you trust it, pass --trust"
INPUTS = ("--inputs", "model.inputs.safetensors")


# What a model tries ---------------------------------------------------------------------------------------------------


class Plain(torch.nn.Module):
    def forward(self, x):
        return x.relu()


class AtLoad(torch.nn.Module):
    """Does something with a file as soon as it is opened."""

    def __init__(self, path: str, act: int):
        super().__init__()
        self.path = path
        self.act = act
        self.found = torch.zeros(8)

    def forward(self, x):
        return x + self.found

    @torch.jit.export
    def __getstate__(self):
        return self.path, self.act, self.training

    @torch.jit.export
    def __setstate__(self, state: Tuple[str, int, bool]):
        self.path = state[0]
        self.act = state[1]
        self.training = state[2]
        self.found = torch.zeros(8)
        if self.act == 0:
            self.found = torch.from_file(self.path, False, 8).clone()
        elif self.act == 1:
            # Kept, or it would be left out as dead code.
            self.found = torch.from_file(self.path, True, 8).copy_(torch.ones(8))
        else:
            torch.save(torch.ones(8), self.path)


class InForward(torch.nn.Module):
    """Does it where the operators of forward are run: to find their results' types, or to verify."""

    def __init__(self, path: str, act: int):
        super().__init__()
        self.path = path
        self.act = act

    def forward(self, x):
        if self.act == 0:
            return x + torch.from_file(self.path, False, 8)
        if self.act == 1:
            return x + torch.from_file(self.path, True, 8).copy_(x)
        torch.save(x, self.path)
        return x + 1


READS, WRITES, SAVES = 0, 1, 2


@pytest.fixture
def folder(tmp_path):
    """A user's: a secret, inputs, and a plan of somebody else."""
    (tmp_path / "secret").write_bytes(SECRET)
    (tmp_path / "link").symlink_to(tmp_path / "secret")
    save_file({"x": torch.ones(8)}, tmp_path / "model.inputs.safetensors")
    (tmp_path / "other.plan").mkdir()
    (tmp_path / "other.plan/plan.fb").write_bytes(SECRET)
    return tmp_path


def put(folder, module):
    torch.jit.save(torch.jit.script(module), folder / "model.pt")


def rewrite(folder, old, new):
    """Puts other words into the model's code."""
    rewrite_records(folder / "model.pt", lambda name, data: data.replace(old.encode(), new.encode()))


def compile_refused(folder, *options, command=("compile", "model.pt", *INPUTS, "-o", "new.plan"), **more):
    """The one line with which it fails, having changed nothing."""
    before = everything_below(folder), contents(folder / "other.plan")
    result = cleave(*command, *options, status=1, cwd=folder, **more)
    assert not result.out and len(result.err.splitlines()) == 1 and result.err.startswith("error: "), result.err
    assert (everything_below(folder), contents(folder / "other.plan")) == before
    assert SECRET.decode() not in result.err
    return result.err.rstrip()


PATHS = {"secret": "{}/secret", "link": "link", "plan": "other.plan/plan.fb", "passwd": "/etc/passwd",
         "environment": "/proc/self/environ"}


@pytest.mark.parametrize("name", PATHS)
def test_a_model_reads_no_files_at_load(folder, name):
    put(folder, AtLoad(PATHS[name].format(folder), READS))
    message = compile_refused(folder)
    assert message.startswith("error: model.pt: ") and message.endswith(HINT) and "Permission denied" in message


@pytest.mark.parametrize("name", ["secret", "plan", "model.pt", "model.inputs.safetensors", "/dev/shm/new"])
def test_a_model_writes_no_files_at_load(folder, name):
    """Its own and its inputs, which it may read, neither."""
    put(folder, AtLoad(PATHS.get(name, name).format(folder), WRITES))
    assert compile_refused(folder).endswith(HINT)
    assert not os.path.exists("/dev/shm/new")


@pytest.mark.parametrize("name", ["secret", "new"])
def test_a_model_saves_nothing(folder, name):
    """torch.save itself does not say that it could not open the file."""
    for module in (AtLoad(name, SAVES), InForward(name, SAVES)):
        put(folder, module)
        before = set(everything_below(folder)), contents(folder / "other.plan"), (folder / "model.pt").read_bytes()
        with contextlib.suppress(AssertionError):
            cleave("compile", "model.pt", *INPUTS, "--verify", "-o", "new.plan", cwd=folder)
        shutil.rmtree(folder / "new.plan", ignore_errors=True)
        assert (set(everything_below(folder)), contents(folder / "other.plan"), (folder / "model.pt").read_bytes()) == before
        assert (folder / "secret").read_bytes() == SECRET


@pytest.mark.parametrize("act", [READS, WRITES])
def test_a_model_reaches_no_files_in_forward(folder, act):
    """Its plan calls an operator that no plan may, and where that is allowed the sandbox stays."""
    put(folder, InForward("secret", act))
    compile_refused(folder, "--verify")
    report = cleave("compile", "model.pt", *INPUTS, "-o", "new.plan", cwd=folder)
    assert "--allow-operator aten::from_file" in report.out
    assert not any(SECRET in data for data in contents(folder / "new.plan").values())
    for allowed, expected in (((), "which not every plan may"), (("--allow-operator", "aten::from_file"), "Permission denied")):
        assert expected in compile_refused(folder, *allowed, command=("run", "new.plan", *INPUTS))
    assert (folder / "secret").read_bytes() == SECRET


@pytest.mark.parametrize("act", [READS, WRITES])
def test_verify_and_simulate_run_a_model_in_it_too(folder, act):
    put(folder, AtLoad("secret", act))
    assert compile_refused(folder, command=("simulate", "model.pt", *INPUTS)).endswith(HINT)
    shutil.copy(folder / "secret", folder / "kept")
    cleave("compile", "model.pt", *INPUTS, "--trust", "-o", "new.plan", cwd=folder)
    shutil.copy(folder / "kept", folder / "secret")
    assert compile_refused(folder, command=("verify", "new.plan", "--model", "model.pt")).endswith(HINT)


@pytest.mark.parametrize("target", ["", "/secret"], ids=["a folder", "a file"])
def test_links_that_came_with_a_model_lead_nowhere(folder, tmp_path_factory, target):
    """Of names that the command line does not have: a preset's, and those of inputs and witnesses beside the model."""
    sent = tmp_path_factory.mktemp("sent")
    put(sent, AtLoad(f"{folder}/secret", READS))
    cleave("compile", "model.pt", "--input", "x:f32[8]", "--trust", "-o", "mine", cwd=sent)
    (sent / "cpu:4").symlink_to(f"{folder}{target}")
    for kind in ("inputs", "witnesses"):
        (sent / f"model.{kind}.safetensors").symlink_to(f"{folder}{target}")
    for command in (("compile", "model.pt", "--input", "x:f32[8]", "--machine", "cpu:4", "--devices", 1, "-o", "new"),
                    ("verify", "mine", "--model", "model.pt")):
        assert cleave(*command, cwd=sent, status=1).err.rstrip().endswith(HINT)


def test_a_model_that_is_trusted_may(folder):
    put(folder, AtLoad("secret", READS))
    cleave("compile", "model.pt", *INPUTS, "--trust", "--verify", "-o", "new.plan", cwd=folder)
    assert any(SECRET in data for data in contents(folder / "new.plan").values())
    report = cleave("compile", "model.pt", *INPUTS, "--trust", "--json", "-o", "new.plan", cwd=folder).json()
    assert report["protection"] == "nothing"


def test_a_default_of_an_argument_reads_nothing(folder):
    """It is evaluated as the code is imported, before anything is called."""
    put(folder, Plain())
    rewrite(folder, "x: Tensor)", "x: Tensor,\n    more: Tensor=torch.from_file('secret', False, 8))")
    assert compile_refused(folder).endswith(HINT)
    assert "which no plan may call" in compile_refused(folder, preexec_fn=without(LANDLOCK, errno.ENOSYS))


def test_recursion_without_end(folder):
    put(folder, Plain())
    rewrite(folder, "torch.relu(x)", 200000 * "(" + "x" + 200000 * ")")
    compile_refused(folder)


def test_threads_are_allowed(folder):
    """Enough work for all of OpenMP's."""
    put(folder, torch.nn.Sequential(torch.nn.Linear(8, 65536), torch.nn.Softmax(-1)).eval())
    cleave("compile", "model.pt", "--input", "input:f32[1,8]", "--verify", "-o", "new.plan", cwd=folder, env={**os.environ, "OMP_NUM_THREADS": "8"})


# What its process tries -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def attacks(tmp_path_factory):
    """A library whose code runs in the process that compiles, once that is in the sandbox."""
    library = tmp_path_factory.mktemp("library") / "attacks.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, os.path.join(os.path.dirname(__file__), "attacks.c")], check=True)
    return library


def outcomes(result):
    lines = [line.rsplit(" ", 1) for line in result.err.splitlines()]
    return {name: errno.errorcode.get(int(number), "done") for name, number in lines}


REFUSED = {"read": "EACCES", "write": "EACCES", "create": "EACCES", "remove": "EACCES", "chmod": "EPERM", "utimes": "EPERM",
           "list": "EACCES", "symlink": "EPERM", "replace the model": "EACCES", "replace a plan": "EACCES", "passwd": "EACCES",
           "environment": "EACCES", "socket": "EPERM", "signal": "EPERM", "outlive": "EINVAL", "fork": "EPERM", "exec": "EPERM"}


@pytest.mark.parametrize("command", ["compile", "verify", "simulate", "run"])
def test_what_its_process_cannot_do(folder, attacks, command):
    put(folder, Plain())
    cleave("compile", "model.pt", *INPUTS, "-o", "mine", cwd=folder)
    arguments = {"compile": ("model.pt", *INPUTS, "-o", "new.plan"), "verify": ("mine", "--model", "model.pt"),
                 "simulate": ("model.pt", *INPUTS, "--trace", "trace.json"),
                 "run": ("mine", *INPUTS, "--outputs", "outputs.safetensors")}[command]
    result = cleave(command, *arguments, "--library", attacks, cwd=folder, env={**os.environ, "ATTACKED": str(folder)})
    assert outcomes(result) == REFUSED
    assert (folder / "secret").read_bytes() == SECRET and not (folder / "new").exists()


class Endless(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.steps = 0

    def forward(self, x):
        return x + 1

    @torch.jit.export
    def __getstate__(self):
        return self.steps, self.training

    @torch.jit.export
    def __setstate__(self, state: Tuple[int, bool]):
        self.steps = state[0]
        self.training = state[1]
        while True:
            self.steps += 1


def test_a_sigint_ends_it_whatever_it_says(folder, attacks):
    """The first one may end a search, of which the process itself says whether there is one."""
    put(folder, Endless())
    process = subprocess.Popen([BIN / "cleave", "compile", "model.pt", *INPUTS, "-o", "new.plan", "--time-limit", "60",
                                "--library", attacks], cwd=folder, stderr=subprocess.PIPE, env={**os.environ, "LISTENS": "1"})
    while process.poll() is None:
        if list(folder.glob(".new.plan.partial-*")):
            process.send_signal(signal.SIGINT)
        time.sleep(0.1)
    assert process.communicate()[1] == b"error: compile: stopped by SIGINT\n" and process.returncode == -signal.SIGINT


def test_what_it_can_do_without(folder, attacks):
    """The same attacks succeed where nothing keeps them back."""
    put(folder, Plain())
    cleave("compile", "model.pt", *INPUTS, "-o", "mine", cwd=folder)
    result = cleave("run", "mine", *INPUTS, "--sandbox", "off", "--library", attacks, cwd=folder,
                    env={**os.environ, "ATTACKED": str(folder)})
    found = outcomes(result)
    # The last one takes the process' place.
    assert found.keys() == REFUSED.keys() - {"exec"} and set(found.values()) <= {"done", "ENOENT"}


# Where the system has no sandbox --------------------------------------------------------------------------------------

LANDLOCK, SECCOMP = 444, {"x86_64": 317, "aarch64": 277}[os.uname().machine]


def without(call, error):
    """Makes a system call fail in the process that is started, as on a system that lacks it."""
    statement = lambda code, jt, jf, k: struct.pack("HBBI", code, jt, jf, k)
    program = ctypes.create_string_buffer(statement(0x20, 0, 0, 0) + statement(0x15, 0, 1, call) +
                                          statement(0x06, 0, 0, 0x00050000 | error) + statement(0x06, 0, 0, 0x7FFF0000))

    class Filter(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ushort), ("code", ctypes.c_void_p)]

    libc = ctypes.CDLL(None, use_errno=True)
    filter = Filter(4, ctypes.addressof(program))
    filter.program = program  # Or it would be freed.

    def install():
        PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS, MODE_FILTER = 22, 38, 2
        nothing = ctypes.c_ulong(0)
        if libc.prctl(PR_SET_NO_NEW_PRIVS, ctypes.c_ulong(1), nothing, nothing, nothing):
            os._exit(3)
        if libc.prctl(PR_SET_SECCOMP, ctypes.c_ulong(MODE_FILTER), ctypes.byref(filter), nothing, nothing):
            os._exit(4)

    return install


MISSING = pytest.mark.parametrize("call, error, what", [
    (LANDLOCK, errno.ENOSYS, "Landlock: Function not implemented"), (LANDLOCK, errno.EPERM, "Landlock: Operation not permitted"),
    (LANDLOCK, errno.EOPNOTSUPP, "Landlock: Operation not supported"), (SECCOMP, errno.EPERM, "seccomp: Operation not permitted"),
], ids=["no landlock", "landlock forbidden", "landlock off", "no seccomp"])


@MISSING
def test_operators_are_looked_at_where_there_is_no_sandbox(folder, call, error, what):
    for module in (AtLoad("secret", WRITES), AtLoad("new", SAVES), InForward("secret", READS)):
        put(folder, module)
        message = compile_refused(folder, preexec_fn=without(call, error))
        assert "which no plan may call" in message and message.endswith("if you trust the model, pass --trust")
    put(folder, Plain())
    result = cleave("compile", "model.pt", *INPUTS, "--verify", "-o", "new.plan", cwd=folder, preexec_fn=without(call, error))
    assert f"note: the model could call listed operators only, since it had no complete sandbox ({what})" in result.out
    result = cleave("verify", "new.plan", "--model", "model.pt", "--json", cwd=folder, preexec_fn=without(call, error))
    assert ("landlock" in result.json()["protection"]) == (call == SECCOMP)


SOURCE = "code/__torch__/test_sandbox"


def test_source_in_capitals(folder):
    """libtorch finds records by names of other case."""
    put(folder, AtLoad("secret", READS))
    rewrite_records(folder / "model.pt", renamed={SOURCE + ".py": SOURCE + ".PY"})
    assert "which no plan may call" in compile_refused(folder, preexec_fn=without(LANDLOCK, errno.ENOSYS))


def test_source_twice_but_for_case(folder):
    put(folder, AtLoad("secret", READS))
    rewrite_records(folder / "model.pt", renamed={SOURCE + ".py": SOURCE + ".PY"}, added={SOURCE + ".py": b"class AtLoad(Module):\n  pass\n"})
    message = compile_refused(folder, preexec_fn=without(LANDLOCK, errno.ENOSYS))
    assert message == f"error: model.pt: record model/{SOURCE}.py is in the archive twice; copy or save the model again"


@MISSING
def test_a_run_without_a_sandbox_says_so(folder, call, error, what):
    put(folder, Plain())
    cleave("compile", "model.pt", *INPUTS, "-o", "new.plan", cwd=folder)
    run = ("run", "new.plan", *INPUTS, "--outputs", "outputs.safetensors")
    message = compile_refused(folder, command=run + ("--sandbox", "on"), preexec_fn=without(call, error))
    assert message.startswith("error: --sandbox on: this system has no complete sandbox") and what in message
    result = cleave(*run, cwd=folder, preexec_fn=without(call, error))
    assert result.err.startswith("note: no complete sandbox on this system") and what in result.err
    assert not cleave(*run, "--sandbox", "off", cwd=folder, preexec_fn=without(call, error)).err
    # Before anything runs: also where that fails then.
    save_file({"y": torch.ones(8)}, folder / "wrong.safetensors")
    result = cleave("run", "new.plan", "--inputs", "wrong.safetensors", status=1, cwd=folder, preexec_fn=without(call, error))
    assert [line.split(":")[0] for line in result.err.splitlines()] == ["note", "error"]


# Runs -----------------------------------------------------------------------------------------------------------------


def test_the_report_says_what_protects(folder):
    put(folder, Plain())
    report = cleave("compile", "model.pt", *INPUTS, "--json", "-o", "new.plan", cwd=folder).json()
    assert report["protection"].startswith("landlock ") and report["protection"].endswith(", seccomp")


@pytest.mark.parametrize("choice", ["auto", "on", "off"])
def test_outputs_and_traces_of_a_run(folder, choice):
    put(folder, Plain())
    cleave("compile", "model.pt", *INPUTS, "-o", "new.plan", cwd=folder)
    (folder / "outputs.safetensors").write_text("old")
    before = set(everything_below(folder))
    result = cleave("run", "new.plan", *INPUTS, "--outputs", "outputs.safetensors", "--trace", "trace.json", "--sandbox", choice,
                    cwd=folder)
    assert not result.err
    assert torch.equal(next(iter(load_file(folder / "outputs.safetensors").values())), torch.ones(8))
    assert json.loads((folder / "trace.json").read_text())
    assert set(everything_below(folder)) == before | {"trace.json"}


def test_gpus_have_no_sandbox(folder):
    put(folder, Plain())
    cleave("compile", "model.pt", *INPUTS, "-o", "new.plan", cwd=folder)
    run = ("run", "new.plan", *INPUTS, "--devices", "cuda:0", "--sandbox", "on")
    assert "--sandbox on: cannot be had with GPUs" in compile_refused(folder, command=run)
