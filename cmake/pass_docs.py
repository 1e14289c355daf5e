"""Writes docs/passes.md from passes/Passes.td, or with --check fails where it is not what would be written."""

import argparse
import pathlib
import re
import subprocess
import sys

TITLE = """# Passes

What does each pass do, and with which options? `cleave-opt FILE --PASS=OPTION=VALUE` runs one of these on text; `cleave compile
--emit-ir DIR` writes the IR after each. MLIR's own `canonicalize` and `cse` are there too. [Adding a pass](adding-a-pass.md) adds one.

In the order of `cleave compile`: [strip-boundaries](#strip-boundaries), [infer-state-rows](#infer-state-rows),
[infer-types](#infer-types), [fold-sizes](#fold-sizes), [rewrite-idioms](#rewrite-idioms), [lower-precision](#lower-precision),
[annotate-sharding](#annotate-sharding), [propagate-sharding](#propagate-sharding), [insert-reshards](#insert-reshards), [partition-spmd](#partition-spmd),
[optimize-collectives](#optimize-collectives), [assign-stages](#assign-stages), [assign-schedule](#assign-schedule),
[split-stages](#split-stages). For tests: [print-sharding-groups](#print-sharding-groups).

"""


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tblgen", required=True)
    parser.add_argument("--include", action="append", default=[])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("source", type=pathlib.Path)
    parser.add_argument("page", type=pathlib.Path)
    options = parser.parse_args()
    command = [options.tblgen, "-gen-pass-doc", *(f"-I{folder}" for folder in options.include), options.source]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    comment, text = text.split("\n", 1)
    # A page's own headings, without the flag's dash.
    text = f"{comment}\n{TITLE}" + re.sub("^#(#+ )", r"\1", text, flags=re.M).replace("## `-", "\n## `").rstrip() + "\n"
    if not options.check:
        options.page.write_text(text)
    elif not options.page.exists() or options.page.read_text() != text:
        sys.exit(f"{options.page} is stale; run cmake --build build --target docs")


main()
