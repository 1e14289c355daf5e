"""Which dimensions of the inputs vary together."""

import dataclasses

from cleave_trace.errors import TraceError


@dataclasses.dataclass
class Group:
    """Dimensions of inputs that have one size."""

    name: str
    dims: tuple[tuple[str, int], ...]  # input path, dimension
    traced: int
    is_named: bool = False  # by --dynamic


NAMES = {0: "batch", 1: "seq"}


def default_groups(example):
    """Dimensions at one position with one size; `example` by path."""
    found = {}
    for path, tensor in example.items():
        for dim, size in enumerate(tensor.shape):
            if size > 0:
                found.setdefault((dim, size), []).append((path, dim))
    by_position = {}
    for dim, size in found:
        by_position.setdefault(dim, []).append(size)
    groups = []
    for (position, size), dims in sorted(found.items(), key=lambda item: item[0][0]):
        is_only = len(by_position[position]) == 1
        name = NAMES.get(position, f"dim{position}") if is_only else f"{dims[0][0]}.{position}"
        groups.append(Group(name, tuple(dims), size))
    return groups


def named_groups(example, texts):
    """The groups that `--dynamic NAME=DIM,DIM` ask for."""
    found = {}
    for text in texts:
        path, _, dims = text.partition("=")
        if path not in example:
            raise TraceError(f"--dynamic {text}: no input {path}, expected one of {', '.join(example)}; check its name")
        symbols = dims.split(",")
        shape = list(example[path].shape)
        if len(symbols) != len(shape):
            raise TraceError(f"--dynamic {text}: found {len(symbols)} {'name' if len(symbols) == 1 else 'names'}, expected "
                             f"{len(shape)}, one for each dimension of {path}; write _ for one that stays")
        for dim, symbol in enumerate(symbols):
            symbol = symbol.strip()
            if symbol in ("", "_") or symbol.isdecimal():
                if symbol.isdecimal() and int(symbol) != shape[dim]:
                    raise TraceError(f"--dynamic {text}: dimension {dim} of {path} is {shape[dim]}, found {symbol}; "
                                     "give it the size of the example, or a name")
                continue
            if not symbol.isidentifier():
                raise TraceError(f'--dynamic {text}: found "{symbol}", expected a name, a number or _; rename it')
            found.setdefault(symbol, []).append((path, dim))
    groups = []
    for symbol, dims in found.items():
        sizes = {example[path].shape[dim] for path, dim in dims}
        if len(sizes) > 1:
            raise TraceError(f"--dynamic: {symbol} is {' and '.join(map(str, sorted(sizes)))} in the example inputs, expected "
                             "one size; give each a name of its own")
        groups.append(Group(symbol, tuple(dict.fromkeys(dims)), sizes.pop(), is_named=True))
    return groups


def merged(first, second):
    """Both as one group."""
    return Group(first.name, (*first.dims, *second.dims), first.traced, first.is_named or second.is_named)
