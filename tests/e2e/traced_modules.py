"""Modules that test_trace.py and test_trace_training.py trace."""

import collections
import time

import torch
import torch.utils.checkpoint
from torch import nn

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.act = nn.ReLU(inplace=True)

    def forward(self, x):
        return self.act(self.linear(x))

class Nested(nn.Module):
    def __init__(self):
        super().__init__()
        self.shared = Block()
        self.scripted = torch.jit.script(Block())
        self.normed = nn.utils.parametrizations.weight_norm(nn.Linear(4, 4))
        self.tied = nn.Linear(4, 4)
        self.tied.weight = self.shared.linear.weight
        self.attention = nn.MultiheadAttention(4, 2, batch_first=True)

    def forward(self, x, past, *rest, scale=1.0, **others):
        y = self.scripted(self.shared(self.shared(x))) + past["key"][0] * scale + past["more"][1]
        y = self.normed(self.tied(y)) + others["bias"]
        y = y + self.attention(y, y, y)[0]
        Pair = collections.namedtuple("Pair", "first second")
        return {"y": y, "past": (None, Pair(y * 2, y[0, 0, 0]), 3), "list": [y, (y,)]}

def nested():
    torch.manual_seed(0)
    x, key, more, bias = torch.randn(4, 2, 3, 4)
    return Nested(), {"x": x, "past": {"key": (key, None), "more": [3, more]}, "scale": 2.0, "bias": bias}

class Sum(nn.Module):
    def forward(self, x, *rest):
        print("a module may print")
        return sum(rest, x)

variadic = lambda: (Sum(), (torch.ones(2), torch.ones(2), torch.ones(2)))
zero_dimensional = lambda: (Sum(), torch.tensor(1.0))

class Doubling(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2

class Doubler(nn.Module):
    def forward(self, x):
        return Doubling.apply(x)

class Stacking(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 2)])

    @property
    def weights(self):
        return torch.stack([layer.weight for layer in self.layers])

    def forward(self, x):
        return self.layers[1](self.layers[0](x))

class Reserved(nn.Module):
    def __init__(self):
        super().__init__()
        self.add_module("in", nn.Linear(4, 4))

    def forward(self, x):
        return getattr(self, "in")(x)

class Counter(nn.Module):
    count = 0
    def forward(self, x):
        self.count += 1
        return x + self.count

class Opaque(nn.Module):
    def forward(self, x):
        return object()

class SameOutputs(nn.Module):
    def forward(self, x):
        return {"y": {1: x, "1": x + 1}}

class Quiet(nn.Module):
    def forward(self, x):
        return x + 1

class Holes(nn.Module):
    def forward(self, past, x):
        return None, past[1] + x, (3, past[2][1] * x)

class InPlace(nn.Module):
    def forward(self, x, y):
        return x.add_(1) * y

class WritesAlias(nn.Linear):
    def forward(self, x):
        y = super().forward(x)
        y.detach()[:, 0] = 0
        return y

class WritesCopy(nn.Linear):
    def forward(self, x):
        y = super().forward(x)
        return y * y.detach().clone().clamp_(-1, 1)

class Hooked(nn.Linear):
    def forward(self, x):
        y = super().forward(x)
        y.register_hook(lambda gradient: 2 * gradient)
        return y

def hooked_weight():
    module = nn.Linear(4, 4)
    module.weight.register_hook(lambda gradient: 2 * gradient)
    return module, torch.ones(2, 4)

def hooked_module():
    module = nn.Sequential(nn.Linear(4, 4))
    module[0].register_full_backward_hook(lambda *gradients: None)
    return module, torch.ones(2, 4)

class Seen(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x):
        self.seen = self.seen + x.sum()
        return x + self.seen

class Scaled(nn.Module):
    def forward(self, x, count: int, flag: bool, pair: tuple[torch.Tensor, float], word: str = "a b"):
        return x * pair[1] + count + pair[0] if flag else x

class Deciding(nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            x = x * 2
        return x, x.shape[0], "word"

class Noticed(nn.Module):
    def __init__(self):
        super().__init__()
        self.deciding = Deciding()

    def forward(self, x, scale=1.0):
        y, length, word = self.deciding(x)
        for row in y:
            y = y + row * int(x.max())
        return {"y": y * scale, "length": 3, "word": (word, None)}

noticed = lambda: (Noticed(), (torch.ones(2, 2), 0.5))
library = lambda: (Noticed().eval(), torch.ones(2, 2))
holes = lambda: (Holes(), ((None, torch.ones(4), [None, torch.ones(4) + 1]), torch.ones(4) * 2))
in_place = lambda: (InPlace(), (torch.ones(2), torch.ones(2)))
seen = lambda: (nn.Sequential(Seen()), torch.ones(2))
scaled = lambda: (Scaled(), (torch.ones(2), 3, True, (torch.ones(2), 2.0)))
same_names = lambda: (Sum(), {"x": {1: torch.ones(2), "1": torch.ones(2)}})
same_paths = lambda: (Sum(), {"x": {"a.b": torch.ones(2), "a": {"b": torch.ones(2)}}})
same_outputs = lambda: (SameOutputs(), torch.ones(2))
doubler = lambda: (Doubler(), torch.ones(2))
stacking = lambda: (Stacking(), torch.ones(2, 4))
reserved = lambda: (nn.Sequential(Reserved()), torch.ones(2, 4))
counter = lambda: (Counter(), torch.ones(2))
opaque = lambda: (Opaque(), torch.ones(2))
quiet = lambda: (Quiet(), torch.ones(2))
wrong_arguments = lambda: (Sum(), {"y": torch.ones(2)})
no_tensors = lambda: (Sum(), (1, None))
no_pair = lambda: torch.ones(2)

class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2

double = Doubled.apply  # under a name of its own

class Trained(nn.Module):
    # Gradients are on, off and on again.
    def __init__(self):
        super().__init__()
        self.linear, self.teacher, self.norm = nn.Linear(4, 4), nn.Linear(4, 4), nn.BatchNorm1d(4)
        self.scripted = torch.jit.script(nn.Linear(4, 4))
        self.dropout = nn.Dropout(0.5)
        self.register_buffer("mean", torch.zeros(4))
        self.register_buffer("most", torch.zeros(3, 4))

    @torch.no_grad()
    def targets(self, x):
        y = self.teacher(x)
        y += 1
        self.mean.mul_(0.9).add_(y.mean(0))
        self.mean[0] = x[0, 0]
        torch.mul(x, 2, out=self.most)
        return double(y), torch.max(x, 1).values, self.scripted(x), x.shape[0]

    def forward(self, x):
        y = torch.utils.checkpoint.checkpoint(self.linear, x, use_reentrant=False)
        y = torch.utils.checkpoint.checkpoint(self.linear, y, use_reentrant=True)
        target, most, other, rows = self.targets(y)
        loss = ((self.dropout(y) - target) ** 2).mean() + (y * most.unsqueeze(1) * other).sum() / rows
        return {"loss": loss + (self.norm(y) * self.mean * self.most * y.data).sum()}

class Differentiable(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        return double(self.linear(x)).sum()

class WritesUnseen(Differentiable):
    def forward(self, x):
        y = self.linear(x)
        with torch.no_grad():
            y.clamp_(min=0)
        return y.sum()

class Unseeing(nn.Module):
    def forward(self, x):
        with torch.no_grad():
            y = x * 2
        return y + x

def trained():
    torch.manual_seed(0)
    return Trained(), torch.randn(3, 4)

scripted_dropout = lambda: (torch.jit.script(nn.Dropout().eval()), torch.ones(64))
differentiable = lambda: (Differentiable(), torch.ones(2, 4))
writes_alias = lambda: (WritesAlias(4, 4), torch.ones(2, 4))
writes_copy = lambda: (WritesCopy(4, 4), torch.ones(2, 4))
hooked = lambda: (Hooked(4, 4), torch.ones(2, 4))
renormed = lambda: (nn.Embedding(5, 4, max_norm=1.0), torch.ones(2, dtype=torch.long))
writes_unseen = lambda: (WritesUnseen(), torch.ones(2, 4))
unseeing = lambda: (torch.jit.script(Unseeing()), torch.ones(2))
unseeing_part = lambda: (nn.Sequential(torch.jit.script(Unseeing())), torch.ones(2))
traced_part = lambda: (nn.Sequential(torch.jit.trace(nn.Dropout().eval(), torch.ones(2))), torch.ones(2))
frozen = lambda: (torch.jit.freeze(torch.jit.script(nn.Dropout().eval())), torch.ones(2))

def broken():
    raise ValueError("several\nlines")

def saved_slowly():
    def save(module, path):
        path.write_bytes(b"half")
        open("started", "w").close()
        time.sleep(60)

    torch.jit.save = save
    return quiet()
