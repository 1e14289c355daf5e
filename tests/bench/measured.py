"""What one command takes: seconds, CPU seconds and memory, those of its children with it."""

import os
import subprocess
import sys
import tempfile
import time


def run(command):
    with tempfile.TemporaryFile("w+") as out:
        start = time.perf_counter()
        child = subprocess.Popen([str(word) for word in command], stdout=out)
        _, status, usage = os.wait4(child.pid, 0)
        wall = time.perf_counter() - start
        if status != 0:
            sys.exit(f"{command[2]}: cleave {command[1]} ended with status {os.waitstatus_to_exitcode(status)}")
        out.seek(0)
        # Of the largest of the processes.
        return {"out": out.read(), "cpu": usage.ru_utime + usage.ru_stime, "wall": wall, "peak": usage.ru_maxrss << 10}
