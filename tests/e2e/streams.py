"""Requests of one session, one after the other, held against the original called as often."""

import torch
from safetensors.torch import load_file, save_file
from torch import nn

from conftest import cleave

X = torch.linspace(-1, 1, 24).reshape(4, 6)


def stream_of(*calls):
    """Inputs of several calls, one after the other in front."""
    return torch.stack([torch.as_tensor(call, dtype=torch.float32) for call in calls])


CALLS = stream_of(X, X * 2, -X, X + 3, X * 0)


class Counts(nn.Module):
    """A buffer that is written in place."""

    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.tensor(3))

    def forward(self, x):
        self.count.add_(1)
        return x * self.count


class Streams:
    """Compiles a module, with two devices or as the test says, and runs requests of one session."""

    def __init__(self, compiler):
        self.compiler = compiler

    def run(self, *options, **inputs):
        folder = self.compiler.folder
        save_file(inputs, folder / "stream.safetensors")
        cleave("run", "model.plan", "--inputs", "stream.safetensors", "--outputs", "outputs.safetensors", "--stream",
               "--check-types", *options, cwd=folder)
        return load_file(folder / "outputs.safetensors")

    def check(self, module, x, *options):
        """The plan's outputs are the original's, call by call."""
        scripted = module if isinstance(module, torch.jit.ScriptModule) else torch.jit.script(module)
        name = scripted.forward.schema.arguments[1].name
        self.compiler.compile(scripted, *options, **{name: x[0].clone()})
        with torch.no_grad():
            original = torch.jit.load(self.compiler.folder / "model.pt")
            expected = [original(call) for call in x.clone()]
        found = self.run(**{name: x})
        torch.testing.assert_close(found["output"], torch.stack(expected))
        return found["output"]
