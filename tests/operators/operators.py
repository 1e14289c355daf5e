"""Decides which operators a plan may call, and writes the list: codegen/plan/AllowedOperators.inc, and docs/operators.md with counts.

Each operator is called thousands of times with hostile arguments (`operatorCalls`), by default, AVX2 and AVX-512 kernels. It is
listed where nothing but results and errors came of that, and enough results. Goes on where it was stopped.
"""

import argparse
import collections
import concurrent.futures
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
SEEDS = pathlib.Path(__file__).with_name("seeds.txt")
HARMFUL_CALLS = pathlib.Path(__file__).with_name("harmful.txt")
LIST = ROOT / "codegen/plan/AllowedOperators.inc"
PAGE = ROOT / "docs/operators.md"

CAPABILITIES = {"default": "SSE41", "avx2": "AVX2", "avx512": "ALL"}    # ATen's name, oneDNN's
CALLS = 700             # an operator and capability, in a round
ROUNDS = 4              # more where too few gave a result
LEAST_CALLS = 2000
LEAST_RESULTS = 300
TRIES = 5000            # to find good calls where nobody recorded any
KEPT = 3                # good calls that are kept
CHUNK = 12              # operators a process

NAMESPACES = ("aten", "prim", "quantized", "_quantized")
# What hostile arguments cannot show: effects on the process, on other threads, on files that are there, or on what is printed.
EXCLUDED = {
    "sets process-wide state": (
        "aten::manual_seed aten::seed aten::set_grad_enabled aten::_set_worker_id prim::set_ "
        "aten::_cuda_sync aten::Generator aten::_manual_seed aten::_propagate_xla_data"),
    "reads or writes files": "aten::from_file aten::save aten::_from_file",
    "prints": "aten::_print aten::warn aten::print prim::Print",
    "is of autograd, of other processes or of Python": (
        "aten::backward aten::get_gradients aten::grad aten::dist_backward aten::wait aten::to_here aten::local_value "
        "aten::owner aten::owner_name aten::is_owner aten::confirmed_by_owner aten::has_torch_function aten::is_scripting "
        "aten::_get_tracing_state aten::_share_memory_ aten::set_data aten::set aten::_fw_primal aten::detach_ prim::PythonOp prim::IgnoredPythonOp"),
    "is an older name of an interpolation, which kernels believe what its scales say":
        "aten::__interpolate aten::__upsample aten::__upsample_bilinear aten::__upsample_nearest",
    "keeps names, which libtorch never forgets": "aten::rename aten::align_to aten::refine_names aten::align_as",
    "makes tensors that no model makes": "aten::_lazy_clone aten::slice_inverse",
    "tells addresses or what process runs it": "aten::initial_seed aten::data_ptr prim::id prim::TimePoint",
}
EXCLUDED = {name: reason for reason, names in EXCLUDED.items() for name in names.split()}
# Of `prim`, those that compute; its others are parts of TorchScript's own optimizations.
PRIM = set(
    "NumToTensor RaiseException StringIndex TupleIndex TupleUnpack abs data device dtype is_cpu is_cuda is_meta is_mkldnn "
    "is_nested is_quantized is_sparse itemsize layout max min rangelist requires_grad shape type unchecked_cast "
    "unchecked_unwrap_optional".split())
# Parts of names of operators that only other hardware, other layouts or optimizers have.
UNSUPPORTED = ("cudnn", "cuda", "miopen", "mps", "mkldnn", "xpu", "nested", "sparse", "_cslt", "csr", "csc", "coo", "_foreach", "_fused_",
           "_nnpack", "vulkan", "_test_", "_efficient", "_flash_attention_backward", "hip", "rowwise_prune", "_jagged")
# Candidates although their names contain "unsafe": only their gradients are.
ONLY_GRADIENTS_UNSAFE = ("_unsafe_view", "unsafe_chunk", "unsafe_split", "unsafe_split_with_sizes", "_unsafe_index")
# They never give a result.
RAISES = {"prim::RaiseException"}

COLUMNS = "results errors crashes guards outside uninitialized effects writes slow".split()
HARMFUL = COLUMNS[2:8]


def is_candidate(name):
    space, base = name.split(".")[0].split("::")
    if space not in NAMESPACES or f"{space}::{base}" in EXCLUDED or "unsafe" in base and base not in ONLY_GRADIENTS_UNSAFE:
        return False
    # Names of dimensions are kept as long as the process lives.
    if name.partition(".")[2] in ("names", "generator_with_names", "names_out"):
        return False
    if any(word in base for word in UNSUPPORTED) or base.startswith("_no_grad_"):
        return False
    return space != "prim" or base in PRIM


def environment(capability):
    one = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "MKL", "OPENBLAS")}
    return {**os.environ, **one, "ATEN_CPU_CAPABILITY": capability, "ONEDNN_MAX_CPU_ISA": CAPABILITIES[capability]}


def commit_now():
    return subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, text=True, capture_output=True).stdout.strip()


class Evidence:
    """What came of the calls so far, by operator; kept in a file that grows, so that stopping loses little."""

    def __init__(self, folder):
        folder.mkdir(parents=True, exist_ok=True)
        self.file = folder / "evidence.txt"
        self.commits = []
        self.rounds = collections.defaultdict(dict)
        self.examples, self.found = collections.defaultdict(list), collections.defaultdict(list)
        if self.file.exists():
            self.read(self.file.read_text())

    def read(self, text):
        name = None
        for line in text.splitlines():
            mark, _, rest = line.partition(" ")
            if mark == "#":
                self.commits.append(rest)
            elif mark == "!":
                self.examples[name].append(rest)
            elif mark == "+":
                self.found[name].append(rest)
            elif mark.startswith("@"):
                key = tuple(mark[1:].split("/"))
                name, *pairs = rest.split(" ")
                self.rounds[name][key] = dict((k, int(v)) for k, v in (pair.split("=") for pair in pairs))

    def add(self, capability, number, text):
        lines = [line if line[:2] in ("! ", "+ ") else f"@{capability}/{number} {line}" for line in text.splitlines()]
        lines = [line for line in lines if line[0] in "!+" or "results=" in line]
        commit = commit_now()
        text = "\n".join(([] if self.commits[-1:] == [commit] else [f"# {commit}"]) + lines) + "\n"
        with self.file.open("a") as out:
            out.write(text)
        self.read(text)

    def total(self, name):
        return {column: sum(counts.get(column, 0) for counts in self.rounds[name].values()) for column in COLUMNS}

    def is_harmless(self, name):
        return not any(self.total(name)[column] for column in HARMFUL)


def run_chunk(program, names, seeds, capability, number):
    command = [program, f"--seeds={seeds}", f"--calls={CALLS}", f"--first={number * CALLS}"]
    command += [f"--harmful={HARMFUL_CALLS}"] if number == 0 else []
    command += [f"--tries={TRIES}"] if capability == "default" and number == 0 else []
    done = subprocess.run(command, input="\n".join(names) + "\n", text=True, capture_output=True, env=environment(capability))
    if done.returncode:
        sys.exit(f"error: {' '.join(command)} ended with {done.returncode}: {done.stderr.strip()[-500:]}")
    return done.stdout


def run_round(evidence, program, names, seeds, capability, number, jobs):
    names = [name for name in names if (capability, str(number)) not in evidence.rounds[name]]
    chunks = [names[i:i + CHUNK] for i in range(0, len(names), CHUNK)]
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        futures = [pool.submit(run_chunk, program, chunk, seeds, capability, number) for chunk in chunks]
        for done, future in enumerate(concurrent.futures.as_completed(futures), 1):
            evidence.add(capability, number, future.result())
            print(f"\r{capability}, round {number}: {min(done * CHUNK, len(names))} of {len(names)} operators", end="", flush=True)
    if names:
        print()


def write_seeds(evidence, folder):
    """Those recorded, and those found since."""
    lines = set(SEEDS.read_text().splitlines())
    recorded = {line.split(" ")[0] for line in lines}
    for name, calls in evidence.found.items():
        if name not in recorded:
            lines.update(sorted(calls, key=lambda call: (len(call), call))[:KEPT])
    (folder / "seeds.txt").write_text("\n".join(sorted(lines)) + "\n")
    return folder / "seeds.txt"


def write_harmful(evidence):
    """Calls that did harm, of all runs: an operator that did once has to bear them before it is listed."""
    calls = collections.defaultdict(set)
    lines = HARMFUL_CALLS.read_text().splitlines() if HARMFUL_CALLS.exists() else []
    lines += [example.split(" ", 1)[1] for examples in evidence.examples.values() for example in examples
              if not example.startswith("slow ")]
    for line in lines:
        calls[line.split(" ")[0]].add(line)
    kept = [line for found in calls.values() for line in sorted(found, key=lambda line: (len(line), line))[:KEPT]]
    HARMFUL_CALLS.write_text("\n".join(sorted(line for line in kept if len(line) < 1500)) + "\n")


def is_listed(evidence, name):
    total = evidence.total(name)
    results = total["results"] if name not in RAISES else total["errors"]
    return evidence.is_harmless(name) and sum(total.values()) >= LEAST_CALLS and results >= LEAST_RESULTS


def write_list(evidence, names):
    listed = [name for name in sorted(names) if is_listed(evidence, name)]
    LIST.write_text("".join(f'"{name}",\n' for name in listed))
    calls = sum(sum(evidence.total(name).values()) for name in listed)
    rows = []
    for name in listed:
        total = evidence.total(name)
        rows.append(f"| `{name}` | {sum(total.values())} | {total['results']} | {total['errors']} | {total['slow'] or ''} |")
    refused = [name for name in sorted(names) if not evidence.is_harmless(name)]
    refusals = [f"| `{name}` | {', '.join(f'{evidence.total(name)[c]} {c}' for c in HARMFUL if evidence.total(name)[c])} |"
                for name in refused]
    PAGE.write_text(f"""# Operators that a plan may call

A plan may call {len(listed)} of {len(names)} candidates, chosen by fuzzing: {calls:,} calls of the listed operators, with libtorch's CPU kernels, at
{"commits" if len(set(evidence.commits)) > 1 else "commit"} {", ".join(dict.fromkeys(evidence.commits))}. `make operators` makes the calls and writes this page and `codegen/plan/AllowedOperators.inc`.

Each call mutates one that gives a result: sizes, strides, dtypes and contents of tensors, numbers, lists and strings
([how](../tests/operators/Mutator.cpp)). It is made with its tensors directly before and directly after 1 GiB of memory that traps, with default,
AVX2 and AVX-512 kernels, and with two fill bytes in uninitialized memory. A call is harmful if it crashes, accesses memory outside its
tensors, gives a tensor that is larger than its storage or is not dense, gives uninitialized memory, changes an argument, or makes a system call that opens files,
starts processes or reaches others. An operator is listed if no call was harmful, at least {LEAST_CALLS} calls were made, and at least {LEAST_RESULTS} of
them gave a result (`prim::RaiseException`: raised). *Slow* calls took more than 0.3 s of CPU time; `--timeout` ends such
requests. GPU kernels are untested.

Harmful calls are kept as regression tests (`tests/operators/harmful.txt`): an operator whose arguments are checked since then is listed only if
all of them are harmless now. `make test` makes them, and 20 calls of each listed operator.

Whoever runs a plan can add names (`cleave run --allow-operator NAME`). [Security](security.md) says what the list is for.

| operator | calls | results | errors | slow |
|---|---|---|---|---|
{chr(10).join(rows)}

## Refused operators

| operator | harmful outcomes (testing stops after five) |
|---|---|
{chr(10).join(refusals)}
""")
    print(f"{len(listed)} of {len(names)} operators listed, {len(refused)} harmful, {len(names) - len(listed) - len(refused)} without enough results")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", default=str(ROOT / "build/bin/operatorCalls"))
    parser.add_argument("--folder", type=pathlib.Path, default=ROOT / "build/operators", help="what is known so far")
    parser.add_argument("--only", default="", help="operators whose name contains this; then no list is written")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    options = parser.parse_args()
    names = subprocess.run([options.program, "--names"], text=True, capture_output=True, check=True).stdout.split()
    names = [name for name in names if is_candidate(name) and options.only in name]
    evidence = Evidence(options.folder)
    run_round(evidence, options.program, names, SEEDS, "default", 0, options.jobs)
    seeds = write_seeds(evidence, options.folder)
    called = [name for name in names if evidence.total(name)["results"] + evidence.total(name)["errors"]]
    for number in range(ROUNDS):
        for capability in CAPABILITIES:
            wanted = [name for name in called if evidence.is_harmless(name) and not is_listed(evidence, name)]
            run_round(evidence, options.program, wanted, seeds, capability, number, options.jobs)
    if not options.only:
        SEEDS.write_text(seeds.read_text())
        write_harmful(evidence)
        write_list(evidence, names)


main()
