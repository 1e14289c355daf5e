"""Odd environments: each command works in them, or ends with one line and a status that is not 0, and leaves nothing unfinished."""

import os
import resource
import subprocess

import pytest

from conftest import BIN, drop_root_override
from launching import Processes, plain_environment
from small import COMPILE, NAMES, RUN, small  # noqa: F401

COMMANDS = {"compile": COMPILE, "run": RUN, "inspect": ("inspect", "model.plan")}
ALL = pytest.mark.parametrize("name", [*COMMANDS, "two processes"])
MB = 1 << 20
# Which libgomp ignores what it cannot use by.
IGNORED = "libgomp: Invalid value for environment variable OMP_NUM_THREADS"


@pytest.fixture
def files(small, tmp_path):
    return small.copy(tmp_path / "disk")


def limited(**limits):
    """Sets limits of the system (`NOFILE=64`) in a new process."""
    def limit():
        for name, value in limits.items():
            resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (value, value))

    return limit


def start(files, name, environment, without=(), preexec=None):
    """How a command ends: the status, and what it says on the standard error; by rank."""
    if name == "two processes":
        with Processes(2, *RUN[1:], "--timeout", 10, environment=environment, cwd=files.folder, preexec_fn=preexec) as processes:
            return [(end.status, end.err) for end in processes.end().values()]
    settings = {key: value for key, value in {**plain_environment(), **environment}.items() if key not in without}
    done = subprocess.run([BIN / "cleave", *map(str, COMMANDS[name])], cwd=files.folder, env=settings, preexec_fn=preexec,
                          capture_output=True, text=True, timeout=120)
    return [(done.returncode, done.stderr)]


def check(files, name, environment=None, works=None, **how):
    """`works`: whether it has to, if that is known."""
    for status, err in start(files, name, environment or {}, **how):
        lines = [line for line in err.splitlines() if line and line != IGNORED]
        assert status == 0 and not lines or status > 0 and len(lines) == 1, (status, err)
        assert works is None or works == (status == 0), (status, err)
    files.is_new()
    assert not files.leftovers()


@pytest.mark.parametrize("name, threads", [("compile", "junk"), ("compile", "1000"), ("run", "0"), ("run", "-1"), ("run", "junk"),
                                           ("run", "1000"), ("inspect", "junk"), ("two processes", "junk"), ("two processes", "1000")])
def test_numbers_of_threads(files, name, threads):
    check(files, name, {"OMP_NUM_THREADS": threads}, works=True)


# Some libraries do not load, then libtorch does not register its operators, then there is no room for threads or tensors.
@pytest.mark.parametrize("name, megabytes", [*((name, size) for name in COMMANDS for size in (200, 580, 680, 750)),
                                             ("two processes", 580), ("two processes", 720)])
def test_little_memory_to_address(files, name, megabytes):
    check(files, name, preexec=limited(AS=megabytes * MB))


@ALL
def test_few_open_files(files, name):
    check(files, name, works=True, preexec=limited(NOFILE=64))


@pytest.mark.parametrize("name", ["compile", "run"])
def test_hardly_any_open_files(files, name):
    check(files, name, works=False, preexec=limited(NOFILE=4))


@pytest.mark.parametrize("name", ["compile", "run"])
@pytest.mark.parametrize("size", [256 << 10, resource.RLIM_INFINITY], ids=["small", "unlimited"])
def test_stacks(files, name, size):
    check(files, name, works=True, preexec=limited(STACK=size))


@ALL
def test_no_room_for_files(files, name):
    check(files, name, works=name == "inspect", preexec=limited(FSIZE=0))


@ALL
def test_no_folders_of_ones_own(files, name):
    check(files, name, {"TMPDIR": "/no/such/folder", "HOME": "/proc", "LC_ALL": "xx_YY.junk", "LANG": "junk"}, works=True)


@pytest.mark.parametrize("name", COMMANDS)
def test_an_empty_environment(files, name):
    check(files, name, works=True, without=tuple(os.environ))


# Standard streams -----------------------------------------------------------------------------------------------------------


def close(*streams):
    return lambda: [os.close(stream) for stream in streams]


@pytest.mark.parametrize("name, streams", [*((name, (0, 2)) for name in COMMANDS), ("run", (0,)), ("run", (2,)),
                                           ("two processes", (0, 2))], ids=str)
def test_closed_streams(files, name, streams):
    check(files, name, works=True, preexec=close(*streams))


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("streams", [(1,), (0, 1), (0, 1, 2)], ids=str)
def test_a_closed_output(files, name, streams):
    """What is written is in no file that was opened instead."""
    [(status, err)] = start(files, name, {}, preexec=close(*streams))
    assert status == 1
    assert err == ("" if 2 in streams else "error: cannot write to the standard output: Bad file descriptor\n")
    files.is_new()
    if name == "run":
        files.are_outputs_new()
    assert files.names() == NAMES


# Permissions ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["compile", "run"])
def test_a_folder_that_is_not_to_be_written(files, name):
    files.folder.chmod(0o555)
    [(status, err)] = start(files, name, {}, preexec=drop_root_override)
    files.folder.chmod(0o755)
    assert status == 1 and err.startswith("error: cannot write '") and err.count("\n") == 1
    assert err.endswith(": Permission denied; write to another folder\n")
    assert files.names() == NAMES and not files.is_new()


def test_a_trace_elsewhere(files):
    """Of the rank that does not write it the folder is not to be written, or not there."""
    files.replace_plan()
    (files.folder / "own").mkdir(mode=0o555)
    options = ("model.plan", "--inputs", "x.safetensors", "--outputs", "y.safetensors")
    for trace in "own/t.json", "no/such/folder/t.json":
        own = {0: ({}, ("--trace", trace)), 1: ({}, ("--trace", "t.json"))}
        with Processes(2, *options, own=own, cwd=files.folder, preexec_fn=drop_root_override) as processes:
            ended = processes.end()
        assert all(end.status == 0 and not end.err for end in ended.values()), ended
        assert files.are_outputs_new() and not list((files.folder / "own").iterdir())
        (files.folder / "t.json").write_text("old")
