"""The results of the benchmarks as Markdown, and their place in docs/results.md.

`results` is, by model and contestant, a list of measurements, one a round, or the reason why there are none.
"""

import dataclasses
import datetime
import importlib.metadata
import os
import pathlib
import platform
import re
import statistics

# What decides how fast matrix products are.
FLAGS = ("avx2", "avx512f", "avx512_bf16", "avx512_vnni", "amx_bf16")


def table(rows):
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([lines[0], "|" + "---|" * len(rows[0]), *lines[1:]])


@dataclasses.dataclass(frozen=True)
class Load:
    """What else the cores do: processes that want one, and, since the start, the time of all cores and what the host kept of it."""
    waiting: float
    elapsed: int
    stolen: int


def load():
    ticks = [int(field) for field in pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    return Load(os.getloadavg()[0], sum(ticks), ticks[7])


def machine(before):
    """When and on what was measured, called when it has been; `before`: the load then."""
    after = load()
    stolen = 100 * (after.stolen - before.stolen) / max(after.elapsed - before.elapsed, 1)
    facts = pathlib.Path("/proc/cpuinfo").read_text()
    name = re.search(r"^model name\s*: (.*)", facts, re.MULTILINE)
    flags = re.search(r"^flags\s*: (.*)", facts, re.MULTILINE)
    known = [flag for flag in FLAGS if flag in (flags[1].split() if flags else [])]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return (f"{datetime.date.today()}, "
            f"{len(os.sched_getaffinity(0))} of {os.cpu_count()} cores of {name[1] if name else platform.machine()} "
            f"({', '.join(known) or 'no AVX2'}), {memory:.0f} GiB, {platform.freedesktop_os_release()['PRETTY_NAME']}, "
            f"torch {importlib.metadata.version('torch')}, load {before.waiting:.1f} before and {after.waiting:.1f} after, "
            f"{stolen:.1f} % of the cores' time stolen by their host")


def speeds(results, contestants):
    return table([["seconds a batch, times as fast as eager", *results]] +
                 [[contestant.label, *(speed(rounds, name) for rounds in results.values())]
                  for name, contestant in contestants.items() if any(name in rounds for rounds in results.values())])


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


def against(rounds, name, others, least):
    """How many times as fast as the fastest of `others`."""
    others = [other for other in others if measured(rounds, other)]
    if not (measured(rounds, name) and others):
        return "–"
    found = min(ratio(rounds, name, other) for other in others)
    return f"{found:.2f}" + ("" if found >= least else ", short")


def bubble(rounds, name, points):
    if not measured(rounds, name):
        return "–"
    found, formula = (100 * statistics.median(one[key] for one in rounds[name]) for key in ("measured", "formula"))
    short = "" if abs(found - formula) <= points else ", short"
    return f"{found:.1f} %, {formula:.1f} %{short}"


def failures(results, contestants):
    """A paragraph, if there is anything to say."""
    said = [f"- {model}, {contestants[name].label}: `{found}`" for model, rounds in results.items()
            for name, found in rounds.items() if isinstance(found, str)]
    return ["Fails:", "\n".join(said)] if said else []


def put(page, name, report):
    """`page` with the text between the markers of the benchmark `name` replaced."""
    first, last = f"<!-- bench:{name} -->", f"<!-- /bench:{name} -->"
    before, begin, rest = page.partition(first)
    _, end, after = rest.partition(last)
    if not (begin and end):
        raise SystemExit(f"no {first} … {last} to write between")
    return f"{before}{first}\n\n{report}\n\n{last}{after}"
