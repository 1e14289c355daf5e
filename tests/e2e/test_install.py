"""An installed Cleave, as a program of another project finds it."""

import os
import pathlib
import re
import shutil
import subprocess

import pytest
import torch
from safetensors.torch import load_file

from conftest import BIN, SOURCE, cleave
from launching import Processes, plain_environment, same_bits

BUILD = BIN.resolve().parent
TORCH = pathlib.Path(torch.__file__).parent
CXX_LIBRARIES = re.compile(r"/(ld-linux-|lib(c|m|dl|rt|pthread|util|stdc\+\+|gcc_s)\.so)")


def run(*command, **options):
    done = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=900,
                          **options)
    return done.returncode, done.stdout


def succeed(*command, **options):
    status, output = run(*command, **options)
    assert status == 0, f"{command}: exit status {status}\n{output}"
    return output


def install(prefix, *options):
    succeed("cmake", "--install", BUILD, "--prefix", prefix, *options)
    # Wherever it is afterwards.
    return prefix.rename(prefix.with_name(prefix.name + "-moved"))


def configure(prefix, build, *options):
    return run("cmake", "-S", prefix / "share/cleave/examples", "-B", build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release",
               f"-DCMAKE_PREFIX_PATH={prefix}", *options)


def build_examples(prefix, build):
    status, output = configure(prefix, build, f"-DCLEAVE_TORCH={TORCH}")
    assert status == 0, output
    succeed("cmake", "--build", build)
    return {path.name for path in (build / "serve", build / "rank", build / "compile") if path.exists()}


@pytest.fixture(scope="module")
def everything(tmp_path_factory):
    """All of it, and the examples on top."""
    folder = tmp_path_factory.mktemp("everything")
    prefix = install(folder / "cleave")
    assert build_examples(prefix, folder / "build") == {"serve", "rank", "compile"}
    yield prefix, folder / "build"
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def runtime(tmp_path_factory):
    """What serves plans, and the example on top."""
    folder = tmp_path_factory.mktemp("runtime")
    prefix = install(folder / "cleave", "--component", "Runtime")
    assert build_examples(prefix, folder / "build") == {"serve", "rank"}
    yield prefix, folder / "build"
    shutil.rmtree(folder)


def test_examples_compile_and_serve(everything, tiny_model, tmp_path):
    _, build = everything
    model = tiny_model("gpt2")
    assert "2 stages" in succeed(build / "compile", model.path, model.inputs, tmp_path / "a.plan")
    succeed(build / "serve", tmp_path / "a.plan", model.inputs, tmp_path / "outputs.safetensors")
    found, expected = load_file(tmp_path / "outputs.safetensors"), load_file(model.outputs)
    assert list(found) == list(expected)
    for name in expected:
        assert torch.allclose(found[name], expected[name], atol=1e-5), name


def test_the_example_of_a_rank(everything, tiny_model, tmp_path):
    """Process 0 leads and gets the outputs; with no others it is the one process."""
    _, build = everything
    model, plan = tiny_model("gpt2"), tmp_path / "a.plan"
    cleave("compile", model.path, "--inputs", model.inputs, "--mesh", "pp=2", "-o", plan)
    with Processes(2, plan, model.inputs, tmp_path / "several.safetensors", program=(build / "rank",)) as processes:
        ended = processes.end()
    assert all((end.status, end.out, end.err) == (0, "", "") for end in ended.values()), ended
    succeed(build / "rank", plan, model.inputs, tmp_path / "one.safetensors", env={**plain_environment(), "OMP_NUM_THREADS": "1"})
    assert same_bits(load_file(tmp_path / "several.safetensors"), load_file(tmp_path / "one.safetensors"))


def test_examples_fail_with_one_line(everything, tiny_model, tmp_path):
    _, build = everything
    model = tiny_model("gpt2")
    for command in ([build / "compile", tmp_path / "none.pt", model.inputs, tmp_path / "a.plan"],
                    [build / "serve", tmp_path / "none.plan", model.inputs, tmp_path / "out.safetensors"]):
        status, output = run(*command)
        assert status == 1 and output.startswith("error: ") and output.count("\n") == 1, output
    cleave("compile", model.path, "--inputs", model.inputs, "-o", tmp_path / "a.plan")
    status, output = run(build / "serve", tmp_path / "a.plan", model.outputs, tmp_path / "out.safetensors")
    assert status == 1 and re.fullmatch("error: .* is no input of the plan; .*\n", output), output


def test_the_runtime_holds_no_compiler(runtime):
    prefix, build = runtime
    for header in prefix.rglob("*.h"):
        others = re.findall(r'#\s*include\s*["<]((?:llvm|mlir|cleave|boost|torch)[/-][^">]*)[">]', header.read_text())
        assert all(re.match(r"llvm/(ADT|Support)/|cleave/(runtime|codegen/plan)/", other) for other in others), header
        assert all((prefix / "include" / other).exists() for other in others if other.startswith("cleave/")), header
    for library in prefix.rglob("*.a"):
        wanted = succeed("nm", "--demangle", "--undefined-only", library)
        assert not re.search(r"\b(mlir|llvm::(Module|LLVMContext|Function)|torch::jit::(load|Module))\b", wanted), library
    assert not [path for path in prefix.rglob("*") if re.search("mlir|driver|passes|frontend|profile|encode", path.name.lower())]
    # What a serving program is in the end.
    assert not re.search(r"mlir|plan::encode\(|runtime::KernelTimer", succeed("nm", "--demangle", build / "serve"))
    needed = re.findall(r"NEEDED.*\[(.*)\]", succeed("readelf", "--dynamic", build / "serve"))
    assert not [name for name in needed if re.search("LLVM|MLIR", name)], needed


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may change the root folder")
def test_serves_where_nothing_else_is(runtime, tiny_model, tmp_path):
    """Torch and the libraries of C and C++ are all that a serving program needs."""
    _, build = runtime
    model, root = tiny_model("gpt2"), tmp_path / "root"
    root.mkdir()
    cleave("compile", model.path, "--inputs", model.inputs, "--devices", 2, "-o", root / "a.plan")
    shutil.copy(model.inputs, root / "inputs.safetensors")
    shutil.copy(build / "serve", root / "serve")
    for library in re.findall(r"(/\S+) \(", succeed("ldd", build / "serve")):
        # Torch's wheel, those that it needs, and the libraries of C and C++.
        assert pathlib.Path(library).is_relative_to(TORCH.parent) or CXX_LIBRARIES.search(library), library
        place = root / library.removeprefix("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(library, place)
    succeed("chroot", root, "/serve", "/a.plan", "/inputs.safetensors", "/outputs.safetensors")
    # Without /proc libtorch takes kernels that every processor has, which give other bits.
    found, expected = load_file(root / "outputs.safetensors"), load_file(model.outputs)
    assert list(found) == list(expected)
    assert all(torch.allclose(found[name], expected[name], atol=1e-5) for name in expected)
    shutil.rmtree(root)


def test_compiler_headers_lead_nowhere_else(everything):
    prefix, _ = everything
    for header in (prefix / "include/cleave/tools").rglob("*.h"):
        assert not re.search(r"#include .*(mlir/|boost/|ATen/|torch/)", header.read_text()), header


def test_cmake_files_hold_no_path_of_this_machine(everything):
    prefix, _ = everything
    for path in [*prefix.glob("lib*/cmake/**/*"), *(prefix / "include").rglob("*"), *(prefix / "share").rglob("*")]:
        if path.is_file():
            text = path.read_text()
            for folder in (SOURCE, BUILD, TORCH, prefix):
                assert str(folder) not in text, path


def test_asks_for_torch(runtime, tmp_path):
    prefix, _ = runtime
    (tmp_path / "lib").mkdir()
    for option, found in (("-DCLEAVE_PYTHON=/bin/false", "/bin/false has no torch"),
                          (f"-DCLEAVE_TORCH={tmp_path}", "is no folder of a torch wheel")):
        status, output = configure(prefix, tmp_path / "build", option)
        output = " ".join(output.split())
        assert status != 0 and found in output and "pass -DCLEAVE_TORCH= with the folder" in output, output
        shutil.rmtree(tmp_path / "build")


def test_installed_programs_work(everything, tiny_model, tmp_path, monkeypatch):
    """With the libtorch of the Python that is active, or of a variable."""
    prefix, _ = everything
    model = tiny_model("gpt2")
    bin, python = prefix / "bin", SOURCE / ".venv/bin/python"
    monkeypatch.setenv("PATH", f"{python.parent}:/usr/bin:/bin")
    succeed(bin / "cleave", "compile", model.path, "--inputs", model.inputs, "-o", tmp_path / "a.plan")
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setenv("CLEAVE_TORCH", str(TORCH))
    assert "stage  device" in succeed(bin / "cleave", "inspect", tmp_path / "a.plan")
    assert "--lower-precision" in succeed(bin / "cleave-opt", "--help")
    assert "usage: cleave-trace" in succeed(bin / "cleave-trace", "--help", env={"CLEAVE_PYTHON": str(python), "PATH": "/usr/bin:/bin"})


def test_programs_say_that_torch_is_missing(everything, tmp_path):
    prefix, _ = everything
    for torch_folder, found in (("", "no torch"), (str(tmp_path), f"no torch in {tmp_path}")):
        (tmp_path / "torch").mkdir(exist_ok=True)
        status, output = run(prefix / "bin/cleave", "--version", cwd=tmp_path,
                             env={"PATH": "/usr/bin:/bin", "CLEAVE_PYTHON": "/bin/false", "CLEAVE_TORCH": torch_folder})
        assert status == 1 and output.startswith(f"error: cleave: found {found}, expected torch ") and output.count("\n") == 1, output
    # Nor does one of that name in the folder that the user stands in pass for it.
    (tmp_path / "torch/__init__.py").touch()
    (tmp_path / "torch/version.py").write_text(f"__version__ = '{torch.__version__}'\n")
    status, output = run(prefix / "bin/cleave", "--version", cwd=tmp_path, env={"PATH": "/usr/bin:/bin", "PYTHONPATH": "/none:"})
    assert status == 1 and output.startswith("error: cleave: found no torch, expected torch "), output
    (tmp_path / "version.py").write_text("__version__ = '1.2.3+cpu'\n")
    status, output = run(prefix / "bin/cleave", "--version", env={"PATH": "/usr/bin:/bin", "CLEAVE_TORCH": str(tmp_path)})
    assert status == 1 and "found torch 1.2.3 in" in output, output


def test_programs_need_no_llvm_and_know_no_folder(everything):
    prefix, _ = everything
    for program in (prefix / "libexec/cleave", prefix / "libexec/cleave-opt"):
        dynamic = succeed("readelf", "--dynamic", program)
        assert not re.search(r"NEEDED.*(LLVM|MLIR)|RUNPATH|RPATH", dynamic), dynamic


@pytest.mark.skipif(not (BUILD / "lib/cleave_cuda.so").exists(), reason="this build has no CUDA plugin")
def test_programs_find_the_cuda_plugin(everything):
    prefix, build = everything
    assert (prefix / "lib/cleave_cuda.so").exists()
    assert str(prefix / "lib") in succeed("readelf", "--dynamic", build / "serve")
