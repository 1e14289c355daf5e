"""Ctrl-C while a mesh is searched for: the best found so far is made and kept."""

import fcntl
import json
import os
import pty
import re
import signal
import subprocess
import sys
import termios
import threading
import time

import pytest
from conftest import BIN, SOURCE, cleave, everything_below
from launching import fill_errors

INPUTS = ("--inputs", "model.inputs.safetensors")
DEVICE = {"flops_per_second": 2e9, "memory_bytes_per_second": 1e10, "operator_seconds": 1e-6}
FOUND = r"evaluating meshes: tp=\d+, best so far pp=\d+(,dp=\d+)?,tp=\d+: \d+\.\d\d ms"


class Search:
    """The command with a terminal of its own, which standard error goes to."""

    def __init__(self, folder, *arguments):
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, b"\x18\x00\xc8\x00\x00\x00\x00\x00")

        def take_terminal():
            fcntl.ioctl(slave, termios.TIOCSCTTY, 0)

        self.process = subprocess.Popen([str(BIN / "cleave"), *map(str, arguments), "--json"], cwd=folder, stdin=slave,
                                        stdout=subprocess.PIPE, stderr=slave, start_new_session=True, preexec_fn=take_terminal,
                                        env={**os.environ, "TERM": "xterm"})
        os.close(slave)
        self.shown = ""
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def read(self):
        while True:
            try:
                text = os.read(self.master, 4096).decode()
            except OSError:
                return
            self.shown += text
            if "%" in text:
                self.last_progress = time.monotonic()

    def wait_for(self, pattern):
        while not re.search(pattern, self.shown):
            assert self.process.poll() is None, f"ended before {pattern}: {self.shown}"
            time.sleep(0.005)

    def end(self):
        """The report and the status."""
        out, _ = self.process.communicate(timeout=300)
        self.reader.join()
        os.close(self.master)
        return json.loads(out) if out else None, self.process.returncode


def by_pid(search, number=signal.SIGINT):
    search.process.send_signal(number)


def by_group(search):
    os.killpg(search.process.pid, signal.SIGINT)


def by_terminal(search):
    """As the key does it: to both processes."""
    os.write(search.master, b"\x03")


WAYS = pytest.mark.parametrize("interrupt", [by_pid, by_group, by_terminal])


@pytest.fixture(scope="module")
def llama(tmp_path_factory):
    """A folder with a model that takes seconds to search a mesh for."""
    folder = tmp_path_factory.mktemp("llama")
    text = subprocess.run([sys.executable, SOURCE / "tests/bench/llama_ir.py", *map(str, LLAMA)], check=True, capture_output=True)
    (folder / "llama.mlir").write_bytes(text.stdout)
    return folder


@pytest.fixture
def layers(trace_model, tmp_path):
    """A model with weights for which the same holds."""
    traced = trace_model("hf:gpt2", "--config", "n_layer=24,n_embd=64,n_head=8,vocab_size=128,n_positions=64", "--batch", 16,
                         "--seq", 16)
    for path in (traced.path, traced.inputs):
        (tmp_path / path.name).symlink_to(path)
    machine = {"devices": [{"name": f"d{index}", **DEVICE} for index in range(16)],
               "link": {"latency_seconds": 1e-6, "bytes_per_second": 1e10}}
    (tmp_path / "machine.json").write_text(json.dumps(machine))
    return tmp_path


# Layers, width, feed-forward layers' width, heads, of keys, sequence, vocabulary, batch.
LLAMA = (48, 1024, 2816, 16, 16, 512, 8192, 64)
SIMULATE = ("simulate", "llama.mlir", "--mesh", "auto", "--machine", "h100:32")
COMPILE = ("compile", "model.pt", *INPUTS, "--mesh", "auto", "--machine", "machine.json", "-o", "new.plan")


def configuration(one):
    return "--mesh", one["mesh"], "--schedule", one["schedule"], "--microbatches", one["microbatches"]


def check_report(report):
    """The note, and the configurations that were evaluated: the chosen one, and those that take longer."""
    chosen, *others = report["candidates"]
    (note,) = [note for note in report["notes"] if note.startswith("interrupted")]
    found = re.fullmatch(r"interrupted after \d+\.\d s; what was not evaluated: ((?:\d+ of )?tp=\d+(?:, (?:\d+ of )?tp=\d+)*)", note)
    assert found, note
    left = {tuple(reversed(part.split(" of "))) for part in found[1].split(", ")}
    missing = [one for one in others if one["reason"] == "not evaluated: interrupted"]
    evaluated = [one for one in others if one not in missing]
    assert chosen["reason"] == "" and all(one["reason"].startswith("takes ") for one in evaluated)
    assert all(one["seconds"] >= chosen["seconds"] for one in evaluated) and all(one["seconds"] == 0 for one in missing)
    counts = {}
    for one in missing:
        counts[one["mesh"].rpartition(",")[2]] = counts.get(one["mesh"].rpartition(",")[2], 0) + 1
    assert {part for part in left if len(part) == 2} == {(name, str(count)) for name, count in counts.items()}
    # Others of these were not begun.
    evaluated_ranks = {one["mesh"].rpartition(",")[2] for one in report["candidates"]}
    assert not {part[0] for part in left if len(part) == 1} & evaluated_ranks
    return chosen


@WAYS
def test_the_best_so_far_is_kept(llama, interrupt):
    before = everything_below(llama)
    search = Search(llama, *SIMULATE)
    search.wait_for(FOUND)
    interrupt(search)
    report, status = search.end()
    assert status == 0, search.shown
    chosen = check_report(report)
    alone = cleave("simulate", "llama.mlir", "--machine", "h100:32", "--devices", len(report["devices"]), *configuration(chosen),
                   "--json", cwd=llama).json()
    assert (alone["seconds"], alone["devices"]) == (report["seconds"], report["devices"])
    assert everything_below(llama) == before


@WAYS
def test_a_plan_of_it_is_made_whole(layers, interrupt):
    before = everything_below(layers)
    search = Search(layers, *COMPILE, "--verify")
    search.wait_for(FOUND)
    interrupt(search)
    report, status = search.end()
    assert status == 0, search.shown
    chosen = check_report(report)
    assert report["error"] <= report["allowed"]
    assert {name.split("/")[0] for name in set(everything_below(layers)) - set(before)} == {"new.plan"}
    assert cleave("verify", "new.plan", "--model", "model.pt", *INPUTS, "--json", cwd=layers).json()["ok"]
    mesh = cleave("inspect", "new.plan", "--format", "json", cwd=layers).json()["mesh"]
    assert f"pp={mesh['pp']},tp={mesh['tp']}" == chosen["mesh"]


@WAYS
def test_a_second_one_ends_the_command(layers, interrupt):
    before = everything_below(layers)
    search = Search(layers, *COMPILE)
    search.wait_for(FOUND)
    # Two that come before the process looks at the first are one.
    while search.process.poll() is None:
        interrupt(search)
        time.sleep(0.05)
    assert search.end() == (None, -signal.SIGINT)
    assert re.search(r"error: compile: stopped by SIGINT\r\n(\^C)*$", search.shown)
    assert everything_below(layers) == before


@WAYS
def test_nothing_is_found_yet(layers, interrupt):
    before = everything_below(layers)
    search = Search(layers, *COMPILE)
    while not list(layers.glob(".new.plan.partial-*")):
        time.sleep(0.001)
    interrupt(search)
    assert search.end() == (None, -signal.SIGINT)
    assert everything_below(layers) == before


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name)
def test_other_signals_end_the_command(layers, number):
    before = everything_below(layers)
    search = Search(layers, *COMPILE)
    search.wait_for(FOUND)
    by_pid(search, number)
    assert search.end() == (None, -number)
    assert everything_below(layers) == before


def test_nobody_reads_what_is_said(layers):
    before = everything_below(layers)
    with subprocess.Popen([BIN / "cleave", *COMPILE], cwd=layers, stderr=subprocess.PIPE) as process:
        while not list(layers.glob(".new.plan.partial-*")):
            time.sleep(0.001)
        fill_errors(process)
        process.terminate()
        try:
            assert process.wait(timeout=60) == -signal.SIGTERM
        finally:
            process.kill()
    assert everything_below(layers) == before


def test_a_training_step(llama):
    search = Search(llama, *SIMULATE, "--train")
    search.wait_for(FOUND)
    by_terminal(search)
    report, status = search.end()
    assert status == 0, search.shown
    chosen = check_report(report)
    assert report["mesh"] == {axis: int(size) for axis, size in (part.split("=") for part in chosen["mesh"].split(","))}


def test_a_terminal_shows_the_share_and_the_best(llama):
    search = Search(llama, *SIMULATE[:-1], "h100:256")
    search.wait_for(FOUND + r"  \[=*>? *\] +\d+ %  \d+ s")
    begun = time.monotonic()
    report, status = search.end()
    assert status == 0 and not [note for note in report["notes"] if "interrupted" in note]
    lines = re.findall(r"(\w+=\S*), best so far (\S+): (\S+) ms  \[=*>? *\] +(\d+) %  (\d+) s", search.shown)
    shares, seconds, best = ([float(line[index]) for line in lines] for index in (3, 4, 2))
    # It never goes back, nor does its clock, whatever is evaluated.
    assert shares == sorted(shares) and seconds == sorted(seconds) and best == sorted(best, reverse=True)
    assert shares[-1] > shares[0]
    # Shown in whole seconds, and read some time after.
    assert seconds[-1] - seconds[0] == pytest.approx(search.last_progress - begun, abs=1.5)
    assert f"{report['seconds'] * 1e3:.2f}" <= lines[-1][2] or float(lines[-1][2]) == pytest.approx(report["seconds"] * 1e3, rel=0.05)
