"""The commands in README.md and docs/*.md work, and print what is shown below them."""

import dataclasses
import re
import subprocess

import pytest

from conftest import BIN, SOURCE

PAGES = [SOURCE / "README.md", *sorted((SOURCE / "docs").glob("*.md"))]
# The only commands that may stand in a block marked `sh no-run`: they set up, or run these very tests.
SET_UP = re.compile(r"(make|git clone|cd|sudo apt-get|torchrun|srun|mpirun) ?.*")


@dataclasses.dataclass
class Block:
    line: int
    language: str
    text: str


def blocks(page):
    """The fenced blocks of a page."""
    found, opened = [], None
    for number, line in enumerate(page.read_text().splitlines(), 1):
        fence = re.fullmatch(r"```(.*)", line)
        if not fence:
            if opened:
                opened.text += line + "\n"
        elif opened:
            found.append(opened)
            opened = None
        else:
            opened = Block(number, fence[1].strip(), "")
    return found


def output_pattern(line):
    """A line of shown output as a pattern in which numbers and runs of spaces may differ."""
    words = [re.sub(r"\d[\d.,]*(?:e[-+]\d+)?", "\0", word) for word in line.split()]
    return re.compile(r"\s+".join(re.escape(word).replace("\0", r"\d[\d.,]*(?:e[-+]\d+)?") for word in words))


def assert_shown(printed, block, page):
    """Each line of `block` is printed, in that order; a line of dots stands for any."""
    rest = printed
    for line in block.text.splitlines():
        if line.strip() in ("", "…", "..."):
            continue
        match = output_pattern(line).search(rest)
        assert match, f"{page.name}:{block.line}: not printed after the lines above it: {line}\n{printed}"
        rest = rest[match.end():]


@pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])
def test_commands_work(page, tmp_path):
    # Pages write build/bin/cleave, and name example files from the root.
    for name in ("build", "tests", "tools"):
        (tmp_path / name).symlink_to(BIN.parent if name == "build" else SOURCE / name)
    printed = None
    for block in blocks(page):
        if block.language == "sh":
            done = subprocess.run(["bash", "-euo", "pipefail", "-c", block.text], cwd=tmp_path, capture_output=True,
                                  text=True, timeout=600)
            assert done.returncode == 0, f"{page.name}:{block.line}: exit status {done.returncode}\n{done.stderr}"
            printed = done.stdout + done.stderr
        elif block.language == "sh no-run":
            commands = [line.split("#")[0].strip() for line in block.text.splitlines()]
            assert all(SET_UP.fullmatch(command) for command in commands if command), f"{page.name}:{block.line}: run it"
        elif block.language == "console" and printed is not None:
            assert_shown(printed, block, page)
            printed = None
