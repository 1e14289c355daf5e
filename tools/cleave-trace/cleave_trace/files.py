"""The files of a trace, written whole or not at all."""

import contextlib
import os
import pathlib
import resource
import shutil
import tempfile
import zipfile

import torch
from safetensors.torch import save

from cleave_trace.errors import TraceError, one_line


def paths(model_path):
    """(model, inputs, outputs, witnesses): gpt2.pt goes with gpt2.inputs.safetensors and so on."""
    model_path = pathlib.Path(model_path)
    stem = model_path.with_suffix("") if model_path.suffix == ".pt" else model_path
    return model_path, *(stem.with_name(f"{stem.name}.{kind}.safetensors") for kind in ("inputs", "outputs", "witnesses"))


def check_writable(model_path):
    """Refuses early what `write` could not do after minutes of tracing."""
    model_path = pathlib.Path(model_path)
    if not model_path.parent.is_dir():
        raise TraceError(f"{model_path.parent}: no such folder, expected one to write {model_path.name} in; make it")
    if not os.access(model_path.parent, os.W_OK):
        raise TraceError(f"{model_path.parent}: not writable, expected one to write {model_path.name} in; choose another")
    for path in paths(model_path):
        if path.is_dir():
            raise TraceError(f"{path}: a folder, expected a file to write; choose another name")
        if os.path.lexists(path) and (path.is_symlink() or not path.is_file()):
            raise TraceError(f"{path}: is there and no regular file, expected one to replace; choose another name")
    if model_path.exists() and not zipfile.is_zipfile(model_path):
        raise TraceError(f"{model_path}: is there and no traced model, expected one to replace; choose another name")


def write(trace, model_path, class_name="", witnesses=None):
    """Writes the files under temporary names beside `model_path`, then renames them, the model last.

    Without `witnesses`, those of an earlier model go.
    """
    check_space(trace, pathlib.Path(model_path).parent)
    with temporary_folder(pathlib.Path(model_path).parent) as folder:
        targets = paths(model_path)
        # The archive's folder is named after the file, so the file has its own name even here.
        model, inputs, outputs, witnessed = (folder / target.name for target in targets)
        save_module(trace.module, model)
        inputs.write_bytes(save(storable(trace.inputs)))
        outputs.write_bytes(save(storable(trace.outputs)))
        if witnesses:
            witnessed.write_bytes(save(witnesses.file(class_name, serialization_id(model))))
        written = [path for path in (model, inputs, outputs, witnessed) if path.exists()]
        for path in written:
            sync(path)
        if not witnesses:
            targets[-1].unlink(missing_ok=True)
        for path, target in reversed(list(zip(written, targets))):
            os.replace(path, target)
    return targets


def serialization_id(model_path):
    """The number that torch gave a saved module."""
    with zipfile.ZipFile(model_path) as archive:
        name = next((name for name in archive.namelist() if name.endswith("/.data/serialization_id")), None)
        return archive.read(name).decode() if name else ""


def check_space(trace, folder):
    """torch.jit.save aborts where the disk is full or a file may not be as large, so that is found out before."""
    weights = {tensor.data_ptr(): tensor for tensor in (*trace.module.parameters(), *trace.module.buffers())}
    sizes = [sum(tensor.nbytes for tensor in tensors)
             for tensors in (weights.values(), trace.inputs.values(), trace.outputs.values())]
    # Code and alignment come on top.
    slack = 1 << 20
    free, needed = shutil.disk_usage(folder).free, sum(sizes) + slack
    if free < needed:
        raise TraceError(f"{folder}: {free:,} bytes free, expected at least {needed:,} for the model; "
                         "make room or choose another folder")
    limit, needed = resource.getrlimit(resource.RLIMIT_FSIZE)[0], max(sizes) + slack
    if limit != resource.RLIM_INFINITY and limit < needed:
        raise TraceError(f"{folder}: a file may take {limit:,} bytes, expected at least {needed:,} for the model; "
                         "raise the limit (ulimit -f)")


def save_module(module, path):
    try:
        torch.jit.save(module, path)
    except RuntimeError as error:
        raise TraceError(f"TorchScript cannot save the module: {one_line(error)}; "
                         "pass --traceback to see where") from error


def storable(tensors):
    """Copies that share no memory, as safetensors wants them."""
    return {path: tensor.detach().clone(memory_format=torch.contiguous_format) for path, tensor in tensors.items()}


def sync(path):
    with open(path, "rb") as file:
        os.fsync(file.fileno())


@contextlib.contextmanager
def temporary_folder(parent):
    folder = pathlib.Path(tempfile.mkdtemp(prefix=".cleave-trace-", dir=parent))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
