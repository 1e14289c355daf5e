"""The command line of cleave-trace."""

import pytest

from cleave_trace import cli


def trace(*arguments):
    """Runs cleave-trace within this process and returns its exit status."""
    return cli.main([*map(str, arguments)])


@pytest.mark.parametrize("arguments, message", [
    ([], "expected a source and -o FILE"),
    (["hf:gpt2"], "expected a source and -o FILE"),
    (["hf:gpt2", "-o", ""], "expected a source and -o FILE"),
    (["gpt2", "-o", "m.pt"], "no such source as gpt2, expected hf:NAME, torchvision:NAME, FILE.py:FUNCTION or FILE.pt2"),
    (["hf:", "-o", "m.pt"], "no such source as hf:"),
    (["m.py", "-o", "m.pt"], "no such source as m.py"),
    (["m.py:", "-o", "m.pt"], "no such source as m.py:"),
    (["hf:gpt2", "-o"], "-o/--output: expected one argument"),
    (["hf:gpt2", "-o", "m.pt", "--batch", "0"], '--batch: found "0", expected a number of at least 1'),
    (["hf:gpt2", "-o", "m.pt", "--seq", "many"], '--seq: found "many", expected a number of at least 1'),
    (["hf:gpt2", "-o", "m.pt", "--config", "n_layer"], "--config: 'n_layer' is not K=V"),
    (["hf:gpt2", "hf:bert", "-o", "m.pt"], "hf:bert: one more argument than it takes"),
    (["--no-such-option"], "there is no option --no-such-option"),
    (["hf:gpt2", "-o", "m.pt", "--bach=2"], "there is no option --bach=2; did you mean --batch?"),
    (["m.py:build", "-o", "m.pt", "--config", "a=1"], "--config belongs to hf: and torchvision:, m.py:build makes its own"),
    (["m.py:build", "-o", "m.pt", "--class", "A"], "--class belongs to hf: and torchvision:"),
    (["m.py:build", "-o", "m.pt", "--batch", "4"], "--batch belongs to hf: and torchvision:"),
    (["m.py:build", "-o", "m.pt", "--seq", "4"], "--seq belongs to hf: and torchvision:"),
], ids=lambda value: " ".join(value) if isinstance(value, list) else "")
def test_wrong_usage(arguments, message, capsys):
    with pytest.raises(SystemExit) as exit:
        trace(*arguments)
    assert exit.value.code == 2
    line = capsys.readouterr().err
    assert line.startswith("error: ") and message in line and line.endswith("; see cleave-trace --help\n"), line
    assert line.count("\n") == 1


def test_list_names_what_exists(capsys):
    assert trace("--list") == 0
    lines = capsys.readouterr().out.splitlines()
    assert {"hf:gpt2", "hf:bert-base", "torchvision:resnet50"} <= set(lines)


def test_help(capsys):
    with pytest.raises(SystemExit) as exit:
        trace("--help")
    shown = capsys.readouterr().out
    assert exit.value.code == 0 and max(map(len, shown.splitlines())) <= 120


def test_control_characters(tmp_path, capsys):
    with pytest.raises(SystemExit):
        trace("no\n\x1b[31mfoo.py:f", "-o", "m.pt")
    assert capsys.readouterr().err.startswith("error: no such source as no\\n\\x1b[31mfoo.py:f, expected ")
    path = tmp_path / "m.py"
    path.write_text("import torch\n\nclass Model(torch.nn.Module):\n    def forward(self, d):\n        return d\n\n"
                    "def build():\n    return Model(), {'d': {'a\\x1b[31m': torch.ones(2)}}\n\n"
                    "def fail():\n    raise ValueError('first\\n\\x1b[31mlast')\n")
    assert trace(f"{path}:build", "-o", tmp_path / "m.pt") == 1
    assert "found the key a\\x1b[31m, expected one of printable characters" in capsys.readouterr().err
    assert trace(f"{path}:fail", "-o", tmp_path / "m.pt") == 1
    assert "ValueError: first \\x1b[31mlast" in capsys.readouterr().err
