"""Small modules that no library has in this form; `build` functions for cleave-trace."""

import torch
from torch import nn
from torch.nn import functional as F


class Block(nn.Sequential):
    def __init__(self, channels, more):
        super().__init__(nn.Conv2d(channels, more, 3, padding=1), nn.BatchNorm2d(more), nn.ReLU(inplace=True),
                         nn.Conv2d(more, more, 3, padding=1), nn.GroupNorm(4, more), nn.SiLU())


class UNet(nn.Module):
    """Ronneberger et al. 2015: each step down is joined with its step up."""

    def __init__(self, widths=(8, 16, 32, 64)):
        super().__init__()
        self.first = Block(3, widths[0])
        self.down = nn.ModuleList(Block(a, b) for a, b in zip(widths, widths[1:]))
        self.up = nn.ModuleList(nn.ConvTranspose2d(b, a, 2, stride=2) for a, b in zip(widths, widths[1:]))
        self.join = nn.ModuleList(Block(2 * a, a) for a in widths[:-1])
        self.last = nn.Conv2d(widths[0], 2, 1)

    def forward(self, x):
        x, skips = self.first(x), []
        for down in self.down:
            skips.append(x)
            x = down(F.max_pool2d(x, 2))
        for up, join, skip in zip(reversed(self.up), reversed(self.join), reversed(skips)):
            x = join(torch.cat([skip, up(x)], 1))
        return self.last(x)


class Tagger(nn.Module):
    """A recurrent network over a text, in both directions."""

    def __init__(self, kind):
        super().__init__()
        self.words = nn.Embedding(100, 24)
        self.recurrent = kind(24, 32, num_layers=2, bidirectional=True, batch_first=True)
        self.tags = nn.Linear(64, 7)

    def forward(self, ids):
        return self.tags(self.recurrent(self.words(ids))[0])


class Encoder(nn.Module):
    """torch's own transformer, with padding."""

    def __init__(self):
        super().__init__()
        layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, norm_first=True, activation="gelu")
        self.layers = nn.TransformerEncoder(layer, 3, enable_nested_tensor=False)

    def forward(self, x, padding):
        return self.layers(x, src_key_padding_mask=padding)


class Translator(nn.Module):
    def __init__(self):
        super().__init__()
        self.transformer = nn.Transformer(32, 4, 2, 2, 64, batch_first=True)

    def forward(self, source, target):
        mask = torch.full((target.size(1), target.size(1)), float("-inf")).triu(1)
        return self.transformer(source, target, tgt_mask=mask)


class Heads(nn.Module):
    """Answers with a nested dictionary."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh())
        self.boxes, self.scores = nn.Linear(32, 4), nn.Linear(32, 3)

    def forward(self, x):
        hidden = self.body(x)
        scores = self.scores(hidden)
        return {"boxes": self.boxes(hidden).sigmoid(), "classes": {"scores": scores, "best": scores.argmax(-1)},
                "hidden": [hidden, hidden.mean(-1)]}


class InPlace(nn.Module):
    """Writes to parts of tensors that it has made."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(16, 16) for _ in range(4))

    def forward(self, x, keep):
        x = x.clone()
        for layer in self.layers:
            x[:, ::2] *= 0.5
            x.add_(layer(x)).clamp_(-3, 3)
            x[:, -1] = x.mean(-1)
            x.masked_fill_(keep.logical_not().unsqueeze(-1), 0.25)
        table = torch.zeros_like(x)
        table.index_add_(0, torch.arange(x.size(0)).flip(0), x)
        return x, table.index_put_((torch.tensor([0]),), x[:1], accumulate=True)


class Scripted(nn.Module):
    """Branches and loops that depend on data and on sizes."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(3))
        self.gate = nn.Linear(8, 1)

    def forward(self, x):
        total = torch.zeros_like(x)
        for i, layer in enumerate(self.layers):
            x = torch.tanh(layer(x))
            if bool(self.gate(x).mean() > 0):
                total = total + x
            else:
                total = total - x * i
        steps = 0
        while steps < x.size(1) and bool(total.abs().max() > 0.5):
            total = total * 0.9
            steps += 1
        return total, torch.tensor(steps)


class Depthwise(nn.Module):
    """A separable convolution over time with gates and attentive pooling, for sound."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv1d(8, 32, 5, stride=2, padding=2), nn.GLU(1),
                                  nn.Conv1d(16, 16, 7, padding=3, groups=16), nn.BatchNorm1d(16), nn.ELU())
        self.weight, self.out = nn.Linear(16, 1), nn.Linear(32, 5)

    def forward(self, x):
        x = self.conv(x).transpose(1, 2)
        weight = self.weight(x).softmax(1)
        mean = (weight * x).sum(1)
        spread = ((weight * x * x).sum(1) - mean * mean).clamp(min=1e-6).sqrt()
        return F.log_softmax(self.out(torch.cat([mean, spread], -1)), -1)


def randn(*shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(1))


def ids(*shape):
    return torch.randint(100, shape, generator=torch.Generator().manual_seed(1))


def padding(batch, length):
    """Rows that end at different lengths."""
    return torch.arange(length) >= torch.arange(length - batch + 1, length + 1).unsqueeze(1)


def unet():
    return UNet().eval(), randn(2, 3, 32, 48)


def lstm():
    return Tagger(nn.LSTM).eval(), {"ids": ids(4, 12)}


def gru():
    return Tagger(nn.GRU).eval(), {"ids": ids(4, 12)}


def encoder():
    return Encoder().eval(), (randn(4, 12, 32), padding(4, 12))


def translator():
    return Translator().eval(), (randn(4, 12, 32), randn(4, 9, 32))


def heads():
    return Heads().eval(), randn(4, 16)


def in_place():
    return InPlace().eval(), (randn(4, 16), torch.tensor([True, False, True, True]))


def scripted():
    return torch.jit.script(Scripted().eval()), randn(4, 8)


def depthwise():
    return Depthwise().eval(), randn(4, 8, 40)
