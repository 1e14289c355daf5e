"""A model of two layers, which is compiled and run in tenths of a second, and what may become of the files of that: each is what
it was or what it was to be, whatever happens meanwhile."""

import dataclasses
import json
import os
import pathlib
import re
import shutil
import time

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from conftest import cleave, contents

COMPILE = ("compile", "model.pt", "--inputs", "x.safetensors", "--devices", 2, "-o", "model.plan")
RUN = ("run", "model.plan", "--inputs", "x.safetensors", "--outputs", "y.safetensors", "--trace", "t.json")
# In which unfinished files and folders stand.
TEMPORARY = re.compile(r"\..+\.partial-\d+-\d+")


def folder_of(process):
    """The folder that a process, by its folder in /proc, works in; None for one that has ended."""
    try:
        return pathlib.Path(os.readlink(process / "cwd"))
    except OSError:
        return None


@dataclasses.dataclass
class Small:
    """A folder with the model, and an older model's plan and outputs."""
    folder: pathlib.Path
    # Contents of model.plan and y.safetensors, before and after.
    old: dict
    new: dict
    old_outputs: bytes
    new_outputs: bytes

    def copy(self, folder):
        shutil.copytree(self.folder, folder, dirs_exist_ok=True)
        return dataclasses.replace(self, folder=folder)

    def replace_plan(self):
        """Has the new plan in place of the old one."""
        cleave(*COMPILE, cwd=self.folder)
        assert self.is_new()
        return self

    def is_new(self):
        """Whether the plan is the new one; it must be that or the old one."""
        found = contents(self.folder / "model.plan")
        assert found in (self.old, self.new), {name: len(data) for name, data in found.items()}
        return found == self.new

    def are_outputs_new(self, events=4):
        """The same of outputs and trace: of each, since one can be renamed without the other."""
        outputs, trace = (self.folder / "y.safetensors").read_bytes(), (self.folder / "t.json").read_text()
        assert outputs in (self.old_outputs, self.new_outputs)
        if trace != "old":
            assert len([event for event in json.loads(trace)["traceEvents"] if event["ph"] == "X"]) == events
        return outputs == self.new_outputs and trace != "old"

    def await_end(self):
        """Waits until no process works in the folder: a kill reaches those of one session, and what writes outputs has another."""
        deadline = time.monotonic() + 60
        while at_work := [process for process in pathlib.Path("/proc").glob("[0-9]*") if folder_of(process) == self.folder]:
            assert time.monotonic() < deadline, f"{at_work} still work in {self.folder}"
            time.sleep(0.01)

    def leftovers(self):
        """What stands in the folder beside files that are whole."""
        return [path.name for path in self.folder.iterdir() if TEMPORARY.fullmatch(path.name)]

    def names(self):
        return sorted(path.name for path in self.folder.iterdir())


NAMES = ["model.plan", "model.pt", "t.json", "x.safetensors", "y.safetensors"]


@pytest.fixture(scope="session")
def small(tmp_path_factory):
    folder = tmp_path_factory.mktemp("small") / "template"
    folder.mkdir()
    save_file({"input": torch.ones(2, 4)}, folder / "x.safetensors")

    def compile_model(seed):
        torch.manual_seed(seed)
        model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)).eval()
        torch.jit.trace(model, torch.ones(2, 4)).save(str(folder / "model.pt"))
        cleave(*COMPILE, cwd=folder)
        cleave(*RUN, cwd=folder)
        return contents(folder / "model.plan"), (folder / "y.safetensors").read_bytes()

    new, new_outputs = compile_model(1)
    model = (folder / "model.pt").read_bytes()
    old, old_outputs = compile_model(2)
    (folder / "model.pt").write_bytes(model)
    (folder / "t.json").write_text("old")
    return Small(folder, old, new, old_outputs, new_outputs)
