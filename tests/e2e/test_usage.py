"""The command line: wrong usage is one line and exit status 2; what goes to which stream."""

import json

import pytest
from conftest import cleave, refused


# Wrong usage --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments, word", [
    ((), "subcommand"),
    (("explode",), "explode"),
    (("compile",), "model"),
    (("compile", "model.pt"), "--output"),
    (("compile", "model.pt", "-o"), "--output"),
    (("compile", "model.pt", "-o", "a.plan", "-o", "b.plan"), "--output"),
    (("compile", "model.pt", "-o", "a.plan", "--devices", "0"), "--devices"),
    (("compile", "model.pt", "-o", "a.plan", "--devices", "many"), "--devices"),
    (("compile", "model.pt", "-o", "a.plan", "--no-such-option"), "--no-such-option"),
    (("run", "--bogus"), "there is no option --bogus"),
    (("compile", "model.pt", "--ouput=a.plan"), "there is no option --ouput=a.plan; did you mean --output?"),
    (("inspct", "a.plan"), "there is no subcommand inspct; did you mean inspect?"),
    (("compile", "model.pt", "-o", "a.plan", "--memory-limit", "much"), "--memory-limit"),
    (("compile", "model.pt", "-o", "a.plan", "--memory-limit", "-1"), "--memory-limit: found \"-1\", expected bytes of at least 0, a whole number"),
    (("compile", "model.pt", "-o", "a.plan", "--memory-limit=-8GB"), "--memory-limit: found \"-8GB\", expected bytes of at least 0"),
    (("compile", "model.pt", "-o", "a.plan", "--memory-limit", "0.5GB"), "--memory-limit: found \"0.5GB\", expected bytes of at least 0"),
    (("compile", "model.pt", "-o", "a.plan", "--memory-limit", "18446744073709551617"), "found \"18446744073709551617\", expected bytes"),
    (("verify", "a.plan", "--model", "model.pt", "--memory-limit", "9" * 23), "--memory-limit: found \"99999999999999999999999\""),
    (("compile", "model.pt", "-o", "a.plan", "--time-limit", "-1"), "--time-limit: found \"-1\", expected a whole number from 0 to"),
    (("compile", "model.pt", "-o", "a.plan", "--time-limit", "1e3"), "--time-limit: found \"1e3\", expected a whole number from 0 to"),
    (("run", "a.plan", "--timeout", "0x10"), "--timeout: found \"0x10\", expected a whole number from 1 to 1000000000"),
    (("compile", "model.pt", "-o", "a.plan", "--trust="), "compile: --trust: found the value \"\", expected none"),
    (("compile", "model.pt", "-o", "a.plan", "--json=16EB"), "compile: --json: found the value \"16EB\", expected none"),
    (("simulate", "model.pt", "--no-idioms=true"), "simulate: --no-idioms: found the value \"true\", expected none"),
    (("run", "a.plan", "--repeat", "0"), "--repeat"),
    (("run", "a.plan", "b.plan"), "b.plan"),
    (("run", "--devices", "cpu:0", "a.plan", "--repeat", "x"), "--repeat"),
    (("verify", "a.plan"), "--model"),
    (("compile", "", "-o", "a.plan"), "model: found an empty name, expected a file or folder"),
    (("run", ""), "plan: found an empty name, expected a file or folder"),
    (("compile", "model.pt", "-o", "a.plan", "--stage-before", "a", "b"), "b: one more argument than it takes"),
    (("inspect", "a.plan", "--format", "yaml"), "yaml"),
    (("inspect", "a.plan", "--sharding-groups", "--json"), "--sharding-groups: found --json as well, expected one of them; "
                                                          "\"sharding_groups\" in --json says the same"),
    (("inspect", "a.plan", "--format", "html", "--json"), "--format html: found --json as well, expected one of them"),
], ids=lambda value: " ".join(value) if isinstance(value, tuple) else "")
def test_wrong_usage(tmp_path, arguments, word):
    message = refused(tmp_path, *arguments, status=2)
    assert word in message and "--help" in message


FORGED = "x\nerror: forged\033[2J"


@pytest.mark.parametrize("arguments, status", [
    ((FORGED,), 2),
    (("compile", "model.pt", "-o", "a.plan", FORGED), 2),
    (("compile", "model.pt", "-o", "a.plan", f"--{FORGED}"), 2),
    (("compile", "model.pt", "-o", "a.plan", "--mesh", FORGED), 2),
    (("run", "a.plan", "--allow-operator", FORGED), 2),
    (("run", "a.plan", "--devices", FORGED), 2),
    (("compile", FORGED, "-o", "a.plan"), 1),
    (("compile", "model.pt", "-o", "a.plan", "--library", FORGED), 1),
    (("run", FORGED), 1),
    (("inspect", FORGED), 1),
    (("cut", FORGED), 1),
    (("simulate", FORGED), 1),
], ids=lambda value: " ".join(value[:1]).split("\n")[0] if isinstance(value, tuple) else "")
def test_what_is_given_makes_no_line_of_its_own(tmp_path, arguments, status):
    """Names can come from others, with whatever is in them."""
    message = refused(tmp_path, *arguments, status=status)
    assert r"x\x0aerror: forged\x1b[2J" in message, message


def test_a_long_name_is_cut_short(tmp_path):
    for arguments, status in ((("x" * 100000,), 2), (("cut", "x/" * 50000), 1)):
        assert len(refused(tmp_path, *arguments, status=status)) < 9000


def test_a_name_is_printed_in_one_line(model):
    """Where nothing is wrong, too."""
    name = FORGED + ".plan"
    for result in (cleave("compile", model.name, "--inputs", "model.inputs.safetensors", "-o", name, cwd=model.parent),
                   cleave("simulate", name, cwd=model.parent), cleave("inspect", name, cwd=model.parent)):
        assert r"x\x0aerror: forged\x1b[2J.plan" in result.out.splitlines()[0], result.out


@pytest.mark.parametrize("command", ["", "compile", "run", "verify", "inspect", "simulate", "cut", "profile"])
def test_help(command):
    result = cleave(*command.split(), "--help")
    assert not result.err and "Usage: cleave" in result.out
    # CLI11's own words for types and ranges.
    assert "TEXT" not in result.out and "UINT" not in result.out
    assert max(map(len, result.out.splitlines())) <= 120
    # No option takes several values at once.
    assert " ..." not in result.out.replace(", ...]", "")


@pytest.mark.parametrize("arguments", [("--help",), ("--version",), ("compile", "--help")], ids=" ".join)
def test_help_that_does_not_arrive(arguments):
    with open("/dev/full", "w") as full:
        result = cleave(*arguments, status=1, stdout=full)
    assert result.err == "error: cannot write to the standard output: No space left on device\n"


def test_json_alone_is_on_standard_output(model, plan):
    inputs = "model.inputs.safetensors"
    for arguments in (("compile", model.name, "--inputs", inputs, "--verify", "-o", "new.plan"),
                      ("run", plan.name, "--inputs", inputs), ("verify", plan.name, "--model", model.name),
                      ("inspect", plan.name)):
        result = cleave(*arguments, "--json", cwd=model.parent)
        assert isinstance(json.loads(result.out), dict) and not result.err


def test_names_of_the_first_release(model):
    """They are read and written until 0.3."""
    folder = model.parent
    compiled = cleave("compile", model.name, "--inputs", "model.inputs.safetensors", "--mesh", "pp=auto,tp=2", "--devices", 2, "-o",
                      "named.plan", "--json", cwd=folder).json()
    assert (compiled["data_ranks"], compiled["tensor_ranks"]) == (compiled["mesh"]["dp"], compiled["mesh"]["tp"]) == (1, 2)
    inspected = cleave("inspect", "named.plan", "--json", cwd=folder).json()
    forecast = cleave("simulate", "named.plan", "--json", cwd=folder).json()
    for report in (compiled, inspected, forecast):
        assert report["alternatives"] == report["candidates"] and report["candidates"]
    assert (inspected["pipeline"], inspected["dimensions"]) == (inspected["pass_pipeline"], inspected["sharding_groups"])
    assert all((group["sums"], group["gathers"]) == (group["all_reduces"], group["all_gathers"])
               for group in inspected["sharding_groups"]) and inspected["sharding_groups"]
    assert cleave("inspect", "named.plan", "--dims", cwd=folder).out == cleave("inspect", "named.plan", "--sharding-groups", cwd=folder).out
    # An option of that name, with a value that it refuses.
    assert "expected a whole number from 1" in refused(folder, "profile", "-o", "machine.json", "--passes", "0", status=2)
