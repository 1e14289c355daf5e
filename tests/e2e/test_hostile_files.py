"""Files that are no files, are swapped or cut short while they are used, or cost more than they are worth: one line, and nothing
else touched."""

import os
import pathlib
import re
import resource
import shutil
import socket
import struct
import subprocess
import time
from typing import Tuple

import pytest
import torch
from conftest import BIN, cleave, compile_refused, everything_below, refused, rewrite_records, run_refused

TERABYTES = 4 << 40


def limited():
    """For what is refused at a glance: what waits is ended by the test's own limit, what computes by this one."""
    resource.setrlimit(resource.RLIMIT_CPU, (20, 20))


def as_pipe(path):
    os.mkfifo(path)


def as_folder(path):
    path.mkdir()


def as_zeros(path):
    path.symlink_to("/dev/zero")


def as_socket(path):
    folder = os.getcwd()
    os.chdir(path.parent)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path.name)
    os.chdir(folder)




def as_hole(path):
    """Terabytes, of which nothing is on the disk."""
    with open(path, "wb") as file:
        try:
            file.truncate(TERABYTES)
        except OSError:
            pytest.skip("this file system has no files of terabytes")


def as_nothing(path):
    path.touch()


ODD = pytest.mark.parametrize("make", [as_pipe, as_folder, as_zeros, as_socket, as_hole, as_nothing],
                              ids=lambda make: make.__name__[3:])


@ODD
def test_what_compile_reads(model, make):
    for name, options in [("model.pt", ()), ("model.inputs.safetensors", ()), ("machine.json", ("--machine", "machine.json")),
                          ("shards.json", ("--shard-file", "shards.json"))]:
        path = model.parent / name
        kept = path.rename(model.parent / "kept") if path.exists() else None
        make(path)
        assert name in compile_refused(model, *options, preexec_fn=limited)
        path.rmdir() if make is as_folder else path.unlink()
        if kept:
            kept.rename(path)


@ODD
def test_ir_that_is_none(tmp_path, make):
    make(tmp_path / "model.mlir")
    if make is as_hole:
        return  # IR is read whole, as far as --memory-limit lets it.
    assert "model.mlir" in refused(tmp_path, "simulate", "model.mlir", "--devices", 2, preexec_fn=limited)


@ODD
def test_what_run_reads(plan, model, make):
    for path in (plan / "plan.fb", plan / "rank-001.safetensors", model.parent / "model.inputs.safetensors"):
        kept = path.rename(model.parent / "kept")
        make(path)
        assert path.name in run_refused(plan, "model.inputs.safetensors", preexec_fn=limited)
        path.rmdir() if make is as_folder else path.unlink()
        kept.rename(path)


@pytest.mark.parametrize("make", [as_pipe, as_folder, as_zeros, as_socket], ids=lambda make: make.__name__[3:])
def test_a_library_that_is_no_file(plan, model, make):
    """Loading a pipe would wait for ever."""
    make(model.parent / "library.so")
    for command in (("run", plan.name, "--inputs", "model.inputs.safetensors"), ("verify", plan.name, "--model", "model.pt"),
                    ("compile", "model.pt", "-o", "new.plan")):
        message = refused(model.parent, *command, "--library", "./library.so", status=2, preexec_fn=limited, timeout=60)
        assert "library.so, which is no regular file" in message


def test_a_file_behind_a_descriptor(plan, model):
    """What /proc names is as good as any other."""
    with open(model.parent / "model.inputs.safetensors") as inputs:
        cleave("run", plan, "--inputs", f"/proc/self/fd/{inputs.fileno()}", pass_fds=[inputs.fileno()])


def test_inputs_of_terabytes(plan, model):
    """With a header that fits them."""
    header = b'{"input_ids":{"dtype":"I64","shape":[%d,16],"data_offsets":[0,%d]}}' % (TERABYTES // 128, TERABYTES)
    header += b" " * (-len(header) % 8)
    path = model.parent / "large.safetensors"
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(header)) + header)
        try:
            file.truncate(8 + len(header) + TERABYTES)
        except OSError:
            pytest.skip("this file system has no files of terabytes")
    assert "input_ids" in run_refused(plan, "large.safetensors", preexec_fn=limited)


class Looks(torch.nn.Module):
    """Uses a tensor of its own as soon as it is opened."""

    def __init__(self, writes: bool):
        super().__init__()
        self.found = torch.zeros(8)
        self.writes = writes

    def forward(self, x):
        return x + self.found

    @torch.jit.export
    def __getstate__(self):
        return self.found, self.writes, self.training

    @torch.jit.export
    def __setstate__(self, state: Tuple[torch.Tensor, bool, bool]):
        self.found = state[0].clone()[-8:]
        self.writes = state[1]
        self.training = state[2]
        print("looked at", state[0].numel())
        if self.writes:
            state[0].fill_(3.0)


@pytest.mark.parametrize("writes", [False, True])
@pytest.mark.parametrize("size", [9, 64, 1 << 30])
def test_a_tensor_larger_than_its_record(compiler, writes, size):
    """Code of the model that runs as it is opened does not get to see it."""
    compiler.save(Looks(writes), {"x": torch.ones(8)})
    arguments = ("compile", "model.pt", "--inputs", "model.inputs.safetensors", "-o", "model.plan")
    assert cleave(*arguments, cwd=compiler.folder).err == "model: looked at 8\n"
    rewrite_records(compiler.folder / "model.pt",
                    lambda name, data: data.replace(b"(K\x08t", b"(J" + size.to_bytes(4, "little") + b"t", 1) if name == "data.pkl" else data)
    assert refused(compiler.folder, *arguments).endswith("a tensor reaches past the end of its storage")


class Makes(torch.nn.Module):
    """A weight that is made when the model is opened, of memory that nobody has written to."""

    def __init__(self):
        super().__init__()
        self.size, self.weight = 1 << 28, torch.ones(1)

    def forward(self, x):
        return x + self.weight[0]

    @torch.jit.export
    def __getstate__(self):
        return self.size, self.training

    @torch.jit.export
    def __setstate__(self, state: Tuple[int, bool]):
        self.size, self.training = state
        self.weight = torch.empty([self.size])


class Constants(torch.nn.Module):
    """Tensors that a trace keeps as constants."""

    def forward(self, x):
        for constant in CONSTANTS:
            x = x + constant[:8]
        return x


CONSTANTS = [torch.ones(1).expand((1 << 24) + i) for i in range(16)]


class Repeats(torch.nn.Module):
    """Tensors without elements of their own: a plan of a gigabyte of a model of two kilobytes."""

    def __init__(self, how):
        super().__init__()
        one = torch.ones(1 << 22)
        for i in range(16):
            self.register_buffer(f"b{i}", one.view(2, -1)[:, :-1 - i] if how == "views" else torch.ones(1).expand(1 << 24))

    def forward(self, x):
        return x + sum(buffer[..., 0].sum() for buffer in self.buffers())


LARGE = {"views": lambda: torch.jit.trace(Repeats("views"), torch.ones(8)),
         "expanded": lambda: torch.jit.trace(Repeats("expanded"), torch.ones(8)),
         "constants": lambda: torch.jit.trace(Constants(), torch.ones(8)),
         "made": lambda: torch.jit.script(Makes())}


@pytest.mark.parametrize("how", LARGE)
def test_weights_that_are_larger_in_a_plan(compiler, how):
    compiler.save(LARGE[how](), {"x": torch.ones(8)})
    message = refused(compiler.folder, "compile", "model.pt", "--inputs", "model.inputs.safetensors", "-o", "model.plan")
    assert re.search(r"model.pt: it has \d+ MB, and its weights would be \d+ MB in a plan, '(b|weight|constants)\S*' the largest: ", message)
    assert not list(compiler.folder.glob("*.plan"))


@pytest.mark.parametrize("name", [b"a", b"0\0"])
def test_a_weight_that_is_in_no_record(compiler, name):
    """Nor in one that libtorch would find by this name: it would take the pickle's word for its size."""
    compiler.save(Looks(False), {"x": torch.ones(8)})
    text = lambda name: b"X" + len(name).to_bytes(4, "little") + name
    large = (1 << 20).to_bytes(4, "little")
    rewrite_records(compiler.folder / "model.pt", lambda record, data: data.replace(text(b"0"), text(name), 1).replace(
        b"K\x08t", b"J" + large + b"t") if record == "data.pkl" else data, {"data/0": "data/A"} if name == b"a" else {})
    assert "no record holds the weight" in refused(compiler.folder, "compile", "model.pt", "--inputs", "model.inputs.safetensors", "-o", "o")


# While it runs --------------------------------------------------------------------------------------------------------


def start(folder, *arguments):
    return subprocess.Popen([BIN / "cleave", *map(str, arguments)], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            text=True)


def seconds_of_devices(pid):
    """CPU time of the threads that are called after devices."""
    seconds = 0
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        name, rest = (task / "stat").read_text().split("(", 1)[1].rsplit(")", 1)
        if name.startswith("cpu:"):
            seconds += sum(map(int, rest.split()[11:13])) / os.sysconf("SC_CLK_TCK")
    return seconds


def wait_until_it_computes(process):
    while seconds_of_devices(process.pid) < 0.1:
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)


def start_endless(plan, *more):
    process = start(plan.parent, "run", plan.name, "--inputs", "model.inputs.safetensors", "--outputs", "outputs.safetensors",
                    "--repeat", 1000000000, *more)
    wait_until_it_computes(process)
    return process


def test_a_shard_that_is_truncated(plan, model):
    process = start_endless(plan)
    os.truncate(plan / "rank-000.safetensors", 0)
    before = everything_below(model.parent)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 1 and not out and len(err.splitlines()) == 1, err
    assert re.match(r"error: run: (.* or )?rank 0 \(stage 0\): .*: crashed \(SIGBUS\): 'model.plan/rank-000.safetensors' became shorter",
                    err), err
    assert everything_below(model.parent) == before


def test_a_shard_that_is_replaced(plan, model):
    """The run goes on with what it has read."""
    process = start_endless(plan)
    shutil.copy(plan / "rank-001.safetensors", plan / "new")
    (plan / "new").rename(plan / "rank-000.safetensors")
    begun = seconds_of_devices(process.pid)
    while seconds_of_devices(process.pid) < begun + 0.2:
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    process.kill()
    process.communicate()


def test_a_model_that_is_truncated(compiler):
    """The process that reads it crashes, the one that waits for it tells, once."""

    class Slow(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(1 << 20))

        def forward(self, x):
            for _ in range(1 << 40):
                x = x + self.weight.sum()
            return x

    compiler.save(Slow(), {"x": torch.ones(2)})
    cleave("compile", "model.pt", "--inputs", "model.inputs.safetensors", "-o", "model.plan", cwd=compiler.folder)
    process = start(compiler.folder, "verify", "model.plan", "--model", "model.pt")
    children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children")
    while not any("model.pt" in pathlib.Path(f"/proc/{child}/maps").read_text() for child in children.read_text().split()):
        assert process.poll() is None, process.communicate()
        time.sleep(0.001)
    os.truncate(compiler.folder / "model.pt", 0)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 1 and not out and len(err.splitlines()) == 1, err
    assert err.startswith("error: verify: model.pt: crashed (SIGBUS): 'model.pt' became shorter"), err


# What it may take -----------------------------------------------------------------------------------------------------


class Endless(torch.nn.Module):
    """One kernel that goes over 2^44 elements, which are all the same one."""

    def forward(self, x):
        return x[:1].expand(17592186044416).sum()


def test_a_kernel_without_end(compiler):
    compiler.save(Endless(), {"x": torch.ones(2)})
    cleave("compile", "model.pt", "--inputs", "model.inputs.safetensors", "-o", "model.plan", cwd=compiler.folder)
    error = refused(compiler.folder, "run", "model.plan", "--inputs", "model.inputs.safetensors", "--outputs", "o", "--timeout", 1)
    assert error == "error: no result after 1 s: rank 0 (stage 0) is computing aten::sum; allow more time (--timeout)", error


class Layers(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(*[torch.nn.Linear(256, 256) for _ in range(4)])

    def forward(self, x):
        return self.layers(x)


def test_plans_for_little_memory_run(compiler):
    """With no more than the compiler asks for."""
    compiler.save(Layers(), {"x": torch.ones(2, 256)})
    arguments = ("compile", "model.pt", "--inputs", "model.inputs.safetensors", "--devices", 2, "-o", "model.plan")
    why = cleave(*arguments, "--device-memory", "10KB", status=1, cwd=compiler.folder).err
    least = re.search(r"(\d+) bytes \(--device-memory", why)[1]
    cleave(*arguments, "--device-memory", f"{least}B", cwd=compiler.folder)
    cleave("run", "model.plan", "--inputs", "model.inputs.safetensors", cwd=compiler.folder)
