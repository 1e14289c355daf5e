"""Small modules that decide something in Python, each in another way; python_decisions.py checks their traces."""

import dataclasses
import functools
import math
from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional as F

DECISIONS = {}


@dataclasses.dataclass
class Decision:
    """`inputs(sizes, generator)` are the arguments by name at `sizes`, by symbol; `sizes` are those of the example."""

    module: Callable[[], nn.Module]
    inputs: Callable
    sizes: dict[str, int]


def decision(inputs, **sizes):
    def add(module):
        DECISIONS[module.__name__] = Decision(module, inputs, sizes)
        return module

    return add


# Inputs -----------------------------------------------------------------------------------------------------------------


def normal(*shape):
    """An input x of this shape, in which letters are symbols."""
    def make(sizes, generator):
        return {"x": torch.randn([sizes.get(size, size) for size in shape], generator=generator)}

    return make


def tokens(sizes, generator):
    return {"ids": torch.randint(3, 50, (sizes["b"], sizes["s"]), generator=generator)}


def masked(sizes, generator):
    shape = (sizes["b"], sizes["s"])
    mask = torch.rand(shape, generator=generator) < 0.8
    mask[:, 0] = True
    return {"x": torch.randn(*shape, 4, generator=generator), "mask": mask}


def padded(sizes, generator):
    """All valid, as an example mostly is; otherwise some positions are not."""
    found = masked(sizes, generator)
    return found if generator.initial_seed() else {**found, "mask": torch.ones_like(found["mask"])}


def pictured(sizes, generator):
    """Ids of which two a row stand for the two rows of `image`."""
    ids = torch.randint(3, 40, (sizes["b"], sizes["s"]), generator=generator)
    for row in ids:
        row[torch.randperm(sizes["s"], generator=generator)[:2]] = 49
    return {"ids": ids, "image": torch.randn(2 * sizes["b"], 4, generator=generator)}


def pair(sizes, generator):
    return {"x": torch.randn(sizes["b"], sizes["s"], 4, generator=generator),
            "y": torch.randn(sizes["b"], sizes["t"], 4, generator=generator)}


def square(sizes, generator):
    return {"x": torch.randn(sizes["b"], sizes["s"], 4, generator=generator),
            "bias": torch.randn(sizes["s"], sizes["s"], generator=generator)}


def nested(sizes, generator):
    shape = (sizes["b"], sizes["s"], 4)
    return {"x": torch.randn(shape, generator=generator),
            "past": [{"k.v": torch.randn(shape, generator=generator)}, (torch.randn(shape, generator=generator),)]}


SEQUENCE = normal("b", "s", 4)
sequence = functools.partial(decision, SEQUENCE, b=3)


# Loops and chunks -----------------------------------------------------------------------------------------------------


@sequence(s=7)
class LoopsOverLength(nn.Module):
    def forward(self, x):
        h = torch.zeros_like(x[:, 0])
        for position in range(x.shape[1]):
            h = torch.tanh(h + x[:, position])
        return h


@sequence(s=6)
class MaximumByLoop(nn.Module):
    def forward(self, x):
        most = x[:, 0]
        for position in range(1, x.shape[1]):
            most = torch.maximum(most, x[:, position])
        return most


@sequence(s=6)
class IteratesTensor(nn.Module):
    def forward(self, x):
        return sum(part.sum(0) for part in x.unbind(1))


@sequence(s=6)
class Enumerates(nn.Module):
    def forward(self, x):
        total = 0
        for index, sample in enumerate(x):
            total = total + sample * (index + 1)
        return total


@sequence(s=32)
class AttendsInChunks(nn.Module):
    """Reshapes to chunks of 8, so that only multiples run."""

    def forward(self, x):
        batch, length, width = x.shape
        q = x.reshape(batch, length // 8, 8, width)
        return (q @ q.transpose(2, 3)).softmax(-1).matmul(q).reshape(batch, length, width)


@sequence(s=32)
class LoopsOverChunks(nn.Module):
    def forward(self, x):
        return torch.cat([part.softmax(1) for part in x.split(8, dim=1)], dim=1)


@sequence(s=30)
class PadsToChunks(nn.Module):
    def forward(self, x):
        length = x.shape[1]
        padded_length = math.ceil(length / 8) * 8
        y = F.pad(x, (0, 0, 0, padded_length - length)).reshape(x.shape[0], -1, 8, 4)
        return y.cumsum(2).reshape(x.shape[0], padded_length, 4)[:, :length]


@sequence(s=24)
class ChunkedRecurrence(nn.Module):
    """A state is passed from chunk to chunk, as linear attention does."""

    def forward(self, x):
        batch, length, width = x.shape
        pad = (8 - length % 8) % 8
        y = F.pad(x, (0, 0, 0, pad)).reshape(batch, -1, 8, width)
        state, found = torch.zeros(batch, width), []
        for index in range(y.shape[1]):
            state = 0.5 * state + y[:, index].mean(1)
            found.append(y[:, index] + state[:, None])
        return torch.cat(found, 1)[:, :length]


@sequence(s=16)
class HalvesUntilOne(nn.Module):
    def forward(self, x):
        while x.shape[1] > 1:
            x = torch.tanh(x[:, ::2]) if x.shape[1] % 2 else x[:, ::2] + x[:, 1::2]
        return x


# Branches by size ------------------------------------------------------------------------------------------------------


@sequence(s=40)
class LongBranch(nn.Module):
    def forward(self, x):
        return x * 2 if x.shape[1] > 32 else x * 3


@sequence(s=20)
class ShortBranch(nn.Module):
    def forward(self, x):
        return x.cumsum(1) if x.shape[1] > 32 else x.flip(1)


@sequence(s=16)
class EvenBranch(nn.Module):
    def forward(self, x):
        return x.relu() if x.shape[1] % 2 == 0 else x.sigmoid()


@sequence(s=16)
class SingleSample(nn.Module):
    def forward(self, x):
        return x - x.mean(0) if x.shape[0] > 1 else x


@sequence(s=16)
class ExactLength(nn.Module):
    def forward(self, x):
        return x.tanh() if x.shape[1] != 24 else x.exp()


@sequence(s=12)
class BatchTimesLength(nn.Module):
    def forward(self, x):
        return x.tanh() if x.shape[0] * x.shape[1] < 100 else x.sin()


@sequence(s=12)
class Longer(nn.Module):
    """Compares two dimensions."""

    def forward(self, x):
        return x.tanh() if x.shape[1] >= x.shape[0] else x.sin()


@sequence(s=12)
class WindowOrAll(nn.Module):
    def forward(self, x):
        return x[:, -min(10, x.shape[1]):].sum(1)


# Numbers made of sizes ---------------------------------------------------------------------------------------------------


@sequence(s=12)
class ScalesByLength(nn.Module):
    def forward(self, x):
        return x * math.sqrt(x.shape[1])


@sequence(s=12)
class LogOfLength(nn.Module):
    def forward(self, x):
        return x * math.log(int(x.shape[1]) + 1)


@sequence(s=12)
class DividesByLength(nn.Module):
    def forward(self, x):
        return x.sum(1) / x.shape[1]


@sequence(s=12)
class PositionsByLen(nn.Module):
    def forward(self, x):
        return x + torch.arange(len(x[0])).float()[None, :, None]


@sequence(s=12)
class PositionsByShape(nn.Module):
    def forward(self, x):
        return x + torch.arange(x.shape[1]).float()[None, :, None]


@sequence(s=12)
class TopShare(nn.Module):
    """Keeps a share of the positions."""

    def forward(self, x):
        return x.topk(max(1, x.shape[1] // 3), dim=1).values


@sequence(s=12)
class TopRounded(nn.Module):
    def forward(self, x):
        return x.topk(int(round(x.shape[1] * 0.5)), dim=1).values.sum(1)


@sequence(s=9)
class MiddlePosition(nn.Module):
    def forward(self, x):
        return x[:, int(x.shape[1] / 2)]


@sequence(s=12)
class NumpySizes(nn.Module):
    def forward(self, x):
        import numpy

        return x * torch.from_numpy(numpy.linspace(0, 1, int(x.shape[1]), dtype=numpy.float32))[None, :, None]


# Decisions by value -----------------------------------------------------------------------------------------------------


@sequence(s=12)
class ItemOfSum(nn.Module):
    def forward(self, x):
        return x * x.sum().item()


@sequence(s=12)
class BranchesBySign(nn.Module):
    def forward(self, x):
        return x * 2 if x.mean() > 0 else x * 3


@sequence(s=12)
class ClampsIfLarge(nn.Module):
    def forward(self, x):
        return x.clamp(-1, 1) * 2 if x.abs().max() > 4.5 else x


@decision(tokens, b=3, s=12)
class MaximumId(nn.Module):
    def forward(self, ids):
        return F.one_hot(ids, int(ids.max()) + 1).float().mean(1)


@decision(tokens, b=3, s=12)
class PythonSet(nn.Module):
    def forward(self, ids):
        return ids.float() * len(set(ids.flatten().tolist()))


@decision(tokens, b=3, s=12)
class EndOfText(nn.Module):
    def forward(self, ids):
        end = (ids == ids[0, 0]).nonzero()[-1, 1].item()
        return ids[:, :end + 1].float().sum(1)


@decision(padded, b=3, s=12)
class DropsFullMask(nn.Module):
    def forward(self, x, mask):
        return x if mask.all() else x * mask[..., None]


@decision(masked, b=3, s=12)
class SelectsByMask(nn.Module):
    def forward(self, x, mask):
        return x[mask].sum(0)


@decision(masked, b=3, s=12)
class LengthsOfMask(nn.Module):
    def forward(self, x, mask):
        return torch.stack([sample[:length].sum(0) for sample, length in zip(x, mask.sum(1).tolist())])


@decision(pictured, b=2, s=12)
class PlacesImages(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(50, 4)

    def forward(self, ids, image):
        return self.embed(ids).masked_scatter((ids == 49)[..., None], image)


@decision(pictured, b=2, s=12)
class PositionsOfImages(nn.Module):
    """Finds them in Python, as models of text and images do for their positions."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(50, 4)

    def forward(self, ids, image):
        positions = torch.stack([torch.arange(ids.shape[1]) - row.tolist().index(49) for row in ids])
        return self.embed(ids) + positions[..., None] + image.mean()


@sequence(s=12)
class RoutesToExperts(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(4, 3)
        self.experts = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))

    def forward(self, x):
        flat = x.reshape(-1, 4)
        chosen, result = self.gate(flat).argmax(-1), torch.zeros_like(flat)
        for index, expert in enumerate(self.experts):
            rows = (chosen == index).nonzero()[:, 0]
            result = result.index_add(0, rows, expert(flat[rows]))
        return result.reshape(x.shape)


# What is kept in Python, and relations of sizes --------------------------------------------------------------------------------


@sequence(s=12)
class CachesByLength(nn.Module):
    def __init__(self):
        super().__init__()
        self.tables = {}

    def forward(self, x):
        length = x.shape[1]
        if str(length) not in self.tables:
            self.tables[str(length)] = torch.linspace(0, 1, int(length))
        return x + self.tables[str(length)][None, :, None]


@sequence(s=12)
class GrowsTable(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("table", torch.arange(20.0), persistent=False)

    def forward(self, x):
        if x.shape[1] > self.table.shape[0]:
            self.table = torch.arange(float(x.shape[1]))
        return x + self.table[:x.shape[1]][None, :, None]


@sequence(s=12)
class WritesBuffer(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("kept", torch.zeros(64, 64, 4))

    def forward(self, x):
        self.kept[:x.shape[0], :x.shape[1]] = x
        return self.kept[:x.shape[0], :x.shape[1]] * 2


@sequence(s=12)
class RemembersFirstLength(nn.Module):
    first = None

    def forward(self, x):
        if self.first is None:
            self.first = int(x.shape[1])
        return x[:, :self.first] * 2


@sequence(s=12)
class LimitedPositions(nn.Module):
    def __init__(self):
        super().__init__()
        self.places = nn.Embedding(20, 4)

    def forward(self, x):
        return x + self.places(torch.arange(x.shape[1]))


@sequence(s=12)
class OneLengthOnly(nn.Module):
    def __init__(self):
        super().__init__()
        self.mix = nn.Linear(12, 12)

    def forward(self, x):
        return self.mix(x.transpose(1, 2))


@decision(pair, b=2, s=9, t=6)
class CrossAttends(nn.Module):
    def forward(self, x, y):
        return (y @ x.transpose(1, 2)).softmax(-1) @ x


@decision(pair, b=2, s=9, t=9)
class ComparesLengths(nn.Module):
    def forward(self, x, y):
        return x + y if x.shape[1] == y.shape[1] else x.sum(1) + y.sum(1)


@decision(square, b=2, s=9)
class SquareBias(nn.Module):
    def forward(self, x, bias):
        return (x @ x.transpose(1, 2) + bias).softmax(-1) @ x


@decision(nested, b=2, s=9)
class NestedInputs(nn.Module):
    def forward(self, x, past):
        return {"y.z": x + past[0]["k.v"], "rest": [past[1][0].cumsum(1)]}


@decision(normal("b", 3, "h", "w"), b=2, h=16, w=12)
class PoolsByRatio(nn.Module):
    def forward(self, x):
        return F.avg_pool2d(x, (max(1, x.shape[2] // 4), max(1, x.shape[3] // 4)))


@decision(normal("b", 3, "h", "w"), b=2, h=16, w=16)
class ShiftsWindows(nn.Module):
    """Windows of 4, shifted where there are several."""

    def forward(self, x):
        batch, channels, height, width = x.shape
        if height > 4:
            x = x.roll((2, 2), (2, 3))
        x = x.reshape(batch, channels, height // 4, 4, width // 4, 4).softmax(3)
        return x.reshape(batch, channels, height, width)


# Several sizes at once, and single numbers -------------------------------------------------------------------------------


@decision(SEQUENCE, b=2, s=8)
class ComparesBatchWithLength(nn.Module):
    def forward(self, x):
        return x * 2 if x.shape[0] > x.shape[1] else x * 1.5


@decision(SEQUENCE, b=2, s=8)
class ManyPositions(nn.Module):
    def forward(self, x):
        return x * 2 if x.shape[0] * x.shape[1] > 5000 else x * 1.5


def stepped(sizes, generator):
    return {**SEQUENCE(sizes, generator), "step": torch.randint(1, 50, (1,), generator=generator)}


@decision(stepped, b=2, s=8)
class ScalesByStep(nn.Module):
    def forward(self, x, step):
        return x * int(step)


@decision(stepped, b=2, s=8)
class EarlySteps(nn.Module):
    def forward(self, x, step):
        return x * 2 if step.item() < 60 else x * 3


@decision(SEQUENCE, b=2, s=8)
class ClipsNorm(nn.Module):
    def forward(self, x):
        norm = x.norm()
        return x / norm * 40 if norm > 40 else x


@decision(SEQUENCE, b=2, s=8)
class CastsItself(nn.Module):
    """Its weights are float32 at a small batch, and float64 from then on."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        return self.linear(x) if x.shape[0] < 17 else self.linear.double()(x.double()).float() * 1.001


@decision(normal("b", 4), b=1)
class LargeBatches(nn.Module):
    """Traced at a batch of 1, which torch takes for a constant."""

    def forward(self, x):
        return x * 2 if x.shape[0] > 4 else x


@decision(SEQUENCE, b=2, s=25)
class PadsToMultiple(nn.Module):
    def forward(self, x):
        length = x.shape[1]
        if length % 16:
            x = F.pad(x, (0, 0, 0, 16 - length % 16))
        return (x + 1).mean(1)


@decision(SEQUENCE, b=2, s=5)
class PowerOfLength(nn.Module):
    def forward(self, x):
        return x * 2 if 2 ** x.shape[1] > 4 else x


@decision(SEQUENCE, b=4, s=5)
class SwapsOperands(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 64)

    def forward(self, x):
        y = self.linear(x)
        first, second = y.mean(), y.std()
        return y, first - second if x.sum() > 0 else second - first
