"""Plans of many architectures that `compile --verify` accepts, against the modules at sizes and values that are no witnesses.

Each model is traced with its witnesses, and compiled with every dimension named whose range is stated. The plan runs at sizes drawn
inside the ranges and with values drawn anew, and a fresh copy of the module answers the same inputs. Each model adds one line of JSON
to WORK/witnesses.jsonl; models that are there are not run again.
"""

import collections
import copy
import json
import random
import re
import shutil

import sweep
from comparing import differences

SECONDS = 600  # for one architecture
SIZES, VALUES = 8, 3
MOST_GROWTH = 16  # times the elements of the example
TOLERANCE = 1e-3  # of an output's largest value
SEED = 977


def main():
    options = sweep.parser(__doc__.splitlines()[0]).parse_args()
    if options.one:
        print(json.dumps(WitnessCheck(options.one, options).result()))
        return
    print(summary(sweep.run(options, __file__, "witnesses.jsonl", SECONDS, status_line)))


def status_line(found):
    return found["reason"] or (f"{found['sizes']} sizes, {found['values']} values, {found['outside']} not run by the module; "
                               f"{' '.join(found['open'])} {'WRONG ' + found['wrong'][0] if found['wrong'] else ''}")


def summary(entries):
    ran = [entry for entry in entries if not entry["reason"]]
    lines = [f"{len(entries)} architectures, {len(ran)} accepted, "
             f"{sum(bool(entry['open']) for entry in ran)} with open dimensions, "
             f"{sum(entry['sizes'] for entry in ran)} comparisons at other sizes, "
             f"{sum(entry['values'] for entry in ran)} with other values, {sum(len(entry['wrong']) for entry in ran)} wrong"]
    lines += [f"  wrong: {entry['name']}: {entry['wrong'][0]}" for entry in ran if entry["wrong"]]
    reasons = collections.Counter(re.sub(r"\d+", "N", entry["reason"]) for entry in entries if entry["reason"])
    return "\n".join([*lines, *(f"  {count}: {reason}" for reason, count in reasons.most_common())])


class WitnessCheck(sweep.Check):
    def __init__(self, name, options):
        super().__init__(name, options, "witnesses", SECONDS)

    def result(self):
        from cleave_trace.errors import TraceError

        try:
            self.first_trace()
            found = self.witnesses()
        except (TraceError, ValueError) as error:
            return {"reason": f"trace: {str(error)[:200]}"}
        dimensions = [dimension.description() for dimension in found.dimensions]
        self.dimensions = [dimension for dimension in dimensions if dimension["min"] < dimension["max"]]
        notes = {"notes": found.notes}
        error, named = self.compile()
        if error:
            return {"reason": error, **notes}
        counts, wrong = self.compare(named)
        if not wrong:
            shutil.rmtree(self.folder, ignore_errors=True)
        ranges = [sweep.range_of(dimension) for dimension in self.dimensions]
        return {"reason": "", "open": ranges, "named": len(named), **counts, "wrong": wrong, **notes}

    def witnesses(self):
        from cleave_trace import files
        from cleave_trace.witnesses import collect

        found = collect.collect(self.trace)
        files.write(self.trace, self.path, self.name, found)
        return found

    def compile(self):
        """The error of `compile --verify`, empty if it accepts, and the dimensions that it let name: all, else one, else none."""
        ways = [self.dimensions, *([dimension] for dimension in self.dimensions if len(self.dimensions) > 1), []]
        first = ""
        for named in ways:
            error = self.command("cleave", "compile", self.path, "--inputs", self.inputs, "--verify",
                                 *sweep.named_dimensions(self.trace.inputs, named), "-o", "plan")
            if not error:
                return "", named
            first = first or error
            if "differs" in error:
                break
        return f"compile: {first}", []

    def compare(self, named):
        """Counts of comparisons and what was wrong."""
        from cleave_trace.witnesses import variations

        dice, counts, wrong = random.Random(f"{SEED} {self.name}"), {"sizes": 0, "values": 0, "outside": 0}, []
        wanted = {"values": VALUES, "sizes": SIZES if named else 0}
        for number, what in enumerate(["values"] * 2 * VALUES + ["sizes"] * 4 * SIZES):
            if counts[what] == wanted[what]:
                continue
            sizes = self.sizes(named, dice) if what == "sizes" else {}
            inputs = self.resized(named, sizes)
            changed = variations.changed(inputs, variations.RANDOM, SEED + number) or inputs
            expected = self.answer(changed)
            if expected is None:  # Drawn values that are not of the kind, such as lengths: the example's, in another order.
                changed = variations.changed(inputs, variations.REVERSED, SEED + number) or inputs
                expected = self.answer(changed)
            if expected is None and what == "sizes":
                changed, expected = inputs, self.answer(inputs)
            if expected is None:
                counts["outside"] += 1
                continue
            error = self.plan(changed, expected)
            counts[what] += 1
            if error:
                wrong.append(f"{what} {list(sizes.values())}: {error}")
        return counts, wrong

    def sizes(self, named, dice):
        """Sizes inside the ranges, of which the product is bounded."""
        growth, found = MOST_GROWTH, {}
        for index in dice.sample(range(len(named)), len(named)):
            dimension = named[index]
            step, traced = dimension["divisible_by"], dimension["traced"]
            greatest = min(dimension["max"], max(4 * traced, 8), int(traced * growth))
            allowed = range(-(-dimension["min"] // step), greatest // step + 1)
            found[index] = step * dice.choice(allowed) if allowed else traced
            growth = growth * traced / max(found[index], traced)
        return dict(sorted(found.items()))

    def resized(self, named, sizes):
        import torch

        found = dict(self.trace.inputs)
        for index, size in sizes.items():
            for path, dim in named[index]["dims"]:
                found[path] = found[path].index_select(dim, torch.arange(size) % found[path].shape[dim]).contiguous()
        return found

    def answer(self, inputs):
        """Outputs of a fresh copy of the module by path; None if it fails."""
        import torch
        from cleave_trace import trees

        try:
            with torch.no_grad():
                found = copy.deepcopy(self.module)(*self.arguments(inputs)[0], **self.arguments(inputs)[1])
        except Exception:
            return None
        outputs = trees.leaves(trees.traceable(trees.plain(found)), "output")
        has_nan = any(value.is_floating_point() and bool(value.isnan().any()) for value in outputs.values())
        return None if has_nan else outputs

    def arguments(self, inputs):
        from cleave_trace import trees

        values = iter([value.clone() for value in inputs.values()])
        return trees.fill((self.bound.args, self.bound.kwargs), values)

    def plan(self, inputs, expected):
        """How the plan differs from `expected`; empty if it does not."""
        from safetensors.torch import load_file, save_file

        save_file({name: value.contiguous() for name, value in inputs.items()}, self.folder / "given.safetensors")
        error = self.command("cleave", "run", "plan", "--inputs", "given.safetensors", "--outputs", "found.safetensors")
        return error or differences(load_file(self.folder / "found.safetensors"), expected, expected, TOLERANCE)


if __name__ == "__main__":
    main()
