"""What becomes of a run of several processes when something happens to one of them: all end, soon, and say why.

`make faults` writes how long that takes to docs/reliability.md.
"""

import os
import re
import resource
import signal
import subprocess
import sys
import time

import pytest
from safetensors.torch import load_file, save_file

from conftest import everything_below
from launching import (END, FOREVER, HANG, NOTICE, SLACK, Processes, Table, free_port, plain_environment, plans,  # noqa: F401
                       ranks_of, strike, wait_until_joining, wait_until_running, watch_end)

TABLE = Table("faults")
note = TABLE.note


@pytest.fixture(scope="module", autouse=True)
def table():
    yield
    TABLE.write()


def started(plans, mesh, folder, *more, **options):
    plan, inputs = plans(mesh)
    return Processes(ranks_of(mesh), plan, "--inputs", inputs, "--outputs", folder / "outputs.safetensors", *more, **options)


def others_of(processes, victim):
    return [rank for rank in processes.running if rank != victim]


# Death --------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mesh, victim", [("pp=2", 0), ("pp=2", 1), ("tp=2", 1), ("pp=2,tp=2", 0), ("pp=2,tp=2", 3), ("pp=4", 2),
                                          ("dp=2,pp=2", 1)])
@pytest.mark.parametrize("blow", [signal.SIGKILL, signal.SIGSEGV])
def test_death_in_the_middle(blow, mesh, victim, plans, tmp_path):
    with started(plans, mesh, tmp_path, *FOREVER) as processes:
        wait_until_running(processes)
        since = strike(processes, victim, blow)
        outcome = watch_end(processes, since, others_of(processes, victim), NOTICE + END + SLACK)
    for message in outcome.messages.values():  # who, where, and at what
        assert re.match(rf"rank {victim} has died; last known status: rank {victim} (\(stage \d: \S+|is between requests)", message), message
    # The first that was told to the store; with rank 0 that is gone.
    assert victim == 0 or len(set(outcome.messages.values())) == 1, outcome.messages
    assert not list(tmp_path.iterdir())
    note(blow.name, "in the middle", f"{mesh}, rank {victim}", NOTICE, outcome)


@pytest.mark.parametrize("delay", [0.0, 0.1, 0.2, 0.3, 0.5, 1.0])
@pytest.mark.parametrize("victim", [0, 1])
def test_death_at_the_start(victim, delay, plans, tmp_path):
    """Whoever dies before it has come to the store has, as far as others can see, never started."""
    timeout = 5
    with started(plans, "pp=2", tmp_path, *FOREVER, "--timeout", timeout) as processes:
        time.sleep(delay)
        since = strike(processes, victim, signal.SIGKILL)
        outcome = watch_end(processes, since, [1 - victim], timeout + HANG + END + SLACK)
    message = outcome.messages[1 - victim]
    never = "found no store at 127.0.0.1:" if victim == 0 else "rank 1 has not started within 5 s"
    is_never = never in message
    assert is_never or f"rank {victim} has died" in message or "lost the store at " in message, message
    assert not list(tmp_path.iterdir())
    note("SIGKILL", f"{delay:.1f} s after the start" + (", before it has come to the store" if is_never else ""),
         f"pp=2, rank {victim}", timeout + HANG if is_never else NOTICE, outcome)


def test_death_while_others_are_awaited(plans, tmp_path):
    """Rank 2 never comes: that rank 1 is gone is seen while the others still wait."""
    plan, inputs = plans("pp=4")
    for victim, waiting in [(1, [0, 3]), (0, [1, 3])]:
        with Processes(4, plan, "--inputs", inputs, "--timeout", 60, ranks=[0, 1, 3]) as processes:
            wait_until_joining(processes)
            since = strike(processes, victim, signal.SIGKILL)
            outcome = watch_end(processes, since, waiting, NOTICE + END + SLACK)
        for rank, message in outcome.messages.items():
            assert message.startswith(f"rank {rank} cannot join the others: rank {victim} has died"), message
        note("SIGKILL", "while another has not started", f"pp=4, rank {victim}", NOTICE, outcome)


@pytest.mark.parametrize("victim", [0, 1])
def test_death_at_the_end(victim, plans, tmp_path):
    """The outputs are complete or absent, whenever that is."""
    timeout = 5
    steps = ("--repeat", 5, "--timeout", timeout)
    with started(plans, "pp=2", tmp_path, *steps) as processes:
        took = max(end.seconds for end in processes.end().values())
    expected = load_file(tmp_path / "outputs.safetensors")
    for early in (0.4, 0.2, 0.1, 0.05, 0.0):
        folder = tmp_path / f"{early}"
        folder.mkdir()
        with started(plans, "pp=2", folder, *steps) as processes:
            time.sleep(max(took - early, 0))
            since = strike(processes, victim, signal.SIGKILL)
            other = processes.running[1 - victim]
            # On a slow machine this may be before rank 0 has come to the store.
            status = other.wait(timeout=timeout + HANG + END + SLACK)
            out, err = other.communicate()
        assert status in (0, 1) and (status == 0) == (err == ""), (status, err)
        if " cannot join the others: " not in err:
            assert time.monotonic() - since <= NOTICE + END + SLACK
        files = [path.name for path in folder.iterdir()]
        assert files in ([], ["outputs.safetensors"]), files
        if files:
            found = load_file(folder / files[0])
            assert all(found[name].equal(tensor) for name, tensor in expected.items())


# What hangs ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mesh, victim", [("pp=2", 0), ("pp=2", 1), ("tp=2", 1), ("pp=2,tp=2", 2)])
def test_a_stopped_process(mesh, victim, plans, tmp_path):
    timeout = 3
    with started(plans, mesh, tmp_path, *FOREVER, "--timeout", timeout) as processes:
        wait_until_running(processes)
        since = strike(processes, victim, signal.SIGSTOP)
        outcome = watch_end(processes, since, others_of(processes, victim), timeout + HANG + END + SLACK)
        # It ends, too, as soon as it can.
        os.kill(processes.running[victim].pid, signal.SIGCONT)
        assert processes.running[victim].wait(timeout=NOTICE + END + SLACK) == 1
    for message in outcome.messages.values():
        assert f"no result after {timeout} s: " in message or f"has waited {timeout} s" in message, message
        assert re.search(rf"rank {victim} .*(no sign of life|does not answer)", message), message
    assert not list(tmp_path.iterdir())
    note("SIGSTOP", f"in the middle, --timeout {timeout}", f"{mesh}, rank {victim}", timeout + HANG, outcome)


@pytest.mark.parametrize("delay", [0.1, 0.3, 0.5])
@pytest.mark.parametrize("victim", [0, 1])
def test_a_process_that_is_stopped_at_the_start(victim, delay, plans, tmp_path):
    timeout = 3
    with started(plans, "pp=2", tmp_path, *FOREVER, "--timeout", timeout) as processes:
        time.sleep(delay)
        since = strike(processes, victim, signal.SIGSTOP)
        outcome = watch_end(processes, since, [1 - victim], timeout + HANG + END + SLACK)
    assert not list(tmp_path.iterdir())
    note("SIGSTOP", f"{delay:.1f} s after the start, --timeout {timeout}", f"pp=2, rank {victim}", timeout + HANG, outcome)


def test_a_rank_that_never_starts(plans, tmp_path):
    timeout = 2
    plan, inputs = plans("pp=2")
    for present, message in [(0, "rank 1 has not started within 2 s"), (1, "found no store at 127.0.0.1:")]:
        with Processes(2, plan, "--inputs", inputs, "--timeout", timeout, ranks=[present]) as processes:
            outcome = watch_end(processes, processes.started, [present], timeout + HANG + END + SLACK)
        assert message in outcome.messages[present], outcome.messages
        note("never started", f"--timeout {timeout}", f"pp=2, rank {1 - present}", timeout + HANG, outcome)


def test_a_rank_that_is_slow_but_in_time(plans, tmp_path):
    """No false alarm: it stands still for longer than the others take for all they do, and not for the deadline."""
    with started(plans, "pp=2", tmp_path, "--repeat", 400, "--timeout", 60) as processes:
        wait_until_running(processes)
        for _ in range(3):
            strike(processes, 1, signal.SIGSTOP)
            time.sleep(3)
            assert processes.running[0].poll() is None
            strike(processes, 1, signal.SIGCONT)
            time.sleep(0.1)
        ended = processes.end()
    assert all(end.status == 0 for end in ended.values()), ended


def test_a_rank_that_loads_slowly(plans, tmp_path):
    """For longer than others are waited for that neither come nor move on."""
    library = tmp_path / "slow.so"
    source = "#include <unistd.h>\n__attribute__((constructor)) static void load(void) { sleep(10); }\n"
    subprocess.run(["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", library], input=source, text=True, check=True)
    plan, inputs = plans("pp=2")
    own = {0: ({}, ()), 1: ({}, ("--library", library))}
    with Processes(2, plan, "--inputs", inputs, "--timeout", 8, own=own) as processes:
        ended = processes.end()
    assert all(end.status == 0 and not end.err for end in ended.values()), ended


def test_a_rank_that_falls_behind(plans, tmp_path):
    """It works on, so slowly that nothing is there at the deadline."""
    timeout = 3
    with started(plans, "pp=2", tmp_path, *FOREVER, "--timeout", timeout) as processes:
        wait_until_running(processes)
        since, slow = time.monotonic(), processes.running[1]
        # Half a millisecond of work in two seconds: a step takes many.
        crawl = subprocess.Popen([sys.executable, "-c", CRAWL, str(slow.pid)])
        try:
            outcome = watch_end(processes, since, [0], timeout + HANG + END + SLACK)
        finally:
            crawl.kill()
            crawl.wait()
            slow.send_signal(signal.SIGCONT)
        assert slow.wait(timeout=NOTICE + END + SLACK) == 1
    assert f"no result after {timeout} s: " in outcome.messages[0], outcome.messages
    note("slow", f"in the middle, --timeout {timeout}", "pp=2, rank 1", timeout + HANG, outcome)


CRAWL = """
import os, signal, sys, time
while True:
    os.kill(int(sys.argv[1]), signal.SIGSTOP)
    time.sleep(1)
    os.kill(int(sys.argv[1]), signal.SIGCONT)
    time.sleep(0.0005)
"""


# What is wrong on one rank only -----------------------------------------------------------------------------------------------


def test_another_plan(plans, tmp_path):
    plan, inputs = plans("pp=2")
    other, _ = plans("tp=2")
    with Processes(2, "--inputs", inputs, own={0: ({}, (plan,)), 1: ({}, (other,))}) as processes:
        outcome = watch_end(processes, processes.started, [0, 1], 30)
    for message in outcome.messages.values():
        assert re.search(r"found another plan at rank 1 \(\w{12}, on \S+\) than at rank 0 \(\w{12}, on \S+\); give all", message)
    assert len(set(message.split(": ", 1)[1] for message in outcome.messages.values())) == 1
    note("another plan", "from the start", "pp=2, rank 1", NOTICE + 3, outcome)


@pytest.mark.parametrize("options, said", [
    (("--outputs", "o.safetensors"), "rank 1 was given --repeat 1, rank 0 --repeat 1 --outputs; give all ranks the same options"),
    (("--repeat", "3"), "rank 1 was given --repeat 1, rank 0 --repeat 3; give all ranks the same options"),
    (("--stream",), "rank 1 was given --repeat 1, rank 0 --repeat 1 --stream; give all ranks the same options"),
    (("--check-types",), "rank 1 was given --repeat 1, rank 0 --repeat 1 --check-types; give all ranks the same options"),
    (("--autocast", "bf16"), "rank 1 was given --repeat 1, rank 0 --repeat 1 --autocast bf16; give all ranks the same options"),
])
def test_other_options(options, said, plans, tmp_path):
    plan, inputs = plans("pp=2")
    with Processes(2, plan, "--inputs", inputs, own={0: ({}, options), 1: ({}, ())}, cwd=tmp_path) as processes:
        outcome = watch_end(processes, processes.started, [0, 1], 30)
    assert set(outcome.messages.values()) == {said}
    assert not list(tmp_path.iterdir())


def test_inputs_that_one_rank_lacks(plans, tmp_path):
    plan, inputs = plans("tp=2")
    own = {0: ({}, ("--inputs", inputs)), 1: ({}, ("--inputs", tmp_path / "nowhere"))}
    with Processes(2, plan, own=own) as processes:
        outcome = watch_end(processes, processes.started, [0, 1], 30)
    assert outcome.messages[0] == outcome.messages[1]
    assert outcome.messages[0].startswith("rank 1: cannot read '") and "nowhere" in outcome.messages[0]


def test_a_damaged_shard(plan, tiny_model, tmp_path):
    shard = plan / "rank-001.safetensors"
    damaged = bytearray(shard.read_bytes())
    damaged[-1] ^= 1
    shard.write_bytes(damaged)
    with Processes(2, plan, "--inputs", tiny_model("gpt2").inputs) as processes:
        outcome = watch_end(processes, processes.started, [0, 1], 30)
    assert outcome.messages[0] == outcome.messages[1]
    assert outcome.messages[0].startswith("rank 1: ") and "rank-001.safetensors" in outcome.messages[0], outcome.messages


def test_an_operator_that_fails(plans, tmp_path):
    plan, inputs = plans("pp=2")
    wrong = tmp_path / "wrong.safetensors"
    save_file({name: tensor + 100000 for name, tensor in load_file(inputs).items()}, wrong)
    before = everything_below(tmp_path)
    with Processes(2, plan, "--inputs", wrong, "--outputs", tmp_path / "outputs.safetensors") as processes:
        outcome = watch_end(processes, processes.started, [0, 1], 30)
    assert outcome.messages[0] == outcome.messages[1]
    assert outcome.messages[0].startswith("rank 0 (stage 0): transformer.wte: aten::embedding: "), outcome.messages
    assert everything_below(tmp_path) == before


def test_outputs_that_cannot_be_written(plans, tmp_path):
    with started(plans, "pp=2", tmp_path / "nowhere") as processes:
        outcome = watch_end(processes, processes.started, [0, 1], 60)
    assert outcome.messages[0] == outcome.messages[1]
    assert "nowhere" in outcome.messages[0]


def limit_file_size():
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))


def test_outputs_that_have_no_room(plans, tmp_path):
    """A limit on the size of files, as a quota is."""
    with started(plans, "pp=2", tmp_path, preexec_fn=limit_file_size) as processes:
        outcome = watch_end(processes, processes.started, [0, 1], 60)
    assert outcome.messages[0] == outcome.messages[1]
    assert "File too large" in outcome.messages[0], outcome.messages
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(os.geteuid() != 0, reason="A full disk needs root: it mounts a small file system")
def test_a_full_disk(plans, tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "cleave-test", str(disk)], capture_output=True, text=True)
    if mounted.returncode != 0:
        pytest.skip(f"A full disk needs leave to mount file systems: {mounted.stderr.strip()}")
    try:
        with started(plans, "pp=2", disk) as processes:
            outcome = watch_end(processes, processes.started, [0, 1], 60)
        assert outcome.messages[0] == outcome.messages[1]
        assert "No space left on device" in outcome.messages[0], outcome.messages
        assert not list(disk.iterdir())
    finally:
        subprocess.run(["umount", str(disk)], check=True)


# The store ------------------------------------------------------------------------------------------------------------------

AGENT = """
import sys, time
from torch.distributed import TCPStore
store = TCPStore("127.0.0.1", int(sys.argv[1]), is_master=True, wait_for_workers=False)
print("there", flush=True)
time.sleep(600)
"""


@pytest.fixture
def agent():
    """torchrun's: a process beside the ranks that holds the store, and what tells the ranks of it."""
    port = free_port()
    process = subprocess.Popen([sys.executable, "-c", AGENT, str(port)], stdout=subprocess.PIPE, text=True, env=plain_environment())
    try:
        assert process.stdout.readline() == "there\n"
        yield process, {"MASTER_PORT": str(port), "TORCHELASTIC_USE_AGENT_STORE": "True"}
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("when", ["at the start", "in the middle"])
def test_the_store_is_killed(when, plans, agent, tmp_path):
    process, variables = agent
    # At the start a rank is missing, so that the others wait at the store.
    ranks = [0, 1] if when == "in the middle" else [0]
    with started(plans, "pp=2", tmp_path, *FOREVER, ranks=ranks, environment=variables) as processes:
        if when == "in the middle":
            wait_until_running(processes)
        else:
            wait_until_joining(processes)
        since = time.monotonic()
        process.kill()
        outcome = watch_end(processes, since, ranks, NOTICE + END + SLACK)
    for message in outcome.messages.values():
        assert f"lost the store at 127.0.0.1:{variables['MASTER_PORT']}" in message, message
    note("store killed", when, "pp=2", NOTICE, outcome)


def test_the_store_is_stopped(plans, agent, tmp_path):
    """What does not need it goes on; who then fails does not wait for it."""
    timeout = 3
    process, variables = agent
    with started(plans, "pp=2", tmp_path, *FOREVER, "--timeout", timeout, environment=variables) as processes:
        wait_until_running(processes)
        process.send_signal(signal.SIGSTOP)
        time.sleep(1)
        since = strike(processes, 1, signal.SIGKILL)
        outcome = watch_end(processes, since, [0], NOTICE + END + SLACK)
        process.send_signal(signal.SIGCONT)
    assert outcome.messages[0].startswith("rank 1 has died; "), outcome.messages
    note("SIGKILL", "while the store does not answer", "pp=2, rank 1", NOTICE + 1, outcome)


def test_the_store_is_stopped_at_the_start(plans, agent, tmp_path):
    """It has been found, and that is not what is said to be missing."""
    process, variables = agent
    with started(plans, "pp=2", tmp_path, *FOREVER, "--timeout", 3, ranks=[0], environment=variables) as processes:
        wait_until_joining(processes)
        process.send_signal(signal.SIGSTOP)
        outcome = watch_end(processes, processes.started, [0], 60)
        process.send_signal(signal.SIGCONT)
    assert f"the store at 127.0.0.1:{variables['MASTER_PORT']} has stopped answering" in outcome.messages[0], outcome.messages


def test_the_store_is_stopped_before_the_end(plans, agent, tmp_path):
    """What is done is done: nobody waits for the store to take leave."""
    process, variables = agent
    with started(plans, "pp=2", tmp_path, "--repeat", 400, environment=variables) as processes:
        wait_until_running(processes)
        process.send_signal(signal.SIGSTOP)
        ended = processes.end(timeout=60)
        process.send_signal(signal.SIGCONT)
    assert all(end.status == 0 and not end.err for end in ended.values()), ended
    assert load_file(tmp_path / "outputs.safetensors")
