"""Gradients of every architecture that PyTorch can trace in training mode, small, against the module's by PyTorch's autograd.

Each has its dropouts at 0 and a loss of all its outputs, is traced and compiled with --gradients in a process of its own, and is
run: as traced, and with the batch and the lengths of texts named, at two sizes that were not traced. With --steps losses of
AdamW are compared instead. Each model adds one line of JSON to WORK/gradients.jsonl; models that are there are not run again.
"""

import collections
import copy
import functools
import inspect
import json
import os
import re
import shutil
import subprocess

import sweep

SECONDS = 300  # for one architecture
LEARNING_RATE = 1e-4
SIZES = ((3, -5), (5, 7))  # two batches that are not traced, with what is added to each length
EXACT = 1e-8  # of a gradient in float64
MEMORY = 0.03  # that a predicted peak may be off
# Random numbers come from configurations, from modules, and from direct calls of torch.nn.functional; each has a switch of its own.
RANDOM_FIELDS = re.compile(r"drop|mask_(time|feature)_prob|noise|jitter|layerdrop|survival")
DISABLED_FIELDS = ("apply_spec_augment", "output_router_logits")


def main():
    parser = sweep.parser(__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, metavar="N", help="train N steps of AdamW, and compare losses rather than gradients")
    options = parser.parse_args()
    if options.one:
        print(json.dumps(check_architecture(options.one, options)))
        return
    print(summary(sweep.run(options, __file__, "training.jsonl" if options.steps else "gradients.jsonl", SECONDS,
                            lambda found: found["reason"] or "ok", ["--steps", str(options.steps)] if options.steps else [])))


def summary(entries):
    steps = collections.Counter(entry.get("step", "trace") if entry["reason"] else "same in float64" if "in_float32" in entry else "same"
                                for entry in entries)
    lines = [", ".join(f"{step}: {count}" for step, count in steps.items())]
    named = collections.Counter("batch and lengths" if len(entry["named"]) > 1 else "".join(entry["named"]) or "no size"
                                for entry in entries if "named" in entry and not entry["reason"])
    lines += [f"same with other sizes, {what}: {count}" for what, count in named.items()]
    refused = collections.Counter(re.sub(r"\d+", "N", reason) for entry in entries for reason in entry.get("refused", ()))
    lines += [f"names refused, {count}: {reason}" for reason, count in refused.most_common(20)]
    for step in ("compile", "run", "compare", "sizes"):
        groups = collections.defaultdict(list)
        for entry in entries:
            if entry["reason"] and entry.get("step", "trace") == step:
                groups[re.sub(r"[\w.]*\d[\w.,]*|'[^']*'", "N", entry["reason"])].append(entry)
        for group in sorted(groups.values(), key=len, reverse=True):
            lines.append(f"{step}, {len(group)}: {group[0]['reason']} ({', '.join(entry['name'] for entry in group[:6])})")
    ratios = sorted((entry["predicted_bytes"] / entry["measured_bytes"], entry["name"]) for entry in entries
                    if entry.get("predicted_bytes"))
    wrong = [f"{name} {ratio:.2f}" for ratio, name in ratios if abs(ratio - 1) > MEMORY]
    lines.append(f"peak bytes within {MEMORY:.0%}: {len(ratios) - len(wrong)} of {len(ratios)}"
                 + "".join(f", {one}" for one in wrong))
    return "\n".join(lines)


def check_architecture(name, options):
    """The result of one architecture: the step at which it ended, and why; no reason if gradients are the same."""
    import architectures
    import torch
    from cleave_trace import files, tracing

    torch.set_num_threads(1)
    disable_functional_dropout(torch.nn.functional)
    folder = options.work / "gradients" / name.replace(":", ".")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    path = folder / "model.pt"
    try:
        module, example, expected = first_that_trains(name, architectures)
        # Tracing changes the module.
        original = copy.deepcopy(module)
        trace = tracing.trace(module, example, train=True)
        files.write(trace, path)
    except Exception as error:
        return {"step": "trace", "reason": f"{type(error).__name__}: {error}".splitlines()[0][:200]}

    def cleave(*arguments):
        # One thread, for which memory is predicted where no machine file says otherwise.
        return subprocess.run([options.bin / "cleave", *arguments], capture_output=True, text=True, cwd=folder, timeout=SECONDS,
                              env={**os.environ, "OMP_NUM_THREADS": "1"})

    compiled = cleave("compile", path, "--inputs", path.with_suffix(".inputs.safetensors"),
                      "--train" if options.steps else "--gradients", "--json", "-o", "plan")
    if compiled.returncode:
        return {"step": "compile", "reason": sweep.error_of(compiled.returncode, compiled.stderr)}
    if options.steps:
        done = cleave("train", "plan", "--data", path.with_suffix(".inputs.safetensors"), "--steps", str(options.steps),
                      "--lr", str(LEARNING_RATE), "--timeout", str(SECONDS), "--json")
        if done.returncode:
            return {"step": "run", "reason": sweep.error_of(done.returncode, done.stderr)}
        report = json.loads(done.stdout)
        reason, memory = difference_of_losses(report["losses"], original, example), peaks(cleave, report)
        shutil.rmtree(folder)
        return {"step": "compare", "reason": reason, **memory}
    done = cleave("run", "plan", "--inputs", path.with_suffix(".inputs.safetensors"), "--outputs", "found.safetensors",
                  "--timeout", str(SECONDS), "--json")
    if done.returncode:
        return {"step": "run", "reason": sweep.error_of(done.returncode, done.stderr)}
    from safetensors.torch import load_file

    reason, in_float32 = difference(load_file(folder / "found.safetensors"), expected, original, example), ""
    if reason and "random numbers" in compiled.stdout:
        reason = "draws random numbers: " + reason
    elif reason:
        in_float32, reason = reason, difference_in_float64(cleave, path, original, example, (), example)
    memory = peaks(cleave, json.loads(done.stdout))
    sizes = {} if reason else at_other_sizes(cleave, path, original, example, trace.inputs)
    if not sizes.get("reason"):
        shutil.rmtree(folder)
    return {"step": "compare", "reason": reason, **({"in_float32": in_float32} if in_float32 else {}), **memory, **sizes}


def difference_in_float64(cleave, path, module, example, options, given):
    """A gradient of the module in float64 that differs from PyTorch's, where float32 does not tell; compiled with `options`."""
    from cleave_trace import files, tracing
    from safetensors.torch import load_file, save_file

    path = path.with_name("exact.pt")
    exact, given = copy.deepcopy(module).double(), doubled(given)
    files.write(tracing.trace(copy.deepcopy(exact), doubled(example), train=True), path)
    done = cleave("compile", path, "--inputs", path.with_suffix(".inputs.safetensors"), "--gradients", *options, "-o", "exact")
    if not done.returncode:
        named = tracing.trace(copy.deepcopy(exact), given, train=True).inputs
        save_file({name: value.contiguous() for name, value in named.items()}, path.with_name("given.safetensors"))
        done = cleave("run", "exact", "--inputs", "given.safetensors", "--outputs", "found.safetensors", "--timeout", str(SECONDS))
    if done.returncode:
        return sweep.error_of(done.returncode, done.stderr)
    found, expected = load_file(path.with_name("found.safetensors")), gradients(exact, given)
    largest = max(float(gradient.abs().max()) for gradient in expected.values())
    for name, gradient in expected.items():
        error = float((found[f"grad.{name}"] - gradient).abs().max()) if f"grad.{name}" in found else 0.0
        if not error <= EXACT * float(gradient.abs().max()) + 1e-4 * EXACT * largest:
            return f"in float64 {name} differs by {error:.2g} of {float(gradient.abs().max()):.2g}"
    return ""


def at_other_sizes(cleave, path, module, example, inputs):
    """Dimensions that can be named, why others were refused, and a gradient that differs at sizes that were not traced."""
    from safetensors.torch import load_file, save_file

    given, refusals = path.with_name("given.safetensors"), []
    for dimensions in ways_to_name(inputs):
        names = sorted({name for found in dimensions.values() for name in found if name != "_"})
        try:
            examples = [(values, resized(example, inputs, values)) for values in resized_inputs(inputs, dimensions)]
            expected = [gradients(module, again) for _, again in examples]
        except Exception as error:
            refusals.append(f"the model, {type(error).__name__}: {error}".splitlines()[0][:200])
            continue
        options = [word for name, found in dimensions.items() for word in ("--dynamic", f"{name}={','.join(found)}")]
        done = cleave("compile", path, "--inputs", path.with_suffix(".inputs.safetensors"), "--gradients", *options, "-o", "plan")
        if done.returncode:
            refusals.append(sweep.error_of(done.returncode, done.stderr))
            continue
        for (values, again), wanted in zip(examples, expected):
            save_file({name: value.contiguous() for name, value in values.items()}, given)
            done = cleave("run", "plan", "--inputs", given, "--outputs", "found.safetensors", "--timeout", str(SECONDS))
            if done.returncode:
                refusals.append(sweep.error_of(done.returncode, done.stderr))
                break
            different = difference(load_file(path.with_name("found.safetensors")), wanted, module, again)
            if different:
                different = difference_in_float64(cleave, path, module, example, options, again)
            if different:
                shapes = ", ".join(f"{name} {list(value.shape)}" for name, value in values.items())
                return {"step": "sizes", "reason": f"at {shapes}: {different}", "named": names, "refused": refusals}
        else:
            return {"named": names, "refused": refusals}
    return {"named": [], "refused": refusals}


def ways_to_name(inputs):
    """Names of dimensions by input: the batch and the lengths of integer inputs, or the batch alone."""
    batch = next(iter(inputs.values())).shape[:1]
    batched = {name: ["batch", *["_"] * (value.dim() - 1)] for name, value in inputs.items() if value.shape[:1] == batch != ()}
    texts = {name: ["batch", f"length{value.size(1)}"] for name, value in inputs.items()
             if name in batched and value.dim() == 2 and not value.is_floating_point()}
    return [found for found in ({**batched, **texts} if texts else {}, batched) if found]


def resized_inputs(inputs, dimensions):
    """The inputs at each of SIZES: rows and columns of the example; where there are more, again from the first, floats rolled."""
    import torch

    for batch, more in SIZES:
        found = dict(inputs)
        for name, names in dimensions.items():
            for dim, kind in enumerate(names):
                if kind == "_":
                    continue
                size = found[name].size(dim)
                indices = torch.arange(batch if kind == "batch" else size + more)
                parts = found[name].index_select(dim, indices % size).unbind(dim)
                # Equal samples would make batch normalization ill-conditioned.
                if found[name].is_floating_point():
                    parts = [part.roll(int(index) // size, -1) if part.dim() else part for index, part in zip(indices, parts)]
                found[name] = torch.stack(parts, dim)
        yield found


def resized(example, inputs, values):
    """An example with other values for the inputs that were traced."""
    if isinstance(example, dict):
        return {**example, **values}
    example = (example,) if not isinstance(example, tuple) else example
    if len(example) != len(inputs):
        raise ValueError("an input of several tensors")
    return tuple(values[name] for name in inputs)


def peaks(cleave, report):
    """Bytes of the device, as the plan predicts them and as they were measured."""
    predicted = json.loads(cleave("inspect", "plan", "--json").stdout)["stages"][0]["predicted_peak_bytes"]
    return {"predicted_bytes": predicted, "measured_bytes": report["devices"][0]["peak_bytes"]}


def first_that_trains(name, architectures):
    """The first of the ways to build the architecture in which its loss has gradients, its example inputs, and the gradients."""
    source, _, model = name.partition(":")
    attempts = attempts_hf(model, architectures) if source == "hf" else architectures.attempts_vision(model)
    first = None
    for _, build in attempts:
        try:
            module, example = build()
            module = with_loss(without_dropout(module))
            return module, example, gradients(module, example)
        except Exception as error:
            first = first or error
    raise first


def attempts_hf(model, architectures):
    """As architectures.attempts_hf, with probabilities of 0."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    default = CONFIG_MAPPING[model]()
    for way in architectures.shrinking.WAYS:
        for variant in range(architectures.inputs.VARIANTS):
            yield "", functools.partial(architectures.build_hf, model, default, way, variant, change=zero_random_fields)


def zero_random_fields(config):
    from cleave_trace import hf_config
    from transformers import PreTrainedConfig

    for key, value in vars(config).items():
        if isinstance(value, PreTrainedConfig):
            zero_random_fields(value)
        elif RANDOM_FIELDS.search(key) and isinstance(value, float):
            setattr(config, key, 0.0)
    for key in DISABLED_FIELDS:
        hf_config.set_everywhere(config, key, False)


def disable_functional_dropout(functional):
    """Dropout gives what it takes, whatever its probability is."""
    for name in ("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout"):
        setattr(functional, name, lambda value, *args, **kwargs: value)
    attention = functional.scaled_dot_product_attention
    functional.scaled_dot_product_attention = lambda *args, dropout_p=0.0, **kwargs: attention(*args, **kwargs)


def without_dropout(module):
    for part in module.modules():
        if "Drop" in type(part).__name__ or "StochasticDepth" in type(part).__name__:
            for key in ("p", "drop_prob", "drop_p"):
                if isinstance(getattr(part, key, None), float):
                    setattr(part, key, 0.0)
    return module.train()


def with_loss(module):
    """A module with the arguments of `module` that returns a loss of all its outputs."""
    import torch
    from cleave_trace import trees

    class WithLoss(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.m = module

        def forward(self, *args, **kwargs):
            leaves = trees.leaves(trees.plain(self.m(*args, **kwargs)), "output").values()
            terms = [leaf.float().square().mean() for leaf in leaves if leaf.is_floating_point() and leaf.requires_grad]
            return {"loss": torch.stack(terms).sum()}

    own = inspect.signature(module.forward)
    parameter = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    WithLoss.forward.__signature__ = own.replace(parameters=[parameter, *own.parameters.values()])
    return WithLoss().train()


def gradients(module, example):
    """Gradients by name of the parameters that have one."""
    import torch

    example = (example,) if isinstance(example, torch.Tensor) else example
    torch.manual_seed(0)
    with torch.enable_grad():
        loss = (module(**example) if isinstance(example, dict) else module(*example))["loss"]
    named = dict(module.named_parameters())
    trained = {name: parameter for name, parameter in named.items() if parameter.requires_grad}
    found = torch.autograd.grad(loss, list(trained.values()), allow_unused=True)
    return {name: gradient for name, gradient in zip(trained, found) if gradient is not None}


def difference(found, expected, module, example):
    """A gradient that differs from PyTorch's by more than float32 explains; nothing if all are the same."""
    largest = max(float(gradient.abs().max()) for gradient in expected.values())
    exact = None
    for name, gradient in expected.items():
        got = found.get(f"grad.{name}")
        if got is None:
            if bool((gradient == 0).all()):
                continue
            return f"no gradient of {name}"
        if got.shape != gradient.shape:
            return f"{name} has the shape {list(got.shape)}"
        error = float((got - gradient).abs().max())
        if error <= 1e-5 * float(gradient.abs().max()) + 1e-6 * largest:
            continue
        if exact is None:
            exact = gradients(copy.deepcopy(module).double(), doubled(example))
        best, own = exact[name], float((gradient - exact[name]).abs().max())
        if not float((got - best).abs().max()) <= 3 * own:
            return f"{name} differs by {error:.2g} of {float(gradient.abs().max()):.2g}, PyTorch from float64 by {own:.2g}"
    more = {name.removeprefix("grad.") for name in found if name.startswith("grad.")} - set(expected)
    trained = {name for name, parameter in module.named_parameters() if parameter.requires_grad}
    wrong = [name for name in sorted(more & trained) if bool((found[f"grad.{name}"] != 0).any())]
    return f"a gradient of {wrong[0]}, which has none" if wrong else ""


def difference_of_losses(found, module, example):
    """The first step whose loss is not that of PyTorch's AdamW to 1e-4; nothing if all are."""
    import torch

    example = (example,) if isinstance(example, torch.Tensor) else example
    optimizer = torch.optim.AdamW(module.parameters(), lr=LEARNING_RATE)
    for step, got in enumerate(found, 1):
        optimizer.zero_grad()
        torch.manual_seed(0)
        with torch.enable_grad():
            loss = (module(**example) if isinstance(example, dict) else module(*example))["loss"]
            loss.backward()
        optimizer.step()
        wanted = float(loss)
        if got is None or not abs(got - wanted) <= 1e-4 * max(abs(wanted), 1e-3):
            return f"step {step}: the loss is {got}, PyTorch's {wanted}"
    return ""


def doubled(example):
    import torch

    def change(value):
        if isinstance(value, torch.Tensor):
            return value.double() if value.is_floating_point() else value
        if isinstance(value, dict):
            return {key: change(item) for key, item in value.items()}
        return type(value)(map(change, value)) if isinstance(value, (list, tuple)) else value

    return change(example)


if __name__ == "__main__":
    main()
