"""A disk that is full at any of the writes of compile and run: what was there before, or what was to be there, and one line.

ALL_WRITES=1 has each of the writes of every command fail; otherwise of some commands every few."""

import os
import re
import shutil
import struct
import subprocess

import pytest

from conftest import BIN
from launching import Processes
from small import COMPILE, NAMES, RUN, small  # noqa: F401

ALL = bool(os.environ.get("ALL_WRITES"))
FULL = r"(?:rank \d: |--emit-ir: )?cannot write '.+': No space left on device; free some space, or write to another disk"


class Disk:
    """One of whose writes fails, once: tests/e2e/failing_writes.cpp."""

    def __init__(self, folder, counter):
        self.folder, self.counter = folder, counter

    def environment(self, failing):
        """With the write number `failing`, from 1, to fail; 0: none."""
        self.counter.write_bytes(bytes(32))
        return {"LD_PRELOAD": str(BIN / "libfailingWrites.so"), "FAILING_FOLDER": str(self.folder),
                "FAILING_COUNTER": str(self.counter), "FAILING_AT": str(failing)}

    def count(self):
        return struct.unpack("=Q", self.counter.read_bytes()[:8])[0]

    def failed(self):
        """What failed: `write`, `rename`; empty where nothing did."""
        return self.counter.read_bytes()[8:].rstrip(b"\0").decode()


@pytest.fixture
def disk(tmp_path):
    return Disk(tmp_path / "disk", tmp_path / "counter")


def some_of(count, step):
    """The numbers of the writes: each, or one of `step` and the last two."""
    return range(1, count + 1) if ALL else sorted({*range(1, count + 1, step), count - 1, count})


def check_end(status, err, is_new, failed):
    """A command ends with one line, unless nothing was lost: a file was only tried, or is kept elsewhere."""
    if status == 0:
        assert failed in ("close", "open") and is_new and not err, (failed, err)
    else:
        assert status == 1 and re.fullmatch(f"error: {FULL}\n", err), (status, failed, err)


def fail_each_write(small, disk, command, step, is_new):
    """Has the writes of a command fail, one in each run of it. `is_new(files)` says whether all it writes is new."""
    def run(failing):
        shutil.rmtree(disk.folder, ignore_errors=True)
        files = small.copy(disk.folder)
        (disk.folder / "ir").mkdir()
        done = subprocess.run([BIN / "cleave", *map(str, command)], cwd=disk.folder, capture_output=True, text=True, timeout=120,
                              env={**os.environ, **disk.environment(failing)})
        return files, done

    files, done = run(0)
    assert done.returncode == 0 and is_new(files), done
    for failing in some_of(count := disk.count(), step):
        files, done = run(failing)
        assert disk.failed(), f"there was no write {failing} of {count}"
        check_end(done.returncode, done.stderr, is_new(files), disk.failed())
        assert not [path for path in disk.folder.rglob("*") if ".partial" in path.name], (failing, disk.failed())
        assert set(files.names()) <= {*NAMES, "ir", "other.plan"}
    return count


def test_compile_over_a_plan(small, disk):
    assert fail_each_write(small, disk, COMPILE, 2, lambda files: files.is_new()) > 20


def test_compile_to_a_new_name(small, disk):
    def is_new(files):
        plan = files.folder / "other.plan"
        assert not plan.exists() or {path.name: path.read_bytes() for path in plan.iterdir()} == small.new
        return plan.exists()

    fail_each_write(small, disk, (*COMPILE[:-1], "other.plan"), 8, is_new)


def test_compile_with_all_outputs(small, disk):
    fail_each_write(small, disk, (*COMPILE, "--verify", "--emit-ir", "ir"), 12, lambda files: files.is_new())


@pytest.fixture
def ready(small, tmp_path_factory):
    """With the new plan, to run."""
    return small.copy(tmp_path_factory.mktemp("ready")).replace_plan()


def test_run(ready, disk):
    assert fail_each_write(ready, disk, RUN, 3, lambda files: files.are_outputs_new()) > 10


def test_trace_that_grows(ready, disk):
    """Written while the run goes on."""
    def is_new(files):
        return (files.folder / "t.json").read_text() != "old"

    fail_each_write(ready, disk, (*RUN, "--repeat", 200), 8, is_new)


@pytest.mark.parametrize("rank", [0, 1])
def test_run_of_two_processes(ready, disk, rank):
    """The disk of one of them."""
    def run(failing):
        shutil.rmtree(disk.folder, ignore_errors=True)
        files = ready.copy(disk.folder)
        with Processes(2, *RUN[1:], own={rank: (disk.environment(failing), ())}, cwd=disk.folder) as processes:
            return files, processes.end()

    files, ended = run(0)
    assert all(end.status == 0 for end in ended.values()) and files.are_outputs_new(), ended
    for failing in some_of(disk.count(), 12):
        files, ended = run(failing)
        is_new, failed = files.are_outputs_new(), disk.failed()
        assert failed and not files.leftovers() and files.names() == NAMES
        if all(end.status == 0 for end in ended.values()):
            assert failed in ("close", "open") and is_new, (failed, ended)
            continue
        for other, end in ended.items():
            assert end.status == 1 and re.fullmatch(f"error: rank {other} stops: {FULL}\n", end.err), (failed, ended)
