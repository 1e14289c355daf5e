"""Training of architectures over a pairwise cover of meshes, schedules, recomputation, micro-batches, threads and processes.

`compile --train --verify` holds three steps of each plan to PyTorch's own; then two steps are trained by `train`, and where the row
says processes, by as many of them as the plan has ranks, with the same bits. An architecture takes ROWS rows of the cover, by its
name. Each model adds one line of JSON to WORK/cover.jsonl; models that are there are not run again.
"""

import collections
import itertools
import json
import math
import random
import re
import shutil

import sweep
import training

SECONDS = 900  # for one architecture
ROWS = 12  # of the cover, for one architecture
AXES = {"pp": (1, 2, 4), "tp": (1, 2, 3), "schedule": ("gpipe", "1f1b", "interleaved", "zb-h1"), "recompute": (None, "full"),
        "microbatches": (1, 2, 4), "how": ("threads", "processes")}
# Found by simulated annealing.
COVER = [(2, 2, "zb-h1", None, 4, "processes"), (2, 1, "interleaved", "full", 4, "processes"), (2, 2, "1f1b", None, 1, "processes"),
         (2, 3, "1f1b", "full", 4, "threads"), (4, 2, "interleaved", None, 1, "threads"), (2, 1, "zb-h1", "full", 1, "threads"),
         (1, 1, None, None, 1, "threads"), (4, 1, "1f1b", "full", 2, "threads"), (4, 1, "gpipe", "full", 4, "processes"),
         (2, 2, "gpipe", None, 2, "processes"), (2, 3, "interleaved", None, 2, "processes"), (4, 3, "zb-h1", None, 2, "threads"),
         (2, 3, "gpipe", None, 1, "threads"), (1, 3, None, "full", 2, "threads"), (1, 2, None, "full", 4, "processes")]


def pairs_of(row):
    """Pairs of values that a training has. One pipeline rank has no schedule, one rank is one process."""
    pp, tp, *_ = row
    meaningless = ({"schedule"} if pp == 1 else set()) | ({"how"} if pp * tp == 1 else set())
    return set(itertools.combinations([(axis, value) for axis, value in zip(AXES, row) if axis not in meaningless], 2))


def covers(rows):
    return set().union(*map(pairs_of, rows)) == set().union(*map(pairs_of, itertools.product(*AXES.values())))


def main():
    parser = sweep.parser(__doc__.splitlines()[0])
    parser.add_argument("--product", action="store_true", help="all combinations in place of the cover")
    options = parser.parse_args()
    assert covers(COVER)
    if options.one:
        print(json.dumps(CoverCheck(options.one, options).result()))
        return
    file, more = ("product.jsonl", ["--product"]) if options.product else ("cover.jsonl", [])
    product = math.prod(len(values) for values in AXES.values())
    seconds = SECONDS * product // ROWS if options.product else SECONDS
    print(summary(sweep.run(options, __file__, file, seconds, status_line, more)))


def status_line(found):
    if found["reason"]:
        return found["reason"]
    errors = [f"{row}: {error}" for row, error in found["rows"].items() if error]
    return "; ".join([f"{len(found['rows']) - len(errors)} of {len(found['rows'])} the same", *errors])


def summary(entries):
    traced = [entry for entry in entries if not entry["reason"]]
    outcomes = [(entry["name"], row, error) for entry in traced for row, error in entry["rows"].items()]
    same = sum(not error for _, _, error in outcomes)
    wrong = [outcome for outcome in outcomes if training.DIFFERS in outcome[2] or "other bits" in outcome[2]]
    lines = [f"{len(entries)} architectures, {len(traced)} traced, {len(outcomes)} trainings, {same} the same, {len(wrong)} wrong"]
    lines += [f"  wrong: {name} over {row}: {error}" for name, row, error in wrong]
    reasons = collections.Counter(re.sub(r"[\w./]*\d[\w.,]*", "N", error) for _, _, error in outcomes if error)
    return "\n".join([*lines, *(f"  {count}: {reason}" for reason, count in reasons.most_common())])


class CoverCheck(training.TracedTraining):
    def __init__(self, name, options):
        super().__init__(name, options, "cover", SECONDS)
        self.rows = list(itertools.product(*AXES.values())) if options.product else random.Random(name).sample(COVER, ROWS)

    def result(self):
        if reason := self.trace():
            return {"reason": reason}
        rows = {", ".join(str(value) for value in row if value): self.trained(*row) for row in self.rows}
        if not any(rows.values()):
            shutil.rmtree(self.folder)
        return {"reason": "", "rows": rows}

    def trained(self, pp, tp, schedule, recompute, microbatches, how):
        mesh = ("--mesh", f"pp={pp},tp={tp}", "--microbatches", microbatches)
        order = ("--schedule", schedule) if pp > 1 else ()
        again = ("--recompute", recompute) if recompute else ()
        error = self.command("cleave", "compile", self.path, "--inputs", self.inputs, "--train", "--verify", *mesh, *order, *again,
                             "-o", "plan")
        if error:
            return error
        threads = self.steps(1)
        processes = self.steps(pp * tp) if how == "processes" and pp * tp > 1 else threads
        for found in (threads, processes):
            if isinstance(found, str):
                return found
        return "" if processes == threads else "processes give other bits"

    def steps(self, ranks):
        """Bytes of the weights and the checkpoint after two steps; or the error."""
        files = [self.folder / f"{ranks}.{kind}" for kind in ("safetensors", "checkpoint")]
        arguments = ("train", "plan", "--data", self.inputs, "--steps", 2, "--lr", "1e-3", "--output", files[0],
                     "--checkpoint", files[1])
        error = self.in_processes(ranks, *arguments) if ranks > 1 else self.command("cleave", *arguments)
        return error or [file.read_bytes() for file in files]


if __name__ == "__main__":
    main()
