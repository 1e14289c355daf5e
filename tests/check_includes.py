"""Every #include goes in the direction that docs/architecture.md allows."""

import pathlib
import re
import sys

# What each folder may include besides itself. The order is the dependencies'.
ALLOWED = {
    "codegen/plan": set(),
    "collectives": set(),
    "sandbox": set(),
    "runtime": {"codegen/plan", "collectives"},
    "ir": {"collectives"},
    "frontend": {"ir", "codegen/plan"},
    "partitioner": {"ir", "codegen/plan"},
    "passes": {"ir", "partitioner", "codegen/plan"},
    "codegen": {"ir", "partitioner", "passes", "codegen/plan"},
}
ALLOWED["tools"] = set(ALLOWED)
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


def main():
    wrong = list(wrong_includes(pathlib.Path(sys.argv[1])))
    for line in wrong:
        print(line)
    sys.exit(bool(wrong))


main()
