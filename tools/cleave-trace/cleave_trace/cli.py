"""The command line of cleave-trace."""

import argparse
import contextlib
import difflib
import json
import re
import shlex
import signal
import sys
import time
import traceback
import warnings

from cleave_trace.errors import TraceError, one_line, printable

EPILOG = """sources:
  hf:NAME           an architecture of transformers, default configuration, seeded random weights
  hf:FOLDER         a folder with config.json and .safetensors, with its weights
  torchvision:NAME  a model of torchvision, seeded random weights
  FILE.py:FUNCTION  FUNCTION() returns (module, example inputs): a tensor, a tuple of arguments or a
                    dictionary of keyword arguments, which may nest tuples, lists, dictionaries, None and scalars
  FILE.pt2          what torch.export.save wrote, with its example inputs; loading it may run code that is in it

beside NAME.pt, NAME.inputs.safetensors, NAME.outputs.safetensors and NAME.witnesses.safetensors are written.
exit status: 0 done, 1 failed, 2 wrong usage."""

FILES = r".+\.(pt2|pt|pth|bin|ckpt|safetensors|onnx|gguf)"  # Of these, .pt2 can be traced; of the others it is said what they are.


def main(argv=None):
    options = parse(argv)
    # A killed run must leave as little behind as a failed one.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:  # nohup wants the work to go on.
            signal.signal(number, stop)
    warnings.simplefilter("ignore")
    try:
        if options.list:
            print_names(options.json)
            return 0
        # What a module prints while it runs is not our answer.
        with contextlib.redirect_stdout(sys.stderr):
            report = run(options)
        print(json.dumps(report) if options.json else text(report))
        tell(report)
    except Exception as error:
        if options.traceback:
            traceback.print_exc()
        print_error(options, explanation(error))
        return 1
    except Stopped as stopped:
        print_error(options, f"stopped by {stopped.signal.name}")
        return 128 + stopped.signal
    return 0


def print_error(options, message):
    print(printable(f"error: {options.source or '--list'}: {message}"), file=sys.stderr)


class Stopped(BaseException):
    """A signal is to end the program; not an Exception, which libraries catch."""

    def __init__(self, number):
        self.signal = signal.Signals(number)


def stop(number, frame):
    raise Stopped(number)


def explanation(error):
    if isinstance(error, TraceError):
        return one_line(error, limit=1000)
    return f"{type(error).__name__}: {one_line(error)}; pass --traceback to see where"


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one line, as `cleave` does."""

    def error(self, message):
        self.exit(2, printable(f"error: {message.removeprefix('argument ')}; see cleave-trace --help") + "\n")

    def parse_all(self, argv):
        options, unknown = self.parse_known_args(argv)
        if not unknown:
            return options
        if not unknown[0].startswith("-"):
            self.error(f"{unknown[0]}: one more argument than it takes")
        near = difflib.get_close_matches(unknown[0].partition("=")[0], self._option_string_actions, 1)
        self.error(f"there is no option {unknown[0]}" + "".join(f"; did you mean {match}?" for match in near))


def parse(argv):
    parser = Parser(prog="cleave-trace", description="Traces a PyTorch model to a TorchScript file.",
                    epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", nargs="?", help="what to trace, see below")
    parser.add_argument("-o", "--output", metavar="FILE", help="where to write the model")
    parser.add_argument("--config", type=assignments, action="append", default=[], metavar="K=V,…",
                        help="set fields of the configuration")
    parser.add_argument("--class", dest="class_name", metavar="NAME", help="the model class of transformers to take")
    parser.add_argument("--batch", type=positive, metavar="N", help="batch size of the inputs (4)")
    parser.add_argument("--seq", type=positive, metavar="N", help="sequence length of the inputs (128)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="seed of weights and inputs (0)")
    parser.add_argument("--train", action="store_true",
                        help="trace in training mode, with labels among the inputs of hf: where the model takes them")
    parser.add_argument("--dynamic", action="append", default=[], metavar="NAME=DIM,…", type=named_dimensions,
                        help="dimensions of an input to compare at other sizes; one name, one size; a number or _ stays")
    parser.add_argument("--witness", action="append", default=[], metavar="FILE",
                        help="a .safetensors file of inputs of your own to hold the trace to, several times")
    parser.add_argument("--no-witnesses", action="store_true", help="do not compare at other sizes and with other values")
    parser.add_argument("--json", action="store_true", help="print one JSON object about what was written")
    parser.add_argument("--list", action="store_true", help="print the names that hf: and torchvision: know")
    parser.add_argument("--traceback", action="store_true", help="on failure, print where in Python it failed")
    options = parser.parse_all(argv)
    if not options.list and not (options.source and options.output):
        parser.error("expected a source and -o FILE")
    if options.source and not re.fullmatch(r"(hf|torchvision):.+|.*\.py:\w+|" + FILES, options.source):
        parser.error(f"no such source as {options.source}, expected hf:NAME, torchvision:NAME, FILE.py:FUNCTION or FILE.pt2")
    for name in ("config", "class_name", "batch", "seq"):
        if options.source and not is_library(options.source) and getattr(options, name):
            parser.error(f"--{name.removesuffix('_name')} belongs to hf: and torchvision:, {options.source} makes its "
                         "own module and inputs")
    if options.no_witnesses and (options.dynamic or options.witness):
        parser.error("--no-witnesses compares nothing, expected neither --dynamic nor --witness with it")
    options.batch, options.seq = options.batch or 4, options.seq or 128
    return options


def is_library(source):
    return source.startswith(("hf:", "torchvision:"))


def assignments(text):
    """`n_layer=2,hidden_sizes=[16,32]` as a dictionary; commas within brackets do not separate."""
    found = {}
    for item in split(text):
        key, equals, value = item.partition("=")
        if not (key and equals):
            raise argparse.ArgumentTypeError(f"'{item}' is not K=V")
        found[key.strip()] = value.strip()
    return found


def named_dimensions(text):
    name, equals, dims = text.partition("=")
    if not (name and equals and dims):
        raise argparse.ArgumentTypeError(f'found "{text}", expected NAME=DIM,… such as input_ids=batch,seq')
    return text


def split(text):
    """The parts between commas that are in no bracket."""
    parts, depth = [""], 0
    for character in text:
        depth += (character in "[{(") - (character in "]})")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return parts


def positive(text):
    if not re.fullmatch("0*[1-9][0-9]*", text):
        raise argparse.ArgumentTypeError(f'found "{text}", expected a number of at least 1')
    return int(text)


def run(options):
    from cleave_trace import files, gradients, sources, tracing

    begin = time.thread_time()
    files.check_writable(options.output)
    config = {key: value for fields in options.config for key, value in fields.items()}
    module, example, given = sources.load(options.source, sources.Options(
        config=config, class_name=options.class_name, batch=options.batch, seq=options.seq, seed=options.seed,
        train=options.train))
    class_name, was_training = type(module).__name__, getattr(module, "training", options.train)
    if options.train:
        gradients.check_can_train(module)
    module.train(options.train)
    parameters = sum(parameter.numel() for parameter in module.parameters())
    trace = tracing.trace(module, example, options.seed, options.train)
    witnesses = None if options.no_witnesses else witnesses_of(trace, options, time.thread_time() - begin)
    # What a library's model is made with is not the user's doing.
    notes = given
    if not is_library(options.source):
        notes += [*([mode_note(options.train)] if was_training != options.train else []), *trace.notes]
    model, inputs, outputs, witnesses_file = map(str, files.write(trace, options.output, class_name, witnesses))
    return {"model": model, "class": class_name, "parameters": parameters,
            "inputs_file": inputs, "inputs": summary(trace.inputs),
            "outputs_file": outputs, "outputs": summary(trace.outputs), "scalars": trace.scalars,
            **(witnesses.report(witnesses_file) if witnesses else {}),
            "warnings": trace.warnings, "notes": [*notes, *(witnesses.notes if witnesses else [])]}


def witnesses_of(trace, options, seconds):
    """What is collected in about the time that loading and tracing took."""
    from cleave_trace.witnesses import collect

    seconds = min(max(collect.MIN_SECONDS, seconds * 0.95), collect.MAX_SECONDS)
    return collect.collect(trace, options.dynamic, options.witness, seconds)


def mode_note(train):
    modes = ("training", "evaluation")
    found, traced = reversed(modes) if train else modes
    call = "train()" if train else "eval()"
    return f"the module was in {found} mode and is traced in {traced} mode; call {call} on it in the function"


def summary(tensors):
    from cleave_trace import tracing

    return [{"name": path, "dtype": tracing.dtype_name(tensor), "shape": list(tensor.shape)}
            for path, tensor in tensors.items()]


def text(report):
    lines = [f"{report['model']}: {report['class']}, {report['parameters']:,} parameters"]
    for kind in ("inputs", "outputs"):
        lines.append(f"{report[kind + '_file']}:")
        lines += [f"  {item['name']}: {item['dtype']}[{','.join(map(str, item['shape']))}]" for item in report[kind]]
    if report["scalars"]:
        more = (shlex.quote(f"{name}={value}") for name, value in report["scalars"].items())
        lines.append("compile it with " + " ".join(f"--input {option}" for option in more))
    return "\n".join(map(printable, lines))


def tell(report):
    """What the user should know goes beside the answer."""
    from cleave_trace.notes import shown

    for kind in ("warnings", "notes"):
        for line in shown(report[kind], f"such {kind}; --json has all"):
            print(printable(f"{kind[:-1]}: {line}"), file=sys.stderr)


def print_names(as_json):
    from cleave_trace import huggingface, vision

    names = [*(f"hf:{name}" for name in huggingface.names()), *(f"torchvision:{name}" for name in vision.names())]
    print(json.dumps({"names": names}) if as_json else "\n".join(names))
