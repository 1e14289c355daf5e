"""What other processes do to a run: those that are none of it end alone, and what they send does no harm."""

import json
import os
import re
import resource
import signal
import socket
import struct
import subprocess
import sys

import pytest
from safetensors.torch import load_file
from torch.distributed import PrefixStore, TCPStore

from conftest import cleave
from forged import GROUP, MEETING, PREFIX, VALUES, ForgedRank, call_message, float_tensor, values_message
from launching import (FOREVER, Processes, fill_errors, free_port, plain_environment, plans, same_bits, strike,  # noqa: F401
                       wait_until_joining, wait_until_running, watch_end)

# Runs that share a port -----------------------------------------------------------------------------------------------


def at_port(port, **more):
    return {"MASTER_PORT": str(port), **more}


def ended_alone(processes, rank):
    """The one line that it says."""
    return watch_end(processes, processes.started, [rank], 60).messages[rank]


def test_a_run_that_holds_its_port(plans, tmp_path):
    """It finishes, whatever comes to its port."""
    plan, inputs = plans("pp=2")
    cleave("run", plan, "--inputs", inputs, "--outputs", tmp_path / "expected.safetensors",
           env={**plain_environment(), "OMP_NUM_THREADS": "1"})
    outputs = tmp_path / "outputs.safetensors"
    with Processes(2, plan, "--inputs", inputs, "--outputs", outputs, "--repeat", 20, "--timeout", 120) as run:
        wait_until_joining(run)
        # It cannot end before the others have come.
        os.kill(run.running[1].pid, signal.SIGSTOP)
        place, port = f"127.0.0.1:{run.port}", at_port(run.port)
        with Processes(2, plan, "--inputs", inputs, "--timeout", 60, environment=port) as second, \
             Processes(3, plan, "--inputs", inputs, ranks=[2], environment=port) as larger, \
             socket.create_connection(("127.0.0.1", run.port)) as stranger:
            stranger.sendall(os.urandom(4096))
            assert f"cannot hold the store at {place}" in ended_alone(second, 0)
            assert f"another process is rank 1 of the run at {place} (process {run.running[1].pid}, on " in ended_alone(second, 1)
            # The plan has two ranks, of which it is told before it looks for others.
            assert "plan was compiled for 2 ranks" in ended_alone(larger, 2)
        os.kill(run.running[1].pid, signal.SIGCONT)
        ended = run.end()
    assert all(end.status == 0 and not end.err for end in ended.values()), ended
    assert same_bits(load_file(outputs), load_file(tmp_path / "expected.safetensors"))


def test_a_rank_that_comes_late(plans):
    """After the others have given up."""
    plan, inputs = plans("pp=2")
    port = free_port()
    for rank, said in [(0, "rank 1 has not started within 1 s"), (1, f"found no store at 127.0.0.1:{port} ")]:
        with Processes(2, plan, "--inputs", inputs, "--timeout", 1, ranks=[rank], environment=at_port(port)) as late:
            assert said in ended_alone(late, rank)


def test_runs_that_follow_one_another_at_an_agents_store(plans):
    """As in a script that torchrun starts."""
    plan, inputs = plans("pp=2")
    port = free_port()
    agent = subprocess.Popen([sys.executable, "-c", AGENT, str(port)], stdout=subprocess.PIPE, text=True, env=plain_environment())
    try:
        assert agent.stdout.readline() == "there\n"
        for _ in range(2):
            with Processes(2, plan, "--inputs", inputs, environment=at_port(port, TORCHELASTIC_USE_AGENT_STORE="True")) as run:
                ended = run.end()
            assert all(end.status == 0 and not end.err for end in ended.values()), ended
    finally:
        agent.kill()
        agent.wait()


AGENT = """
import sys, time
from torch.distributed import TCPStore
store = TCPStore("127.0.0.1", int(sys.argv[1]), is_master=True, wait_for_workers=False)
print("there", flush=True)
time.sleep(600)
"""

# What strangers and others leave of a rank -------------------------------------------------------------------------------


def test_strangers_take_no_descriptors(plans):
    """As many as there may be are there for a rank, and those who do not say who they are do not keep them."""
    plan, inputs = plans("pp=2")
    few = 128
    with Processes(2, plan, "--inputs", inputs, *FOREVER,
                   preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (64, few))) as run:
        wait_until_joining(run)
        assert resource.prlimit(run.running[0].pid, resource.RLIMIT_NOFILE) == (few, few)
        word = PrefixStore(PREFIX, TCPStore("127.0.0.1", run.port, is_master=False)).get("run").decode().split(" ")
        strangers = [socket.create_connection((word[3], int(word[4]))) for _ in range(2 * few)]
        wait_until_running(run)
        for stranger in strangers:
            stranger.close()


@pytest.mark.parametrize("victim, blow, status", [(1, signal.SIGKILL, 1), (0, signal.SIGTERM, -signal.SIGTERM)],
                         ids=["another dies", "SIGTERM"])
def test_errors_that_nobody_reads(plans, victim, blow, status):
    plan, inputs = plans("pp=2")
    with Processes(2, plan, "--inputs", inputs, *FOREVER) as run:
        wait_until_running(run)
        fill_errors(run.running[0])
        strike(run, victim, blow)
        assert run.running[0].wait(timeout=60) == status


# No more threads after so many.
FEW_THREADS = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
static int made;
int pthread_create(pthread_t *thread, const pthread_attr_t *how, void *(*work)(void *), void *with) {
  int (*create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *) = dlsym(RTLD_NEXT, "pthread_create");
  return __sync_fetch_and_add(&made, 1) >= atoi(getenv("THREADS")) ? EAGAIN : create(thread, how, work, with);
}
"""


def wait_until_looking(run):
    """Until a rank looks for the store of a rank 0 that has not started. It goes on looking."""
    with socket.create_server(("127.0.0.1", run.port)) as listener:
        listener.settimeout(60)
        listener.accept()[0].close()


# While it joins the others, connects with them, loads, and begins to answer them.
@pytest.mark.parametrize("threads", [3, 5, 8, 10])
@pytest.mark.parametrize("short", [0, 1])
def test_a_rank_that_gets_no_threads(short, threads, plans, tmp_path):
    """It says so, and the others which one it is, if there was a run that they could join."""
    plan, inputs = plans("pp=2")
    library = tmp_path / "few.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", library, "-ldl"], input=FEW_THREADS, text=True, check=True)
    own = {short: ({"LD_PRELOAD": str(library), "THREADS": str(threads)}, ())}
    with Processes(2, plan, "--inputs", inputs, "--timeout", 15, ranks=[1 - short]) as run:
        # A rank that comes after the short one has ended hears nothing of it.
        (wait_until_looking if short == 0 else wait_until_joining)(run)
        with Processes(2, plan, "--inputs", inputs, ranks=[short], own=own, environment=at_port(run.port)) as other:
            said, heard = ended_alone(other, short), ended_alone(run, 1 - short)
    expected = rf"rank {short}: (no connections with all of them: )?cannot start a thread; "
    assert re.match(expected, said), (said, heard)
    # Other threads of rank 0 may have been the last that it got before it announces the run.
    without = f"rank 1 cannot join the others: found no store at 127.0.0.1:{run.port} "
    assert re.match(expected, heard) or short == 0 and heard.startswith(without), (said, heard)


# What a rank says -----------------------------------------------------------------------------------------------------


def limit_memory():
    """Far less than what messages name, and enough for all that is there."""
    resource.setrlimit(resource.RLIMIT_DATA, (8 << 30, 8 << 30))


def said_of(plans, mesh, forged_rank, hostile):
    """What the real rank ends with, where the other one does `hostile(forged)`."""
    plan, inputs = plans(mesh)
    real = 1 - forged_rank
    with Processes(2, plan, "--inputs", inputs, "--timeout", 30, ranks=[real], preexec_fn=limit_memory) as processes:
        forged = ForgedRank(forged_rank, processes.port)
        forged.inputs = [tensor.shape for tensor in load_file(inputs).values()]
        try:
            hostile(forged)
        except RuntimeError as error:
            # It may have gone before it has taken all.
            assert "Connection" in str(error) or "closed" in str(error), error
        return watch_end(processes, processes.started, [real], 90).messages[real]


def until_values(forged):
    forged.open()
    forged.agree()
    forged.tell_inputs(json.dumps([{"dtype": 4, "sizes": list(sizes)} for sizes in forged.inputs]).encode())


def sends_values(*messages):
    def hostile(forged):
        until_values(forged)
        for message in messages:
            forged.send(VALUES, message)
    return hostile


NONE, HUGE = b"\0", 1 << 60


@pytest.mark.parametrize("hostile, said", [
    (sends_values(*values_message(5 * NONE)), r"found more values than the \d that are expected"),
    (sends_values(*values_message(b"")), r"found 0 values of rank 0, expected \d"),
    (sends_values(*values_message(2_000_000 * NONE)), r"found more values than the \d that are expected"),
    (sends_values(struct.pack("<QQ", HUGE, 0)), f"found a header of {HUGE} bytes, expected at most 4194304"),
    (sends_values(*values_message(float_tensor(1 << 20, 1 << 20), 4 << 40)), r"found tensors of more than the \d+ bytes"),
    (sends_values(*values_message(b"\xc8")), "found a value of an unknown kind"),
    (lambda forged: forged.open(b"cpu:0 \ncpu:1 \ncpu:2 "), "found the devices of 3 ranks at rank 0, expected those of 2"),
    (lambda forged: (forged.receive_text(), forged.send(MEETING, struct.pack("<Q", HUGE))),
     f"a message of rank 0: found a text of {HUGE} bytes, expected at most 16777216"),
    (lambda forged: (forged.open(), forged.agree(), forged.tell_inputs(b"[null]")), "a message of rank 0: found no description of inputs"),
    (lambda forged: (forged.open(), forged.agree(), forged.tell_inputs(200_000 * b"[")), "a message of rank 0: found no description of inputs"),
    (lambda forged: forged.run.set("failed", "\033[2J\n" + "x" * (1 << 20)), r"\\x1b\[2J\\x0axxx"),
], ids=["values", "no value", "many values", "header", "tensor", "kind", "devices", "text", "inputs", "deep inputs", "failure"])
def test_a_forged_rank_0(hostile, said, plans):
    message = said_of(plans, "pp=2", 0, hostile)
    assert re.search(said, message) and message.isprintable() and len(message) < 100_000, message[:1000]
    assert "rank 0" in message or "x1b" in message, message


def calls(message):
    def hostile(forged):
        until_values(forged)
        forged.receive(GROUP, 64 << 10)
        forged.send(GROUP, message)
    return hostile


@pytest.mark.parametrize("mesh, hostile, said", [
    ("tp=2", calls(call_message(counts=(0, 4, (1 << 63) - 1))), "a message of rank 1: found another message than a call of the group"),
    ("tp=2", calls(call_message(dtype=200)), "a message of rank 1: found another message than a call of the group"),
    ("tp=2", calls(call_message(operation=1, dim=0, sizes=(4, ), pieces=2700 * (0, 0, 1))),
     "rank 1 calls all_gather of .*; expected the same call on all ranks of a group"),
    ("tp=2", calls(b"x" * (1 << 17)), "rank 0: libtorch cannot go on: .*Received data size"),
    ("pp=2", lambda forged: forged.send(MEETING, b"x" * 100_000), "rank 0: libtorch cannot go on: .*Received data size"),
    ("pp=2", lambda forged: (forged.open(), forged.agree(b"\033]0;owned\a")), r"rank 1 was given \\x1b\]0;owned\\x07, rank 0 --repeat 1"),
    ("pp=2", lambda forged: forged.liveness.sendall(b"?rank 1: \033[2J\n"), r"rank 1: \\x1b\[2J"),
    ("pp=2", lambda forged: forged.liveness.close(), "^(rank 0 cannot join the others: )?rank 1 has died"),
], ids=["counts", "type", "pieces", "size", "size at first", "options", "failure", "death"])
def test_a_forged_rank_1(mesh, hostile, said, plans):
    message = said_of(plans, mesh, 1, hostile)
    assert re.search(said, message) and message.isprintable(), message[:1000]
