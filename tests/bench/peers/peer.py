"""What the peers share: the model as cleave-trace builds it, the answer that it must give, and the clock.

A peer is a script that prints one JSON line: {"seconds": of a batch} or {"error": the first line of what went wrong}.
"""

import argparse
import json
import pathlib
import sys
import time
import warnings

import torch
from safetensors.torch import load_file

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "tools/cleave-trace"))
from cleave_trace import cli, errors, sources, tracing

# torch.compile settles after the second run, TorchScript's profiling executor after the third.
WARM_UPS = 3


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("source", help="as cleave-trace is given it")
    parser.add_argument("--traced", type=pathlib.Path, required=True, help="what cleave-trace wrote")
    parser.add_argument("--config", type=cli.assignments, default={})
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--seq", type=int, required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--microbatches", type=int, default=1)
    parser.add_argument("--train", action="store_true", help="in training mode, with labels")
    return parser.parse_args()


def load(options):
    """The (module, inputs by name) that cleave-trace would trace."""
    module, example, _ = sources.load(options.source,
                                      sources.Options(options.config, None, options.batch, options.seq, seed=0))
    return module.eval(), example


def run_alone(prepare):
    """Measures the function that `prepare(options)` returns, in this process."""
    warnings.simplefilter("ignore")
    options = parse()
    torch.set_num_threads(options.threads)
    try:
        with torch.inference_mode():
            step = prepare(options)
            check(warm_up(step), options)
            report(mean_seconds(step, options))
    except Exception as error:
        raise SystemExit(report_failure(error))


def on_gpu(module, inputs):
    """A step on the first GPU, from main memory and back. Convolutions are in float32, as they are in the trace's answer and
    in Cleave; by libtorch's default they would be in TF32."""
    torch.backends.cudnn.allow_tf32 = False
    module.cuda()
    return lambda: only_tensor(module(**to_gpu(inputs))).cpu()


def to_gpu(inputs):
    return {name: value.cuda() if isinstance(value, torch.Tensor) else value for name, value in inputs.items()}


def warm_up(step):
    """What the step answers when it is warm."""
    for _ in range(WARM_UPS):
        answer = step()
    return answer


def mean_seconds(step, options):
    start = time.perf_counter()
    for _ in range(options.steps):
        step()
    return (time.perf_counter() - start) / options.steps


def check(answer, options):
    expected, = load_file(options.traced.with_suffix(".outputs.safetensors")).values()
    if not tracing.is_close(expected, only_tensor(answer)):
        raise ValueError("answers otherwise than the trace")


def only_tensor(answer):
    if isinstance(answer, torch.Tensor):
        return answer
    value, = answer.values() if isinstance(answer, dict) else answer
    return only_tensor(value)


def report(seconds):
    print(json.dumps({"seconds": seconds}), flush=True)


def report_failure(error):
    """The exit status of a peer that cannot run the model."""
    print(json.dumps({"error": f"{type(error).__name__}: {errors.one_line(error)}"}), flush=True)
    return 1
