"""Checks that traces of modules that decide in Python keep what their witnesses promise.

A trace holds what Python decided on the example. cleave-trace says so: an error where values decide, a range where sizes do. Where
it says nothing, the trace has to answer as the module does at sizes and values that are none of its witnesses; `check` draws such.

    python tests/zoo/python_decisions.py [--plans] [NAME…]

prints one line a module and counts; exit status 1 if one is wrong. With --plans, what `cleave compile --verify` accepts is held to the
modules in place of traces.
"""

import dataclasses
import pathlib
import random
import subprocess
import sys
import tempfile

import sweep
import torch
from comparing import differences
from deciding_modules import DECISIONS

SIZES, VALUES = 8, 3
TOLERANCE = 1e-3  # of an output's largest value


@dataclasses.dataclass
class Result:
    compared: int = 0  # of sizes and values that are let in
    refused: str = ""  # by cleave-trace
    outside: int = 0  # drawn, and not let in
    wrong: list = dataclasses.field(default_factory=list)


def example(name):
    """`cleave-trace` calls this: the module and its inputs."""
    torch.manual_seed(0)
    made = DECISIONS[name]
    return made.module(), made.inputs(made.sizes, torch.Generator().manual_seed(0))


def is_allowed(dimensions, inputs, given):
    """Whether the stated ranges let in tensors `given`, by path, where the example has `inputs`."""
    grouped = {(path, dim) for dimension in dimensions for path, dim in dimension["dims"]}
    for path, tensor in inputs.items():
        if any(size != other and (path, dim) not in grouped
               for dim, (size, other) in enumerate(zip(tensor.shape, given[path].shape))):
            return False
    for dimension in dimensions:
        sizes = {given[path].shape[dim] for path, dim in dimension["dims"]}
        size = sizes.pop()
        if sizes or not dimension["min"] <= size <= dimension["max"] or size % dimension["divisible_by"]:
            return False
    return True


def draws(made, seed=977):
    """Inputs at other sizes and with other values, none of which the example's seed gives."""
    random_sizes = random.Random(seed)
    for index in range(SIZES * 3):
        sizes = dict(made.sizes)
        for symbol in sizes if index % 2 else [random_sizes.choice(list(sizes))]:
            sizes[symbol] = random_sizes.randint(1, 5 * sizes[symbol])
        yield sizes, torch.Generator().manual_seed(seed + index)
    for index in range(VALUES):
        yield made.sizes, torch.Generator().manual_seed(seed * 3 + index)


def check(name, callee, dimensions, refused=""):
    """Compares `callee`, which returns outputs by path, with the module wherever `dimensions` (of the file of witnesses) let inputs in.
    """
    from cleave_trace import trees

    made, result = DECISIONS[name], Result(refused=refused)
    if refused:
        return result
    inputs = trees.leaves(example(name)[1])
    for sizes, generator in draws(made):
        arguments = made.inputs(sizes, generator)
        given = trees.leaves(arguments)
        if not is_allowed(dimensions, inputs, given):
            result.outside += 1
            continue
        module = example(name)[0].eval()  # Anew, without what it kept.
        with torch.no_grad():
            try:
                expected = trees.leaves(trees.traceable(module(**arguments)), "output")
            except Exception:
                result.outside += 1
                continue
            try:
                found = callee(**{key: trees.traceable(value) for key, value in arguments.items()})
                is_right = set(found) == set(expected) and not differences(found, expected, expected, TOLERANCE)
            except Exception:
                is_right = False
        result.compared += 1
        if not is_right:
            result.wrong.append(str(sizes))
    return result


def traced(name):
    """The trace and its witnesses, a function that calls the trace, the dimensions and the error of cleave-trace, in this process."""
    from cleave_trace import tracing, trees
    from cleave_trace.errors import TraceError
    from cleave_trace.witnesses import collect

    module, inputs = example(name)
    try:
        trace = tracing.trace(module.eval(), inputs)
        found = collect.collect(trace)
        assert not any("were not all compared" in note for note in found.notes), found.notes
    except TraceError as error:
        return None, None, [], str(error)

    def call(**arguments):
        return trees.leaves(trace.module(**arguments), "output")

    return (trace, found), call, [dimension.description() for dimension in found.dimensions], ""


def compiled(written, dimensions, folder):
    """A function that runs a plan as a trace is called, with its open dimensions; or the error of `compile --verify`."""
    from cleave_trace import files, trees
    from safetensors.torch import load_file, save_file

    trace, found = written
    files.write(trace, folder / "model.pt", "module", found)
    opened = [dimension for dimension in dimensions if dimension["min"] < dimension["max"]]

    def cleave(*arguments):
        done = subprocess.run([sweep.SOURCE / "build/bin/cleave", *arguments], capture_output=True, text=True, cwd=folder)
        return sweep.error_of(done.returncode, done.stderr)

    def run(**arguments):
        given = dict(zip(trace.inputs, trees.leaves(arguments).values(), strict=True))
        save_file({path: tensor.contiguous() for path, tensor in given.items()}, folder / "given.safetensors")
        if error := cleave("run", "plan", "--inputs", "given.safetensors", "--outputs", "found.safetensors"):
            raise ValueError(error)
        return load_file(folder / "found.safetensors")

    error = cleave("compile", "model.pt", "--inputs", "model.inputs.safetensors", "--verify",
                   *sweep.named_dimensions(trace.inputs, opened), "-o", "plan")
    return None if error else run, error


def main(names, with_plans):
    total = Result()
    for name in names or DECISIONS:
        written, callee, dimensions, error = traced(name)
        with tempfile.TemporaryDirectory() as folder:
            if with_plans and not error:
                callee, error = compiled(written, dimensions, pathlib.Path(folder))
            result = check(name, callee, dimensions, error)
        print(f"{'WRONG' if result.wrong else 'ok':5} {name}: {result.compared} compared, {result.outside} outside; "
              f"{' '.join(map(sweep.range_of, dimensions))} {result.refused[:110]} {' '.join(result.wrong[:3])}", flush=True)
        total.compared += result.compared
        total.outside += result.outside
        total.wrong += [name] * bool(result.wrong)
    print(f"{len(names or DECISIONS)} modules, {total.compared} comparisons, {total.outside} draws outside, wrong: "
          f"{', '.join(total.wrong) or 'none'}")
    return bool(total.wrong)


if __name__ == "__main__":
    sys.exit(main([name for name in sys.argv[1:] if name != "--plans"], "--plans" in sys.argv))
