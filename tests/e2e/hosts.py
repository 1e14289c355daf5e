"""Two machines that are network namespaces of this one.

This wants root, and iproute2's `ip` and `tc`. Delays want the kernel's netem; where it has none, only the rate is limited.
"""

import dataclasses
import os
import shutil
import subprocess

import pytest

from launching import Processes

PORT = "29500"


def ip(*arguments, check=True):
    return subprocess.run(["ip", *arguments], capture_output=True, text=True, check=check)


@dataclasses.dataclass
class Hosts:
    names: list
    devices: list
    first = "10.77.0.1"

    def in_host(self, host, *command):
        return subprocess.run(["ip", "netns", "exec", self.names[host], *command], capture_output=True, text=True)

    def before(self, ranks_per_host):
        return lambda rank: ["ip", "netns", "exec", self.names[rank // ranks_per_host]]

    def processes(self, size, *arguments, **options):
        """Half of the ranks on each."""
        environment = {"MASTER_ADDR": self.first, "MASTER_PORT": PORT, "LOCAL_WORLD_SIZE": str(size // 2)}
        return Processes(size, *arguments, environment=environment, before=self.before(size // 2), **options)

    def shape(self, *discipline):
        """What becomes of packets, on both ways; the kernel's objection."""
        for host, device in enumerate(self.devices):
            done = self.in_host(host, "tc", "qdisc", "replace", "dev", device, "root", *discipline)
            if done.returncode != 0:
                return done.stderr.strip()
        return ""

    def cut(self):
        self.in_host(1, "ip", "link", "set", self.devices[1], "down")


@pytest.fixture
def hosts():
    for tool in ("ip", "tc"):
        if not shutil.which(tool):
            pytest.skip(f"NOT TESTED: runs over two hosts, which are simulated with `{tool}` (apt-get install iproute2)")
    if os.geteuid() != 0:
        pytest.skip("NOT TESTED: runs over two hosts, which are network namespaces: root makes them")
    made = Hosts([f"cleave{os.getpid()}{end}" for end in "ab"], [f"cl{os.getpid()}{end}" for end in "ab"])
    try:
        for name in made.names:
            if ip("netns", "add", name, check=False).returncode != 0:
                pytest.skip("NOT TESTED: runs over two hosts: this machine allows no network namespaces")
        ip("link", "add", made.devices[0], "netns", made.names[0], "type", "veth", "peer", "name", made.devices[1], "netns", made.names[1])
        for host, (name, device) in enumerate(zip(made.names, made.devices)):
            ip("-n", name, "addr", "add", f"10.77.0.{host + 1}/24", "dev", device)
            ip("-n", name, "link", "set", device, "up")
            ip("-n", name, "link", "set", "lo", "up")
        yield made
    finally:
        for name in made.names:
            ip("netns", "del", name, check=False)
