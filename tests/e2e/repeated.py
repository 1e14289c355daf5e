"""Runs tests again and again, every other time beside processes that keep the machine busy: `make repeated`.

A test that depends on how quick the machine is fails here sooner or later. The exit status is 1 if any did.
"""

import argparse
import multiprocessing
import pathlib
import re
import subprocess
import sys
import tempfile

FOLDER = pathlib.Path(__file__).resolve().parent


def work():
    """A child process that takes all it gets of a core, until it is terminated."""
    while True:
        sum(range(1_000_000))


class Busy:
    """So many processes that work while the context lasts."""

    def __init__(self, count):
        self.processes = [multiprocessing.Process(target=work, daemon=True) for _ in range(count)]

    def __enter__(self):
        for process in self.processes:
            process.start()

    def __exit__(self, *_):
        for process in self.processes:
            process.terminate()
            process.join()


def passes(file, folder):
    """Whether the tests of `file` pass, and what they print."""
    done = subprocess.run([sys.executable, "-m", "pytest", "--basetemp", folder, file], cwd=FOLDER,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return done.returncode == 0, done.stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=20, help="runs of each file (default: %(default)s)")
    parser.add_argument("--busy", type=int, default=4, help="processes beside every other run (default: %(default)s)")
    parser.add_argument("files", nargs="*", metavar="FILE",
                        default=["test_faults.py", "test_links.py", "test_interrupt.py", "test_progress.py", "test_html.py"])
    options = parser.parse_args()
    failed = 0
    for run in range(options.times):
        beside = options.busy * (run % 2)
        for file in options.files:
            with tempfile.TemporaryDirectory() as folder, Busy(beside):
                passed, output = passes(file, folder)
            failed += not passed
            outcome = (re.findall(r"\d+ \w+(?:, \d+ \w+)* in [\d.]+s", output) or ["no outcome"])[-1]
            print(f"{run + 1:3} {file:24} beside {beside}: {outcome}", flush=True)
            if not passed:
                print(output, flush=True)
    print(f"{len(options.files) * options.times - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
