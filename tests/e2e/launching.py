"""Several processes of `cleave run`, one a rank, as a launcher would start them."""

import dataclasses
import os
import socket
import subprocess
import time

from conftest import BIN

# What a launcher may have set in the environment of the tests.
LAUNCHERS = ("RANK", "WORLD_SIZE", "LOCAL_", "MASTER_", "SLURM_", "OMPI_", "PMI_", "PMIX_", "TORCHELASTIC_")


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def plain_environment():
    return {name: value for name, value in os.environ.items() if not name.startswith(LAUNCHERS)}


@dataclasses.dataclass
class Ended:
    status: int
    out: str
    err: str
    seconds: float


class Processes:
    """Starts `cleave run` as ranks of `size`; `own[rank]` are a rank's environment and arguments besides those of all."""

    def __init__(self, size, *arguments, own=None, ranks=None, environment=None):
        self.port = free_port()
        self.started = time.monotonic()
        self.running = {}
        own = own or {}
        for rank in range(size) if ranks is None else ranks:
            variables, more = own.get(rank, ({}, ()))
            settings = {**plain_environment(), "OMP_NUM_THREADS": "1", "RANK": str(rank), "WORLD_SIZE": str(size),
                        "LOCAL_WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(self.port),
                        **(environment or {}), **variables}
            command = [str(BIN / "cleave"), "run", *map(str, arguments), *map(str, more)]
            self.running[rank] = subprocess.Popen(command, env=settings, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                                  text=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.running.values():
            process.kill()
            process.wait()

    def end(self, timeout=120):
        """How each has ended, by rank."""
        ended = {}
        waiting = dict(self.running)
        while waiting and time.monotonic() < self.started + timeout:
            for rank, process in list(waiting.items()):
                if process.poll() is not None:
                    seconds = time.monotonic() - self.started
                    out, err = process.communicate()
                    ended[rank] = Ended(process.returncode, out, err, seconds)
                    del waiting[rank]
            time.sleep(0.01)
        assert not waiting, f"still running: ranks {sorted(waiting)}"
        return ended


def run_ranks(size, *arguments, **options):
    """The outputs of a run that succeeds: what rank 0 has printed. The others print nothing."""
    with Processes(size, *arguments, **options) as processes:
        ended = processes.end()
    assert all(end.status == 0 and not end.err for end in ended.values()), ended
    assert not any(end.out for rank, end in ended.items() if rank > 0), ended
    return ended[0].out
