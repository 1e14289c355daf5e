"""What a build spends its time on: seconds of each target and of its slowest files, from Ninja's log of the last build of each file.

Steps that run beside others are counted whole, so that the sum is near CPU time where there are as many jobs as cores.
"""

import argparse
import collections
import pathlib
import re


def seconds_of(log):
    """Of each output; a step that has several outputs counts once."""
    steps = {}
    for line in log.read_text().splitlines():
        if not line.startswith("#"):
            start, end, _, output, command = line.split("\t")
            steps[output] = (int(start), int(end), command)
    first = {step: output for output, step in reversed(steps.items())}
    return {output: (end - start) / 1000 for (start, end, _), output in first.items()}


def target_of(output):
    found = re.search(r"([^/]+)\.dir/", output)
    return found[1] if found else "links, generated files"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--files", type=int, default=20, help="slowest files shown (default: %(default)s)")
    options = parser.parse_args()
    seconds = seconds_of(options.build / ".ninja_log")
    targets = collections.defaultdict(list)
    for output, taken in seconds.items():
        targets[target_of(output)].append(taken)
    print(f"{sum(seconds.values()):8.0f} s  {len(seconds):4} steps")
    for target, taken in sorted(targets.items(), key=lambda item: -sum(item[1])):
        print(f"{sum(taken):8.1f} s  {len(taken):4} steps  {target}")
    print(f"the {options.files} slowest:")
    for output, taken in sorted(seconds.items(), key=lambda item: -item[1])[:options.files]:
        print(f"{taken:8.1f} s  {output}")


if __name__ == "__main__":
    main()
