"""What a file that is no Python file is, and what to do with it. Nothing is loaded for it."""

import pathlib
import zipfile

from cleave_trace.errors import TraceError

BUILD = "write a FILE.py:FUNCTION that builds the module, loads its weights and returns (module, example inputs)"
# By the end of the name, and what torch.save wrote.
KINDS = {
    ".safetensors": f"tensors without the code of a model; {BUILD}, or pass hf:FOLDER for a folder with config.json",
    ".onnx": "an ONNX graph, expected a PyTorch module; pass the module that it was exported from",
    ".gguf": "a GGUF file, expected a PyTorch module; pass the checkpoint that it was converted from",
    "checkpoint": f"a checkpoint, which holds no code of a model; {BUILD}",
}
PROGRAM, SCRIPT, COMPILED, CHECKPOINT = "program", "script", "compiled", "checkpoint"


def check_program(path):
    """Refuses a file that is no program of torch.export, with what it is."""
    path = pathlib.Path(path)
    if not path.is_file():
        raise TraceError("no such file, expected a model; check the path")
    kind, suffix = contents(path), path.suffix.lower()
    if kind == PROGRAM:
        return
    if kind == SCRIPT:
        raise TraceError("found TorchScript, which needs no trace; give the file to cleave compile, or return torch.jit.load(…) "
                         "of it with example inputs from a FILE.py:FUNCTION")
    if kind == COMPILED:
        raise TraceError("found what AOTInductor compiled, expected a program of torch.export; pass the program that "
                         "it was made from")
    if kind is None and suffix == ".pt2":
        raise TraceError("found no archive of torch.export.save, expected one; export the program again")
    raise TraceError(f"found {KINDS[CHECKPOINT if kind == CHECKPOINT or suffix not in KINDS else suffix]}")


def contents(path):
    """PROGRAM, SCRIPT, COMPILED or CHECKPOINT by what is in a zip archive, else None."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except (OSError, ValueError, zipfile.BadZipFile):
        return None
    inside = [name.partition("/")[2] or name for name in names]
    if any(name.startswith("models/") and name.endswith(".json") or name == "serialized_exported_program.json" for name in inside):
        return PROGRAM
    if any("aotinductor/" in name for name in inside):
        return COMPILED
    if "constants.pkl" in inside:
        return SCRIPT
    return CHECKPOINT if "data.pkl" in inside else None
