"""Kills (SIGKILL) at random moments: what was there before, or what was to be there, and nothing beside it but what the next
command removes.

KILLS=100 has as many of each kind."""

import os
import random
import signal
import subprocess
import time

import pytest

from conftest import BIN, cleave
from launching import Processes, run_ranks
from small import COMPILE, NAMES, RUN, TEMPORARY, small  # noqa: F401

KILLS = int(os.environ.get("KILLS", 8))


@pytest.fixture
def moments(request):
    """Shares of the time that a command takes, the same each time; the last ones are at its end, where it renames."""
    chance = random.Random(request.node.name)
    return [chance.uniform(0, 1.05) if kill % 2 else chance.uniform(0.8, 1.05) for kill in range(KILLS)]


def seconds_of(work):
    begin = time.monotonic()
    work()
    return time.monotonic() - begin


def check_names(files):
    """Beside the files only what is unfinished, by its name."""
    assert [name for name in files.names() if not TEMPORARY.fullmatch(name)] == NAMES


def clean(files):
    """Runs another command, which writes another file to the folder."""
    cleave("run", "model.plan", "--inputs", "x.safetensors", "--outputs", "other", cwd=files.folder)
    (files.folder / "other").unlink()
    assert files.names() == NAMES


def test_compile(small, tmp_path, moments):
    """Both of its processes, as a terminal that is closed or a container that is stopped kills them."""
    files = small.copy(tmp_path / "disk")
    whole = seconds_of(lambda: cleave(*COMPILE, cwd=small.copy(tmp_path / "timed").folder))
    ended = []
    for moment in moments:
        small.copy(files.folder)  # the old plan
        process = subprocess.Popen([BIN / "cleave", *map(str, COMPILE)], cwd=files.folder, start_new_session=True)
        time.sleep(moment * whole)
        os.killpg(process.pid, signal.SIGKILL)
        ended.append(process.wait())
        files.await_end()
        files.is_new()
        check_names(files)
        assert len(files.leftovers()) <= 2, "what earlier ones left is gone: a folder, and a file in it is in that"
    assert -signal.SIGKILL in ended
    clean(files)


@pytest.fixture
def ready(small, tmp_path_factory):
    """With the new plan, to run."""
    return small.copy(tmp_path_factory.mktemp("ready")).replace_plan()


def test_run(ready, tmp_path, moments):
    files = ready.copy(tmp_path / "disk")
    command = (*RUN, "--repeat", 50)
    whole = seconds_of(lambda: cleave(*command, cwd=ready.copy(tmp_path / "timed").folder))
    for moment in moments:
        ready.copy(files.folder)
        process = subprocess.Popen([BIN / "cleave", *map(str, command)], cwd=files.folder, stdout=subprocess.DEVNULL)
        time.sleep(moment * whole)
        process.kill()
        process.wait()
        files.await_end()
        files.are_outputs_new(events=50 * 4)
        check_names(files)
    clean(files)


@pytest.mark.parametrize("rank", [0, 1])
def test_rank(ready, tmp_path, moments, rank):
    """The other one ends by itself, with one line where it does not succeed."""
    files = ready.copy(tmp_path / "disk")

    whole = seconds_of(lambda: run_ranks(2, *RUN[1:], "--repeat", 50, cwd=ready.copy(tmp_path / "timed").folder))
    for moment in moments[:max(KILLS // 2, 1)]:
        ready.copy(files.folder)
        # Who dies before the others have met it is waited for.
        with Processes(2, *RUN[1:], "--repeat", 50, "--timeout", 3, cwd=files.folder) as processes:
            time.sleep(moment * whole)
            processes.running[rank].kill()
            ended = processes.end()
        files.await_end()
        files.are_outputs_new(events=50 * 4)
        check_names(files)
        other = ended[1 - rank]
        lines = other.err.splitlines()
        assert other.status == 0 and not lines or other.status == 1 and len(lines) == 1 and lines[0].startswith("error: "), ended
    clean(files)
