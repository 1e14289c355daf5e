"""Every architecture of transformers and torchvision that can be traced, made small by rule, in a process of its own."""

import contextlib
import dataclasses
import json
import os
import pathlib
import re
import resource
import signal
import sys
import time
import traceback

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools/cleave-trace"))

from cleave_trace import files, hf_config, huggingface, tracing, trees, vision  # noqa: E402
from cleave_trace.errors import TraceError, one_line  # noqa: E402
from transformers.models.auto import modeling_auto  # noqa: E402
from transformers.models.auto.configuration_auto import CONFIG_MAPPING  # noqa: E402

import inputs  # noqa: E402
import shrinking  # noqa: E402

SECONDS, MEMORY = 60, 6 << 30  # that tracing one may take
LARGEST = 30e6  # parameters
SIDE, FRAMES = 64, 4
# Models of torchvision that take one size, or need more than SIDE.
SIDES = {"inception_v3": 128, "maxvit_t": 224, "vit_b_16": 224, "raft_small": 128, "mvit_v1_b": 224, "mvit_v2_s": 224, "s3d": 224}


@dataclasses.dataclass
class Traced:
    """What came of tracing an architecture: its kind of model, or why there is none."""
    class_name: str = ""
    way: str = ""
    kind: str = ""
    parameters: int = 0
    inputs: str = ""
    reason: str = ""
    seconds: float = 0


def names():
    """Every candidate as cleave-trace would take it, `hf:llama` and `torchvision:vit_b_16`."""
    found = [f"hf:{name}" for name in huggingface.names() if name not in huggingface.ALIASES]
    return found + [f"torchvision:{name}" for name in families()]


def families():
    """The smallest model of each family of torchvision."""
    import torchvision

    found = {}
    for name in torchvision.models.list_models():
        if vision.family(name) == "quantization":
            continue
        family = re.sub(r"_?(x?\d+(_\d+x\d+d|_\d+gf|gf|mf|_fpn.*)?|small|base|large|tiny|[bstmlh])(_\d+)?$", "", name) or name
        found.setdefault(family, []).append(name)
    return [min(group, key=parameters) for group in found.values()]


def parameters(name):
    import torchvision

    return min(weights.meta["num_params"] for weights in torchvision.models.get_model_weights(name))


def kind(module, given):
    """What sort of model it is, by what its forward was given and what its configuration has."""
    fields = " ".join(all_fields(getattr(module, "config", None)))
    sorts = {sort for sort, pattern in SORTS.items() if any(re.search(pattern, name) for name in given)}
    if re.search(r"\b(num_|n_)?(local_|routed_)?experts\b|moe_|n_routed", fields):
        return "MoE"
    if re.search(r"\bmamba|\bssm|state_size|time_step_rank|linear_num_key_heads|\bd_state|rwkv|attention_hidden_size", fields):
        return "state-space"
    return sorts.pop() if len(sorts) == 1 else "multimodal" if sorts else "other"


SORTS = {"text": r"^(input_ids|inputs)$", "vision": r"pixel_|image|^x$|^video|grid_thw",
         "audio": r"input_values|features|audio|spectrogram"}


def all_fields(config):
    """Names of the fields of a configuration and of those nested in it, that have a value."""
    if config is None:
        return []
    return [*(name for name, value in shrinking.declared(config).items() if value),
            *(name for child in shrinking.nested(config).values() for name in all_fields(child))]


def trace(name, path, seconds=SECONDS):
    """Traces an architecture to `path` in a child, so that a crash, a leak or a loop there is a result like others."""
    reading, writing = os.pipe()
    begin = time.time()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        child(name, path, seconds, writing)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        text = pipe.read()
    _, status = os.waitpid(pid, 0)
    if text:
        found = Traced(**json.loads(text))
    elif os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        is_late = number in (signal.SIGPROF, signal.SIGALRM)
        found = Traced(reason=f"more than {seconds} s" if is_late else f"died of signal {number}")
    else:
        found = Traced(reason=f"ended with {os.waitstatus_to_exitcode(status)}")
    found.seconds = time.time() - begin
    return found


def child(name, path, seconds, writing):
    # Of its own time, whatever else the machine does.
    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.alarm(10 * seconds)
    taken = int(pathlib.Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + MEMORY, taken + MEMORY))
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    if not os.environ.get("ZOO_DEBUG"):
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    try:
        found = traced(name, path)
    except BaseException as error:
        if os.environ.get("ZOO_DEBUG"):
            traceback.print_exc()
        found = Traced(reason=f"{type(error).__name__}: {one_line(error, 200)}")
    os.write(writing, json.dumps(dataclasses.asdict(found)).encode())
    os._exit(0)


def traced(name, path):
    source, _, model = name.partition(":")
    torch.set_num_threads(1)
    errors = []
    for way, build in attempts_hf(model) if source == "hf" else attempts_vision(model):
        try:
            module, example = build()
            return write(module, example, path, way)
        except Exception as error:
            errors.append(error)
            if os.environ.get("ZOO_DEBUG"):
                print(f"--- {way}", file=sys.stderr)
                traceback.print_exc()
    # The first way is the one whose failure says most: later ones are larger or have fewer inputs.
    raise errors[0]


def attempts_hf(model_type):
    default = CONFIG_MAPPING[model_type]()
    for way in shrinking.WAYS:
        for variant in range(inputs.VARIANTS):
            yield f"{way.name}, {variant}", lambda: build_hf(model_type, default, way, variant)


def build_hf(model_type, default, way, variant, change=lambda config: None):
    """`change` is given the configuration once it is small."""
    config = shrinking.shrink(default, way)
    change(config)
    hf_config.set_everywhere(config, "use_cache", False)
    cls = model_class(config)
    with torch.device("meta"), contextlib.suppress(RuntimeError, NotImplementedError):
        count = sum(value.numel() for value in cls(config).parameters())
        if count > LARGEST:
            raise ValueError(f"{count:,} parameters, too many")
    torch.manual_seed(0)
    module = cls(config).eval()
    return stirred(module), inputs.example(module, variant)


def model_class(config):
    """What cleave-trace would take, or any other class of the architecture that takes this configuration."""
    tables = (value for name, value in sorted(vars(modeling_auto).items()) if name.endswith("_MAPPING_NAMES"))
    listed = (table.get(config.model_type) for table in tables)
    names = [name for found in listed if found for name in ([found] if isinstance(found, str) else found)]
    for name in (None, *names):
        try:
            return huggingface.model_class(config, name)
        except TraceError as error:
            first = error if name is None else first
    raise first


def attempts_vision(name):
    import torchvision

    def build():
        torch.manual_seed(0)
        module = torchvision.models.get_model(name, **vision.arguments(name, {})).eval()
        side = SIDES.get(name, SIDE)
        frames = 16 if name in SIDES else FRAMES
        shape = (2, 3, frames, side, side) if vision.family(name) == "video" else (2, 3, side, side)
        images = torch.randn(shape, generator=torch.Generator().manual_seed(1))
        if vision.family(name) == "optical_flow":
            return stirred(module), (images, images.flip(-1))
        if vision.family(name) == "detection":
            return stirred(module), ([images[0], images[1]],)
        return stirred(module), (images,)

    yield "as it is", build


@torch.no_grad()
def stirred(module):
    """Moves weights that begin as zeros or ones: a bias of zeros hides that it is added twice."""
    generator = torch.Generator().manual_seed(2)
    for value in module.parameters():
        if value.is_floating_point() and value.numel() and bool((value == value.flatten()[0]).all()):
            value.add_(0.05 * torch.randn(value.shape, generator=generator).to(value.dtype))
    return module


def write(module, example, path, way):
    """Traces, saves and loads again; what is loaded answers as before."""
    count, class_name = sum(value.numel() for value in module.parameters()), type(module).__name__
    trace = tracing.trace(module, example)
    if not any(bool(value.isfinite().any()) for value in trace.outputs.values()):
        raise ValueError("no output is finite")
    files.write(trace, path)
    with torch.no_grad():
        again = torch.jit.load(str(path))(*values(example, trace))
    tracing.check_same(trace.outputs, trees.leaves(again, "output"))
    given = ", ".join(f"{key} {tracing.describe(value)}" for key, value in trace.inputs.items())
    return Traced(class_name, way, kind(module, trace.inputs), count, given)


def values(example, trace):
    """The arguments of the traced module."""
    return example if isinstance(example, tuple) else tuple(trace.inputs.values())
