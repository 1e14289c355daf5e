"""Gloo's code is libtorch's, its declarations are ours (runtime/comm/process/gloo-headers): a library of ours must hold no code made of
them, and the interface that c10d overrides must be as large in libtorch as it is declared.

usage: check_gloo_symbols.py LIBRARY.a LIBTORCH.so
"""

import pathlib
import re
import subprocess
import sys

STORE = pathlib.Path(__file__).resolve().parents[1] / "runtime/comm/process/gloo-headers/gloo/rendezvous/store.h"
# An entry and the two before the functions: offset to the top, type information.
POINTER, HEAD = 8, 2


def symbols(*arguments):
    return subprocess.run(["nm", "--demangle", "--print-size", *arguments], check=True, capture_output=True, text=True).stdout.splitlines()


def of_gloo(line):
    name = line.split(" ", 3)[-1]
    return re.match(r"(?:vtable for |typeinfo for |typeinfo name for )?(gloo::|c10d::ProcessGroupGloo::GlooStore)", name)


def main(library, libtorch):
    problems = [f"{library}: defines {line}, expected Gloo's code in libtorch alone"
                for line in symbols("--defined-only", library) if of_gloo(line)]
    # A destructor has two entries.
    declared = len(re.findall(r"^  virtual ", STORE.read_text(), re.MULTILINE)) + 1
    tables = [line for line in symbols("--dynamic", "--defined-only", libtorch) if "vtable for c10d::ProcessGroupGloo::GlooStore" in line]
    sizes = [int(line.split()[1], 16) // POINTER - HEAD for line in tables]
    if sizes != [declared]:
        problems.append(f"{STORE}: declares {declared} virtual functions, but {libtorch} has {sizes}; declare what its Gloo has")
    print("\n".join(problems) or f"{declared} virtual functions, and no code of Gloo's")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
