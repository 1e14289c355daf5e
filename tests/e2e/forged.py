"""A process that joins a run of `cleave run` as one of its ranks and then says what it likes."""

import datetime
import os
import socket
import struct

import torch
from torch.distributed import PrefixStore, ProcessGroupGloo, TCPStore

# runtime/comm/Transport.h
VALUES, OUTPUTS, GROUP, MEETING, ORDERS = range(5)
PREFIX = "cleave//0/0"
PIECE = 1 << 20


def tensor_of(data):
    return torch.frombuffer(bytearray(data), dtype=torch.uint8) if data else torch.empty(0, dtype=torch.uint8)


class ForgedRank:
    """Rank `rank` of 2, of which the other one is real. Rank 0 holds the store."""

    def __init__(self, rank, port, seconds=60):
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
        self.rank, self.other = rank, 1 - rank
        self.store = TCPStore("127.0.0.1", port, is_master=rank == 0, wait_for_workers=False,
                              timeout=datetime.timedelta(seconds=seconds))
        root = PrefixStore(PREFIX, self.store)
        self.word = "0123456789abcdef"
        if rank == 0:
            self.listener = socket.create_server(("127.0.0.1", 0))
            root.set("run", f"2 forged 1 127.0.0.1 {self.listener.getsockname()[1]} {self.word}")
        else:
            *_, address, liveness, self.word = root.get("run").decode().split(" ")
        self.run = PrefixStore(f"{PREFIX}/{self.word}", self.store)
        if rank == 1:
            assert self.run.compare_set("owner/1", "", "forged 1 1") == b"forged 1 1"
            self.liveness = socket.create_connection((address, int(liveness)))
            self.liveness.sendall(f"{self.word}{rank:08x}".encode())
        self.run.set(f"beat/{rank}", "1 is forged")
        self.run.set(f"come/{rank}", self.run.get(f"come/{self.other}"))
        self.group = ProcessGroupGloo(self.run, rank, 2, datetime.timedelta(seconds=seconds))

    def send(self, tag, data):
        self.group.send([tensor_of(data)], self.other, tag).wait()

    def receive(self, tag, room):
        tensor = torch.zeros(room, dtype=torch.uint8)
        self.group.recv([tensor], self.other, tag).wait()
        return tensor.numpy().tobytes()

    def send_text(self, text):
        self.send(MEETING, struct.pack("<Q", len(text)))
        for begin in range(0, len(text), PIECE):
            self.send(MEETING, text[begin:begin + PIECE])

    def receive_text(self):
        size, = struct.unpack("<Q", self.receive(MEETING, 8))
        return self.receive(MEETING, size) if size else b""

    def gather(self, own):
        """What all ranks say, at rank 0."""
        if self.rank == 1:
            return self.send_text(own)
        return [own, self.receive_text()]

    def share(self, text):
        """What rank 0 says."""
        if self.rank == 1:
            return self.receive_text()
        self.send_text(text)
        return text

    def meet(self):
        self.gather(b"")
        self.share(b"")

    def open(self, devices=None):
        """Until the session is open; `devices` is what rank 0 says that they are."""
        texts = self.gather(f"cpu:{self.rank} ".encode())
        self.share(devices or (b"\n".join(texts) if texts else b""))
        self.meet()

    def agree(self, options=b"--repeat 1"):
        self.gather(options)
        self.meet()

    def tell_inputs(self, described=None):
        texts = self.gather(b"")
        self.share(described or (texts[1] if texts else b""))


def values_message(header, blocks=0):
    """The first message of values, and the second one of those whose header is long."""
    sizes = struct.pack("<QQ", len(header), blocks)
    return [sizes + header] if len(header) + 16 <= 64 << 10 else [sizes, header]


def float_tensor(*sizes):
    """As SerializedValues.cpp writes it."""
    strides = [1] * len(sizes)
    for dim in range(len(sizes) - 2, -1, -1):
        strides[dim] = strides[dim + 1] * sizes[dim + 1]
    return struct.pack(f"<BBBBQ{2 * len(sizes)}q", 1, 6, 0, 0, len(sizes), *sizes, *strides)


def call_message(operation=0, dtype=6, dim=-1, other=-1, inlined=-1, sizes=(), pieces=(), ranges=(), counts=None):
    """A call of a tensor group, as PeerGroup.cpp writes it."""
    counts = counts or (len(sizes), len(pieces), len(ranges))
    return struct.pack("<BB6x6q", operation, dtype, dim, other, inlined, *counts) + b"".join(
        struct.pack("<q", number) for number in (*sizes, *pieces, *ranges))
