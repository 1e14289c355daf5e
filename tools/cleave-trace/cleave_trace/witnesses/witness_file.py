"""NAME.witnesses.safetensors (docs/witnesses.md)."""

import dataclasses
import json

import torch

from cleave_trace.witnesses.projection import project

VERSION = 1
LARGE = 1 << 40
MAX_BYTES = 10 << 20
SLACK = 1 << 16  # header of the file and the description's numbers


@dataclasses.dataclass
class Witness:
    name: str
    inputs: dict[str, torch.Tensor]
    outputs: dict[str, torch.Tensor]  # the module's

    def tensors(self, index):
        """This witness's entry of the description, and its tensors by key."""
        entry, found = {"name": self.name, "inputs": {}, "outputs": {}}, {}
        for number, (path, tensor) in enumerate(self.inputs.items()):
            key = entry["inputs"][path] = f"w{index}.in.{number}"
            found[key] = tensor.detach().clone(memory_format=torch.contiguous_format)
        for number, (path, tensor) in enumerate(self.outputs.items()):
            key = entry["outputs"][path] = f"w{index}.out.{number}"
            found.update(project(tensor, key))
        return entry, found


@dataclasses.dataclass
class Dimension:
    """The sizes of a group at which the trace answers as the module."""

    dims: list
    traced: int
    min: int
    max: int
    divisible_by: int = 1
    below: str = ""
    above: str = ""
    between: str = ""
    where: str = ""
    diverges: bool = False  # whether the trace was seen to differ from the module at another size
    name: str = ""

    def allows(self, size):
        return self.min <= size <= self.max and size % self.divisible_by == 0

    def ends(self):
        """Its least, traced and greatest size; where there is no greatest, a very large one; no 1, of which guards say nothing."""
        step = self.divisible_by
        ends = {max(self.min, step if step > 1 else 2), self.traced, min(self.max, LARGE) // step * step}
        return sorted(size for size in ends if size > 1 and self.allows(size))

    def freeze(self, reason):
        self.min = self.max = self.traced
        self.divisible_by, self.below, self.above, self.between, self.diverges = 1, "", reason, "", True

    def range(self):
        least = f"is at least {self.min}" if self.max == 2**63 - 1 else f"is {self.min} to {self.max}"
        return least + (f", multiples of {self.divisible_by}" if self.divisible_by > 1 else "")

    @property
    def is_limited(self):
        return self.min > 1 or self.max < 2**63 - 1 or self.divisible_by > 1

    def description(self):
        return {"dims": [list(pair) for pair in self.dims], "traced": self.traced, "min": self.min, "max": self.max,
                "divisible_by": self.divisible_by, "below": self.below, "above": self.above, "between": self.between,
                "where": self.where, "diverges": self.diverges}

    @property
    def why(self):
        return "; ".join(filter(None, (self.below, self.above, self.between)))


@dataclasses.dataclass
class Witnesses:
    dimensions: list
    entries: list  # of the description
    tensors: dict
    warnings: list
    notes: list

    def file(self, class_name, serialization_id):
        """All tensors of the file, for the model with that id."""
        description = {"version": VERSION, "model": serialization_id, "module": class_name, "warnings": self.warnings,
                       "dimensions": [dimension.description() for dimension in self.dimensions],
                       "witnesses": self.entries}
        text = json.dumps(description).encode()
        return {"description": torch.frombuffer(bytearray(text), dtype=torch.uint8), **self.tensors}


    def report(self, path):
        """What `--json` says of them."""
        return {"witnesses_file": path, "witnesses": [entry["name"] for entry in self.entries],
                "dimensions": [{"dims": dimension.dims, "min": dimension.min, "max": dimension.max,
                                "divisible_by": dimension.divisible_by, "why": dimension.why, "where": dimension.where}
                               for dimension in self.dimensions]}


class Builder:
    """Takes witnesses in the order of their importance, as long as the file has room."""

    def __init__(self):
        self.entries, self.tensors, self.size = [], {}, SLACK

    def add(self, name, inputs, outputs):
        if sum(tensor.nbytes for tensor in inputs.values()) + self.size > MAX_BYTES or name in self.names():
            return
        entry, tensors = Witness(name, inputs, outputs).tensors(len(self.entries))
        size = sum(tensor.nbytes + 200 for tensor in tensors.values())
        if self.size + size > MAX_BYTES or not all(map(can_be_stored, tensors.values())):
            return
        self.entries.append(entry)
        self.tensors.update(tensors)
        self.size += size

    def names(self):
        return [entry["name"] for entry in self.entries]


def can_be_stored(tensor):
    return tensor.layout == torch.strided and not tensor.is_quantized
