"""Guards: what a module's Python decides by sizes, found by calling it with sizes that are symbols (torch's FakeTensor)."""

import contextlib
import dataclasses
import functools
import math
import os
import pathlib
import pickle
import re
import resource
import select
import signal
import time

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from cleave_trace import marking

MAX_GUARDS = 200
MAX_WAIT = 600.0  # seconds
DEADLOCK_SECONDS = 20.0  # without CPU time: the child waits for a lock of a thread that fork did not copy
MAX_BITS = 256  # of a power in a guard
TABLES = 64  # sizes of parameters and buffers that are tried as limits


@dataclasses.dataclass
class Guards:
    """What holds wherever the module runs as in the example; `found` is complete if the module ran to its end."""

    found: list  # of Guard
    is_complete: bool
    failure: str = ""

    def renumbered(self, new_index):
        """`new_index[i]` is that of the group that group i is merged into."""
        found = {}
        for guard in self.found:
            text = re.sub(r"\bs(\d+)\b", lambda match: f"s{new_index[int(match[1])]}", guard.text)
            if not re.fullmatch(r"Eq\((s\d+), \1\)", text):
                found[text] = Guard(text, tuple(sorted({new_index[index] for index in guard.symbols})), guard.where)
        return Guards(list(found.values()), self.is_complete, self.failure)


@dataclasses.dataclass
class Guard:
    text: str  # a Python expression of the symbols s0, s1, … of groups
    symbols: tuple[int, ...]  # positions of groups
    where: str  # module path

    def holds(self, sizes):
        """Whether it does at these sizes of the groups; not where that cannot be computed."""
        values = {f"s{index}": sizes[index] for index in self.symbols}
        try:
            return bool(eval(compiled(self.text), FUNCTIONS, values))  # Written by sympy, of the user's own program.
        except Exception:
            return False

    @property
    def is_hole(self):
        """Whether it leaves out single sizes."""
        return re.fullmatch(r"Ne\((s\d+, \d+|\d+, s\d+)\)", self.text) is not None

    @property
    def is_periodic(self):
        """Whether it may hold, and not hold, again and again as sizes grow."""
        return re.search(r"Mod|Ne\(|Eq\(|Div|ModularIndexing", self.text) is not None

    def constants(self):
        return {int(number) for number in re.findall(r"(?<![\w.])\d+(?![\w.])", self.text)}


@functools.cache
def compiled(text):
    return compile(text, "guard", "eval")


def ceiling(value):
    return -((-value) // 1)


def power(base, exponent):
    if abs(exponent) * max(1, int(abs(base))).bit_length() > MAX_BITS:
        raise OverflowError
    return base ** exponent


FUNCTIONS = {
    "__builtins__": {}, "FloorDiv": lambda a, b: a // b, "CleanDiv": lambda a, b: a // b, "Mod": lambda a, b: a % b,
    "PythonMod": lambda a, b: a % b, "Eq": lambda a, b: a == b, "Ne": lambda a, b: a != b, "Max": max, "Min": min,
    "Lt": lambda a, b: a < b, "Le": lambda a, b: a <= b, "Gt": lambda a, b: a > b, "Ge": lambda a, b: a >= b,
    "ModularIndexing": lambda a, b, c: a // b % c, "CeilToInt": lambda a: int(ceiling(a)), "FloorToInt": lambda a: int(a // 1),
    "IntTrueDiv": lambda a, b: a / b, "FloatTrueDiv": lambda a, b: a / b, "ToFloat": float, "TruncToInt": int,
    "RoundToInt": round, "PowByNatural": power, "FloatPow": power, "Abs": abs,
    "floor": lambda a: a // 1, "ceiling": ceiling, "And": lambda *a: all(a), "Or": lambda *a: any(a), "Not": lambda a: not a,
    "OpaqueUnaryFn_sqrt": lambda a: a ** 0.5, "sqrt": lambda a: a ** 0.5, "Identity": lambda a: a, "true": True, "false": False,
    "Where": lambda c, a, b: a if c else b, "IsNonOverlappingAndDenseIndicator": lambda *a: 1,
}


def collect_guards(calls, example, groups, hints):
    """The guards of a call in which the dimensions of `groups` are symbols, whose sizes are `hints`."""
    enable_python_dispatcher, ConstantSource, FakeTensorMode, DimDynamic, ShapeEnv, StatelessSymbolicContext = import_torch()
    environment = ShapeEnv(duck_shape=False)
    mode = FakeTensorMode(shape_env=environment, allow_non_fake_inputs=True)
    sizes, indexes = [], {}
    for index, hint in enumerate(hints):
        if hint < 2:  # torch takes 0 and 1 for constants.
            sizes.append(hint)
            continue
        fake = mode.from_tensor(torch.empty(hint), source=ConstantSource(f"size{index}"),
                                symbolic_context=StatelessSymbolicContext([DimDynamic.DYNAMIC]))
        sizes.append(fake.shape[0])
        indexes[fake.shape[0].node.expr] = index
    places = {(path, dim): sizes[index] for index, group in enumerate(groups) for path, dim in group.dims}
    failure, failures = "", Failures()
    with guard_module_paths(calls.module, environment) as paths:
        try:
            with enable_python_dispatcher(), mode, failures:
                tensors = {}
                for path, tensor in example.items():
                    shape = [places.get((path, dim), size) for dim, size in enumerate(tensor.shape)]
                    tensors[path] = torch.empty(shape, dtype=tensor.dtype)
                with torch.set_grad_enabled(calls.train), marking.functions_inlined():
                    calls.eager(*calls.arguments(tensors))
        except Exception as error:
            failure = f"{type(error).__name__}: {error}"[:300]
    failure = failure or failures.first  # The module may have caught it, and gone another way than with values.
    found = []
    for guard, where in zip(environment.guards, paths):
        symbols = guard.expr.free_symbols
        if not symbols <= indexes.keys():
            failure = failure or "a size that depends on data"
            continue
        renamed = guard.expr.xreplace({symbol: symbol_of(indexes[symbol]) for symbol in symbols})
        entry = Guard(str(renamed), tuple(sorted(indexes[symbol] for symbol in symbols)), where)
        if all(entry.text != other.text for other in found):
            found.append(entry)
    if len(found) > MAX_GUARDS:
        found, failure = found[:MAX_GUARDS], failure or "too many guards"
    checked = []
    for entry in found:
        if entry.holds(hints):
            checked.append(entry)
        else:
            failure = failure or f"{entry.text} is not true"
    return Guards(checked, not failure, failure)


class Failures(TorchFunctionMode):
    """Keeps the first exception that a function of torch raised."""

    def __init__(self):
        super().__init__()
        self.first = ""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        try:
            return function(*args, **(kwargs or {}))
        except Exception as error:
            self.first = self.first or f"{type(error).__name__}: {error}"[:300]
            raise


def import_torch():
    """What takes seconds to import."""
    from torch._dispatch.python import enable_python_dispatcher
    from torch._dynamo.source import ConstantSource
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext

    return enable_python_dispatcher, ConstantSource, FakeTensorMode, DimDynamic, ShapeEnv, StatelessSymbolicContext


def symbol_of(index):
    import sympy

    return sympy.Symbol(f"s{index}", integer=True, positive=True)


@contextlib.contextmanager
def guard_module_paths(root, environment):
    """Yields a list that has, at the end, the module path at which each guard came to be."""
    names = {id(module): path for path, module in root.named_modules()}
    running, paths = [""], []

    def note(path):
        paths.extend([path] * (len(environment.guards) - len(paths)))

    def enter(module, args):
        note(running[-1])
        running.append(names.get(id(module), running[-1]))

    def leave(module, args, result):
        note(running[-1])
        if len(running) > 1:
            running.pop()

    hooks = [nn.modules.module.register_module_forward_pre_hook(enter), nn.modules.module.register_module_forward_hook(leave)]
    try:
        yield paths
    finally:
        for hook in hooks:
            hook.remove()
        note(running[-1])


class GuardProcess:
    """`collect_guards` in a process of its own, so that no symbol and no fake tensor gets into what the module keeps."""

    was_started = False

    def __init__(self, seconds, *arguments):
        """It ends when it has taken as many `seconds` of CPU time."""
        self.answer = None
        if GuardProcess.was_started:  # The first child imports while the parent compares; later ones should not import again.
            import_torch()
        GuardProcess.was_started = True
        reader, writer = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(reader)
            run_in_child(writer, seconds, arguments)
        os.close(writer)
        self.reader = reader

    def result(self):
        """The guards; none, and incomplete, if the process has ended without an answer."""
        if self.answer is None:
            data, end = b"", time.monotonic() + MAX_WAIT
            ticks, seen = cpu_ticks(self.pid), time.monotonic()
            while True:
                ready, _, _ = select.select([self.reader], [], [], 1.0)
                if not ready and time.monotonic() < end:
                    if cpu_ticks(self.pid) != ticks:
                        ticks, seen = cpu_ticks(self.pid), time.monotonic()
                    if time.monotonic() - seen < DEADLOCK_SECONDS:
                        continue
                part = os.read(self.reader, 1 << 16) if ready else b""
                if not part:
                    break
                data += part
            self.close()
            try:
                self.answer = pickle.loads(data)  # From our own child.
            except Exception:
                self.answer = Guards([], False, "no answer")
        return self.answer

    def close(self):
        if self.pid:
            os.close(self.reader)
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            self.pid = 0


def cpu_ticks(pid):
    """CPU time of a process in clock ticks; None if it has ended."""
    try:
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return int(fields[11]) + int(fields[12])


def run_in_child(writer, seconds, arguments):
    """Never returns."""
    try:
        resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(seconds), resource.getrlimit(resource.RLIMIT_CPU)[1]))
        signal.signal(signal.SIGXCPU, signal.SIG_DFL)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        end_with_parent()
        null = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(null, descriptor)
        torch.set_num_threads(1)  # The parent's other threads are not here.
        with torch.no_grad(), os.fdopen(writer, "wb") as file:
            file.write(pickle.dumps(collect_guards(*arguments)))
    finally:
        os._exit(0)


def end_with_parent():
    import ctypes

    set_death_signal = 1
    with contextlib.suppress(Exception):
        ctypes.CDLL(None).prctl(set_death_signal, int(signal.SIGKILL))


def table_sizes(module):
    """Sizes of parameters and buffers, any of which may be the most that a dimension can have."""
    found = {size for tensor in (*module.parameters(), *module.buffers()) for size in tensor.shape if size > 1}
    return sorted(found)[:TABLES]
