"""What `compile` and `verify` say while they work, and where."""

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import termios
import threading

import pytest
import torch
from torch import nn

from conftest import BIN, cleave

ERASED = "\r\x1b[K"


class Slow(nn.Module):
    """Takes a second to write and one to run."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(100_000, 1000)

    def forward(self, ids):
        x = self.table(ids)
        for _ in range(40):
            x = torch.tanh(x @ x)
        return x


@pytest.fixture(scope="module")
def slow_model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("slow")
    path = folder / "slow.pt"
    torch.jit.save(torch.jit.script(Slow().eval()), path)
    yield path
    path.unlink()


def on_terminal(*arguments, columns=100, status=0, **environment):
    """Standard output, and what a terminal as standard error was sent."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    environment = {"TERM": "xterm", **environment}
    process = subprocess.Popen([str(BIN / "cleave"), *map(str, arguments)], stdout=subprocess.PIPE, stderr=slave,
                               env={**os.environ, **environment})
    os.close(slave)
    shown = bytearray()

    def read():
        while True:
            try:
                shown.extend(os.read(master, 4096))
            except OSError:
                return

    reader = threading.Thread(target=read)
    reader.start()
    out, _ = process.communicate(timeout=300)
    reader.join()
    os.close(master)
    assert process.returncode == status, shown
    return out.decode(), shown.decode()


def compile_slow(model, folder, *more, drawn="", **options):
    """Again until `drawn` is: a fast machine may be done before a bar is due."""
    for _ in range(10):
        out, shown = on_terminal("compile", model, "--input", "ids:i64[1000]", "-o", folder / "a.plan", *more, **options)
        if drawn in shown:
            break
    return out, shown


def test_a_terminal_shows_how_far_it_is(slow_model, tmp_path):
    out, shown = compile_slow(slow_model, tmp_path, "--verify", drawn="writing")
    assert re.search(r"writing 400 MB of weights  \[=*>? *\] +\d+ %  \d+ s", shown), shown
    assert re.search(r"comparing with the original  \[=*>? *\] +\d+ %  \d+ s", shown), shown
    # Drawn in one line, which is empty in the end; no colours.
    assert shown.endswith(ERASED) and "\n" not in shown
    assert set(re.findall(r"\x1b\[[^A-Za-z]*[A-Za-z]", shown)) == {"\x1b[K"}
    assert "same as the original" in out


def test_lines_fit_the_terminal(slow_model, tmp_path):
    _, shown = compile_slow(slow_model, tmp_path, columns=24, drawn=ERASED)
    lines = shown.split(ERASED)
    assert len(lines) > 1 and max(map(len, lines)) < 24, lines


def test_errors_stand_alone(slow_model, tmp_path):
    _, shown = on_terminal("compile", slow_model, "--input", "ids:i64[7]", "-o", tmp_path / "a.plan", status=1)
    assert re.fullmatch(r"error: [^\r\n]*\r\n", shown.rpartition(ERASED)[2]), shown


class Endless(nn.Module):
    def forward(self, x):
        while bool(x.sum() > -1):
            x = torch.relu(x)
        return x


def test_errors_stand_alone_where_the_child_was_stopped(compiler, tmp_path):
    compiler.save(Endless(), {"x": torch.ones(2, 6)})
    _, shown = on_terminal("compile", tmp_path / "model.pt", "--inputs", tmp_path / "model.inputs.safetensors", "--verify",
                           "--time-limit", "4", "-o", tmp_path / "a.plan", status=1)
    assert "comparing with the original" in shown, shown
    assert re.fullmatch(r"error: compile: [^\r\n]* took longer than 4 s [^\r\n]*\r\n", shown.rpartition(ERASED)[2]), shown


def test_elsewhere_nothing_is_drawn(slow_model, tmp_path):
    result = cleave("compile", slow_model, "--input", "ids:i64[1000]", "-o", tmp_path / "a.plan")
    assert result.err == "" and result.out.startswith(str(tmp_path / "a.plan"))
    for environment in ({"TERM": "dumb"}, {"TERM": ""}):
        out, shown = compile_slow(slow_model, tmp_path, **environment)
        assert shown == "" and out.startswith(str(tmp_path / "a.plan"))


def test_quiet_leaves_errors(slow_model, tmp_path):
    assert compile_slow(slow_model, tmp_path, "--quiet") == ("", "")
    assert on_terminal("verify", tmp_path / "a.plan", "--model", slow_model, "--quiet") == ("", "")
    out, shown = on_terminal("verify", tmp_path / "none.plan", "--model", slow_model, "--quiet", status=1)
    assert out == "" and re.fullmatch(r"error: [^\r\n]*\r\n", shown), shown


def test_json_is_alone_on_standard_output(slow_model, tmp_path):
    out, shown = compile_slow(slow_model, tmp_path, "--json", drawn="writing")
    assert json.loads(out)["stages"] == 1 and "writing" in shown
    out, shown = compile_slow(slow_model, tmp_path, "--json", "--quiet")
    assert json.loads(out)["stages"] == 1 and shown == ""


def test_what_is_quick_is_not_shown(compiler, tmp_path):
    compiler.save(nn.Linear(6, 6), {"input": torch.ones(2, 6)})
    # A busy machine may hold one of them up.
    shown = [on_terminal("compile", tmp_path / "model.pt", "--inputs", tmp_path / "model.inputs.safetensors", "-o",
                         tmp_path / "a.plan")[1] for _ in range(5)]
    assert "" in shown, shown
