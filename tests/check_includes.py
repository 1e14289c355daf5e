"""Every #include goes in the direction that docs/architecture.md allows."""

import pathlib
import re
import sys

# What each folder may include besides itself. The order is the dependencies'.
ALLOWED = {
    "codegen/plan": set(),
    "collectives": set(),
    "random": set(),
    "sandbox": set(),
    "runtime": {"codegen/plan", "collectives", "random"},
    "ir": {"collectives", "random"},
    "frontend": {"ir", "codegen/plan"},
    "partitioner": {"ir", "codegen/plan"},
    "passes": {"ir", "partitioner", "codegen/plan"},
    "codegen": {"ir", "partitioner", "passes", "codegen/plan"},
}
ALLOWED["tools"] = set(ALLOWED)
# The layers of a folder, lowest first: each may include itself and those before it. "": the top level.
LAYERS = {
    "codegen/plan": ("text", "files", ""),
    "runtime": ("base", "comm", "device", "device/cuda", "comm/local", "rendezvous", "comm/process", "operators", "executor",
                "exchange", "capture", "schedule", "session", "training", "profile"),
    "frontend": ("archive", "torchscript"),
    "partitioner": ("machine", "graph", "sharding", "cost", "simulation", "memory", "cutting", "placement", "search"),
    "tools/driver": ("base", "profile", "search", "verify", "witnesses", ""),
    "tools/cleave": ("text", "process", "inspect", "run", "train", ""),
}
INCLUDE = re.compile(r'\s*(?:#\s*)?include "([^"]+)"')


def folder_of(path):
    """The folder that a path from the source root belongs to; None for others' headers."""
    return next((folder for folder in ALLOWED if path.startswith(folder + "/")), None)


def wrong_includes(root):
    for folder in sorted({name.split("/")[0] for name in ALLOWED}):
        for path in sorted((root / folder).rglob("*")):
            if path.suffix not in (".h", ".cpp", ".td"):
                continue
            name = path.relative_to(root).as_posix()
            own = folder_of(name)
            for number, line in enumerate(path.read_text().splitlines(), 1):
                include = INCLUDE.match(line)
                other = folder_of(include[1]) if include else None
                if other and other != own and other not in ALLOWED[own]:
                    allowed = ", ".join(sorted(ALLOWED[own])) or "nothing"
                    yield f"{name}:{number}: includes {include[1]}, but {own} may include {allowed} besides itself"


def layer_of(folder, name):
    """The innermost layer of `folder` that the path is in; None where it is in none."""
    inside = name.removeprefix(folder + "/").rpartition("/")[0]
    return max((layer for layer in LAYERS[folder] if inside == layer or (layer and inside.startswith(layer + "/"))), key=len, default=None)


def wrong_layers(root):
    for folder, layers in LAYERS.items():
        for path in sorted((root / folder).rglob("*")):
            if path.suffix not in (".h", ".cpp"):
                continue
            name = path.relative_to(root).as_posix()
            own = layer_of(folder, name)
            if own is None:
                yield f"{name}: in none of the layers of {folder}: {', '.join(layers)}"
                continue
            for number, line in enumerate(path.read_text().splitlines(), 1):
                include = INCLUDE.match(line)
                other = layer_of(folder, include[1]) if include and include[1].startswith(folder + "/") else own
                if other is None or layers.index(other) > layers.index(own):
                    yield f"{name}:{number}: includes {include[1]}, but {folder}/{own} comes before that"


def main():
    root = pathlib.Path(sys.argv[1])
    wrong = [*wrong_includes(root), *wrong_layers(root)]
    for line in wrong:
        print(line)
    sys.exit(bool(wrong))


main()
