"""The commands in README.md and docs/*.md work, and print what is shown below them.

A block marked `sh` is run, block after block in one folder a page; one marked `console` below it holds what it prints. One marked
`sh make TARGET` needs more packages, and is run by that target.
"""

import dataclasses
import re
import subprocess

import pytest

from conftest import BIN, SOURCE, cleave

PAGES = [SOURCE / "README.md", *sorted((SOURCE / "docs").glob("*.md")), SOURCE / "CONTRIBUTING.md", SOURCE / "CHANGELOG.md"]
# The only commands that may stand in a block marked `sh no-run`: they set up, or run these very tests.
SET_UP = re.compile(r"(make|git clone|cd|sudo apt-get|torchrun|srun|mpirun)( .*)?")
# Other languages; a block without one is a drawing or a grammar.
SHOWN = {"", "cpp", "cmake", "json", "mlir", "python", "tablegen", "text"}
# What may differ from run to run: checksums and numbers.
VARYING = re.compile(r"[0-9a-f]{64}|\d[\d.,]*(?:e[-+]\d+)?")


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
    words = [VARYING.sub("\0", word) for word in line.split()]
    return re.compile(r"\s+".join(re.escape(word).replace("\0", f"(?:{VARYING.pattern})") for word in words))


def assert_shown(printed, block, page):
    """Each line of `block` is printed, in that order; a line of dots stands for any."""
    rest = printed
    for line in block.text.splitlines():
        if line.strip() in ("", "…", "..."):
            continue
        match = output_pattern(line).search(rest)
        assert match, f"{page.name}:{block.line}: not printed after the lines above it: {line}\n{printed}"
        rest = rest[match.end():]


def each_page(test):
    return pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])(test)


@each_page
def test_commands_work(page, tmp_path):
    # Pages write build/bin/cleave, and name example files from the root.
    (tmp_path / "build").symlink_to(BIN.resolve().parent)
    for name in ("tests", "tools", ".venv"):
        (tmp_path / name).symlink_to(SOURCE / name)
    printed = None
    for block in blocks(page):
        if block.language == "sh":
            done = subprocess.run(["bash", "-euo", "pipefail", "-c", block.text], cwd=tmp_path, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True, timeout=600)
            assert done.returncode == 0, f"{page.name}:{block.line}: exit status {done.returncode}\n{done.stdout}"
            printed = done.stdout
        elif block.language == "sh no-run":
            commands = [line.split("#")[0].strip() for line in block.text.splitlines()]
            assert all(SET_UP.fullmatch(command) for command in commands if command), f"{page.name}:{block.line}: run it"
        elif block.language.startswith("sh make "):
            target = block.language.removeprefix("sh make ")
            assert re.search(rf"^{target}:", (SOURCE / "Makefile").read_text(), re.MULTILINE), f"{page.name}:{block.line}: no target"
        elif block.language == "console":
            assert printed is not None, f"{page.name}:{block.line}: no commands above it"
            assert_shown(printed, block, page)
            printed = None
        else:
            assert block.language in SHOWN, f"{page.name}:{block.line}: {block.language}?"
            assert not re.search(r"^(build/bin/|cleave |\$ )", block.text, re.MULTILINE), f"{page.name}:{block.line}: run it"


@each_page
def test_links_lead_somewhere(page):
    links = re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text())
    for link in links:
        assert link.startswith("https://") or (page.parent / link).exists(), link


def test_readme_lists_every_page():
    assert set(re.findall(r"\(docs/([^)]+\.md)\)", PAGES[0].read_text())) == {page.name for page in (SOURCE / "docs").glob("*.md")}


def test_readme_fits_on_a_screen():
    assert len(PAGES[0].read_text().splitlines()) <= 100


def test_make_demo_is_what_the_readme_shows():
    """The four steps of `make demo`, without the folder that it puts files in."""
    demo = re.search(r"^demo:.*\n((?:\t.*\n)+)", (SOURCE / "Makefile").read_text(), re.MULTILINE)[1]
    steps = [line.strip().replace("$(CLEAVE)", "build/bin/cleave").replace("demo/", "") for line in demo.splitlines()[1:]]
    shown = [block.text.splitlines() for block in blocks(PAGES[0]) if block.language == "sh"][0]
    assert steps == [command for command in shown if command]


def test_keys_of_inspect_are_documented(tiny_model, tmp_path):
    model = tiny_model("gpt2")
    cleave("compile", model.path, "--inputs", model.inputs, "--devices", 2, "-o", tmp_path / "a.plan")
    report = cleave("inspect", tmp_path / "a.plan", "--json").json()
    table = (SOURCE / "docs/plan-format.md").read_text().partition("| key |")[2]
    names = [name for cell in re.findall(r"^\| (`.*?) \|", table, re.MULTILINE) for name in re.findall(r"`(\w+)", cell)]
    assert sorted(names) == sorted(report)
