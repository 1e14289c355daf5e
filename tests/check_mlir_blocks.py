"""The ```mlir blocks of the documentation parse, verify, and read back as they were printed."""

import pathlib
import re
import subprocess
import sys

BLOCK = re.compile(r"^```mlir\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def printed(cleave_opt, text):
    """What cleave-opt makes of the text; None and its complaint where it refuses."""
    done = subprocess.run([cleave_opt, "--mlir-print-debuginfo"], input=text, capture_output=True, text=True)
    return (done.stdout, "") if done.returncode == 0 else (None, done.stderr)


def main():
    cleave_opt, *pages = sys.argv[1:]
    wrong = found = 0
    for page in map(pathlib.Path, pages):
        text = page.read_text()
        for block in BLOCK.finditer(text):
            found += 1
            once, complaint = printed(cleave_opt, block[1])
            if once is None or printed(cleave_opt, once)[0] != once:
                line = text.count("\n", 0, block.start()) + 1
                print(f"{page.name}:{line}: {complaint or 'does not read back as it was printed'}")
                wrong += 1
    if not found:
        print("no ```mlir block in", *pages)
    sys.exit(wrong > 0 or not found)


main()
