"""The results of tests/bench/pipelined.py as Markdown, and their place in docs/results.md."""

import datetime
import importlib.metadata
import os
import pathlib
import platform
import re
import statistics

from contestants import CONTESTANTS

BEGIN, END = "<!-- bench:pipelined -->", "<!-- /bench:pipelined -->"
# What decides how fast matrix products are.
FLAGS = ("avx2", "avx512f", "avx512_bf16", "avx512_vnni", "amx_bf16")
# (what, of whom, compared with whom, times as fast)
WANTED = [
    ("one device, as fast as eager", "one", "eager", 1.15),
    ("one device, as fast as frozen TorchScript", "one", "torchscript", 1.1),
    ("two devices, batches back to back, throughput of eager", "two", "eager", 1.25),
    ("two devices, one batch in 8 micro-batches, as fast as eager", "in8", "eager", 1.1),
    ("the same, as fast as torch.distributed.pipelining by hand", "in8", "hand", 1.3),
]
BUBBLE_POINTS = 3
OVERHEAD_NS = 1500


def text(results, overhead, how, loads):
    """`results` is, by model and contestant, a list of measurements, one a round, or the reason why there are none."""
    return "\n\n".join([
        f"{datetime.date.today()}, {machine(loads)}. {how}",
        table([["seconds a batch, times as fast as eager", *results]] +
              [[contestant.label, *(speed(rounds, name) for rounds in results.values())]
               for name, contestant in CONTESTANTS.items() if any(name in rounds for rounds in results.values())]),
        table([["wanted", *results]] + [*wanted_rows(results)]),
        table([["executor, ns an operation", "plan", "C++ calls", "TorchScript", f"above (≤ {OVERHEAD_NS:,})"]] +
              [[chain, *map(str, (ways["plan"], ways["direct"], ways["torchscript"], ways["plan"] - ways["direct"]))]
               for chain, ways in overhead.items()]),
        *failures(results)])


def table(rows):
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([lines[0], "|" + "---|" * len(rows[0]), *lines[1:]])


def machine(loads):
    facts = pathlib.Path("/proc/cpuinfo").read_text()
    name = re.search(r"^model name\s*: (.*)", facts, re.MULTILINE)
    flags = re.search(r"^flags\s*: (.*)", facts, re.MULTILINE)
    known = [flag for flag in FLAGS if flag in (flags[1].split() if flags else [])]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return (f"{len(os.sched_getaffinity(0))} of {os.cpu_count()} cores of {name[1] if name else platform.machine()} "
            f"({', '.join(known) or 'no AVX2'}), {memory:.0f} GiB, {platform.freedesktop_os_release()['PRETTY_NAME']}, "
            f"torch {importlib.metadata.version('torch')}, load {loads[0]:.1f} before and {loads[1]:.1f} after")


def speed(rounds, name):
    if not measured(rounds, name):
        return "fails" if name in rounds else "–"
    seconds = f"{statistics.median(one['seconds'] for one in rounds[name]):.4g} s"
    return f"{seconds}, {ratio(rounds, name, 'eager'):.2f} ×" if measured(rounds, "eager") else seconds


def measured(rounds, name):
    return isinstance(rounds.get(name), list)


def ratio(rounds, name, other):
    """Of each round, so that what slows the machine for a while slows both; then the median."""
    return statistics.median(theirs["seconds"] / ours["seconds"] for ours, theirs in zip(rounds[name], rounds[other]))


def wanted_rows(results):
    for what, name, other, least in WANTED:
        yield [f"{what}: ≥ {least}", *(against(rounds, name, other, least) for rounds in results.values())]
    for name in ("in4", "in8"):
        yield [f"bubble of {CONTESTANTS[name].microbatches} micro-batches, by formula: within {BUBBLE_POINTS} points",
               *(bubble(rounds, name) for rounds in results.values())]


def against(rounds, name, other, least):
    if not (measured(rounds, name) and measured(rounds, other)):
        return "–"
    found = ratio(rounds, name, other)
    return f"{found:.2f}" + ("" if found >= least else ", short")


def bubble(rounds, name):
    if not measured(rounds, name):
        return "–"
    found, formula = (100 * statistics.median(one[key] for one in rounds[name]) for key in ("measured", "formula"))
    short = "" if abs(found - formula) <= BUBBLE_POINTS else ", short"
    return f"{found:.1f} %, {formula:.1f} %{short}"


def failures(results):
    """A paragraph, if there is anything to say."""
    said = [f"- {model}, {CONTESTANTS[name].label}: `{found}`" for model, rounds in results.items()
            for name, found in rounds.items() if isinstance(found, str)]
    return ["Fails:", "\n".join(said)] if said else []


def put(page, report):
    """`page` with the text between the markers replaced."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise SystemExit(f"no {BEGIN} … {END} to write between")
    return f"{before}{BEGIN}\n\n{report}\n\n{END}{after}"
