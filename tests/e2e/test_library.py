"""`--library`: operators of other packages."""

import pathlib
import sysconfig

import pytest
import torch
import torchvision
from torch import nn

from conftest import cleave, refused

# Made for Python, torchvision's operators want its library and torch's for it first.
LIBRARIES = [pathlib.Path(sysconfig.get_config_var("LIBDIR")) / sysconfig.get_config_var("INSTSONAME"),
             pathlib.Path(torch.__file__).parent / "lib/libtorch_python.so", pathlib.Path(torchvision.__file__).parent / "_C.so"]
OPTIONS = [word for library in LIBRARIES for word in ("--library", library)]


class Regions(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Conv2d(3, 4, 3)

    def forward(self, image, boxes):
        return torchvision.ops.roi_align(self.features(image), boxes, 2)


class Boxes(nn.Module):
    """Of which only Python has a kernel without data, and only data the size of the result."""
    def forward(self, boxes, scores):
        kept = torchvision.ops.nms(boxes.relu(), scores, 0.5)
        return boxes[kept] * 2, scores + 1


@pytest.mark.skipif(not all(library.exists() for library in LIBRARIES), reason="Python has no shared library here")
def test_operators_of_torchvision(tmp_path):
    inputs = torch.rand(1, 3, 12, 12), torch.tensor([[0., 1, 1, 6, 6], [0, 2, 2, 8, 8]])
    torch.jit.trace(Regions().eval(), inputs).save(str(tmp_path / "model.pt"))
    arguments = ("compile", "model.pt", "--input", "image:f32[1,3,12,12]", "--input", "boxes:f32[2,5]", "-o", "model.plan")
    assert "torchvision::roi_align" in refused(tmp_path, *arguments)
    cleave(*arguments, *OPTIONS, "--verify", cwd=tmp_path)
    verify = ("verify", "model.plan", "--model", "model.pt")
    assert "torchvision::roi_align" in refused(tmp_path, *verify)
    report = cleave(*verify, *OPTIONS, "--json", cwd=tmp_path).json()
    # The library is loaded first, and the model runs in the sandbox.
    assert report["ok"] and report["protection"].startswith("landlock ") and report["protection"].endswith(", seccomp")


@pytest.mark.skipif(not all(library.exists() for library in LIBRARIES), reason="Python has no shared library here")
@pytest.mark.parametrize("devices", [1, 2])
def test_operators_whose_types_only_python_knows(tmp_path, devices):
    inputs = torch.tensor([[0., 0, 4, 4], [0, 0, 4, 5], [6, 6, 9, 9]]), torch.tensor([0.5, 0.9, 0.7])
    torch.jit.trace(Boxes().eval(), inputs).save(str(tmp_path / "model.pt"))
    arguments = ("compile", "model.pt", "--input", "boxes:f32[3,4]", "--input", "scores:f32[3]", "-o", "model.plan")
    cleave(*arguments, *OPTIONS, "--devices", devices, "--verify", cwd=tmp_path)
