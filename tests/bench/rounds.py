"""Contestants in rounds: in each, every one runs once, one after another, in processes of its own."""

import argparse
import collections
import contextlib
import os
import pathlib
import signal
import sys
import tempfile

import report
from contestants import Bench, Failure

CORES = 2
RESULTS = pathlib.Path(__file__).resolve().parents[2] / "docs/results.md"


def arguments(description, models):
    """A parser with what all benchmarks take."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--bin", type=pathlib.Path, default="build/bin", help="the folder of our executables")
    parser.add_argument("--models", type=lambda text: text.split(","), help=f"of {','.join(models)}; all")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="a tiny model, one round, writes nothing")
    return parser


def parse(parser, models):
    options = parser.parse_args()
    options.models = options.models or (["gpt2"] if options.quick else [*models])
    if unknown := set(options.models) - set(models):
        parser.error(f"no such model as {', '.join(sorted(unknown))}, expected {', '.join(models)}")
    if options.quick:
        options.rounds = 1
    return options


def take_cores():
    """For this process and its children."""
    # Plans of several gigabytes must not stay behind.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])


def compete(options, model, contestants, steps):
    """By contestant, its measurements, or why there are none."""
    with tempfile.TemporaryDirectory(prefix="cleave-bench-") as folder:
        bench = Bench(options.bin, pathlib.Path(folder), model, steps)
        bench.trace()
        found = collections.defaultdict(list)
        for name, contestant in contestants.items():
            with failing(found, name, f"{model.name}: {contestant.label}"):
                contestant.prepare(bench)
        for number in range(options.rounds):
            for name, contestant in contestants.items():
                if isinstance(found[name], list):
                    where = f"{model.name}, round {number + 1}: {contestant.label}"
                    print(where, file=sys.stderr, flush=True)
                    with failing(found, name, where):
                        found[name].append(contestant.measure(bench))
    return found


@contextlib.contextmanager
def failing(found, name, where):
    """Who fails is left out from then on."""
    try:
        yield
    except Failure as failure:
        print(f"warning: {where}: left out: {failure}", file=sys.stderr, flush=True)
        found[name] = str(failure)


def conclude(options, models, name, results, found):
    """Prints what was found, and puts it into docs/results.md when all models took part; a quick round only sees to it that
    nobody fails."""
    print(found)
    page = report.put(RESULTS.read_text(), name, found)
    if options.models == [*models] and not options.quick:
        RESULTS.write_text(page)
    if options.quick and any_failed(results):
        raise SystemExit(1)


def any_failed(results):
    return any(isinstance(rounds, str) for names in results.values() for rounds in names.values())
