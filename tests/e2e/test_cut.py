"""`cleave cut`: a weighted graph in the benchmark's format, and files that are not quite in it."""

import json
import os
import pathlib
import random
import re
import signal
import subprocess
import time

import pytest
from conftest import BIN, cleave, refused

# Two chains side by side between a source and a sink; the node 30 has the backward mate 31.
LATENCIES = {1: 1, 10: 4, 11: 4, 20: 3, 21: 3, 30: 2}


def graph():
    nodes = [{"id": id, "supportedOnFpga": True, "isBackwardNode": False, "cpuLatency": 10.0 * latency,
              "fpgaLatency": latency, "size": 10, "name": f"n{id}"} for id, latency in LATENCIES.items()]
    nodes[-1]["colorClass"] = 7
    nodes.append({"id": 31, "supportedOnFpga": 1, "isBackwardNode": 1, "cpuLatency": 10, "fpgaLatency": 1,
                  "colorClass": 7})
    edges = [{"sourceId": source, "destId": target, "cost": 0.5}
             for source, target in ((1, 10), (1, 20), (10, 11), (20, 21), (11, 30), (21, 30), (30, 31))]
    return {"maxSizePerFPGA": 1000, "maxFPGAs": 2, "maxCPUs": 0, "nodes": nodes, "edges": edges}


@pytest.fixture
def write(tmp_path):
    def write(content):
        (tmp_path / "graph.json").write_text(content if isinstance(content, str) else json.dumps(content))
    return write


def loads_of(problem, devices):
    """By the definition."""
    device_of = {id: index for index, device in enumerate(devices) for id in device["nodes"]}
    loads = [0.0] * len(devices)
    for node in problem["nodes"]:
        own = device_of[node["id"]]
        loads[own] += node["fpgaLatency"]
        out = [edge for edge in problem["edges"] if edge["sourceId"] == node["id"]]
        crossed = {device_of[edge["destId"]] for edge in out} - {own}
        for payer in crossed | ({own} if crossed else set()):
            loads[payer] += out[0]["cost"]
    return loads


def test_solution(tmp_path, write):
    write(graph())
    result = cleave("cut", "graph.json", "--json", "-o", "solution.json", cwd=tmp_path)
    assert (tmp_path / "solution.json").read_text() == result.out
    solution = result.json()
    # The devices have 9 of latency each, and what crosses costs 0.5 a value.
    assert solution["maxLoad"] == 10 and solution["lowerBound"] == 10 and solution["gap"] == 0 and solution["exact"]
    assert solution["cpus"] == [] and len(solution["fpgas"]) == 2
    assert sorted(id for device in solution["fpgas"] for id in device["nodes"]) == [*LATENCIES, 31]
    assert [device["load"] for device in solution["fpgas"]] == loads_of(graph(), solution["fpgas"])
    # The same file, the same solution.
    assert cleave("cut", "graph.json", "--json", cwd=tmp_path).out == result.out


def test_table(tmp_path, write):
    write(graph())
    lines = cleave("cut", "graph.json", "--objective", "max-load", cwd=tmp_path).out.splitlines()
    assert lines[0].split() == ["device", "load", "nodes", "size"]
    assert lines[1].startswith("accelerator 0") and lines[2].startswith("accelerator 1")
    assert lines[3] == "graph.json: 2 of 2 accelerators, 0 of 0 CPUs"
    assert lines[4].startswith("max load 10, lower bound 10, gap 0.00 %; exact: ")


def test_devices(tmp_path, write):
    write(graph())
    solution = cleave("cut", "graph.json", "--devices", 1, "--json", cwd=tmp_path).json()
    assert solution["maxLoad"] == 18 and len(solution["fpgas"]) == 1
    # Devices that nothing is gained by stay empty, and a CPU is no accelerator.
    write(graph() | {"maxCPUs": 3})
    assert cleave("cut", "graph.json", "--devices", 7, "--json", cwd=tmp_path).json()["maxLoad"] <= 5.5


def test_disconnected(tmp_path, write):
    write(graph() | {"edges": []})
    assert cleave("cut", "graph.json", "--json", cwd=tmp_path).json()["maxLoad"] == 9


def test_an_edge_twice_counts_once(tmp_path, write):
    write(graph())
    once = cleave("cut", "graph.json", "--json", cwd=tmp_path).json()
    write(graph() | {"edges": 2 * graph()["edges"]})
    twice = cleave("cut", "graph.json", "--json", cwd=tmp_path).json()
    assert twice["fpgas"] == once["fpgas"] and twice["maxLoad"] == once["maxLoad"] and twice["lowerBound"] == once["lowerBound"]


def test_too_many_downsets(tmp_path, write):
    nodes = [{"id": id, "supportedOnFpga": 1, "isBackwardNode": 0, "cpuLatency": 9, "fpgaLatency": 1 + id % 4}
             for id in range(60)]
    write({"maxSizePerFPGA": 1, "maxFPGAs": 4, "maxCPUs": 0, "nodes": nodes, "edges": []})
    solution = cleave("cut", "graph.json", "--json", cwd=tmp_path).json()
    assert not solution["exact"] and solution["lowerBound"] == 37.5 <= solution["maxLoad"] <= 40
    assert "; linearised: more than 200,000 downsets" in cleave("cut", "graph.json", cwd=tmp_path).out


def long_chains(chains=4, length=20):
    """Chains side by side whose parts cost much to send: most downsets have to be looked at."""
    random.seed(1)
    nodes = [{"id": chain * length + place, "supportedOnFpga": 1, "isBackwardNode": 0, "cpuLatency": 9e9, "fpgaLatency": random.randint(1, 9),
              "layerId": chain, "name": f"chain {chain}"} for chain in range(chains) for place in range(length)]
    edges = [{"sourceId": node["id"], "destId": node["id"] + 1, "cost": random.randint(1, 30), "size": 4}
             for node in nodes if node["id"] % length < length - 1]
    return {"maxSizePerFPGA": 1, "maxFPGAs": 8, "maxCPUs": 0, "nodes": nodes, "edges": edges}


def wait_for_search(process):
    """Until signals are heard, and a third of a second of work has been done since."""
    facts = pathlib.Path(f"/proc/{process.pid}")
    begun = None
    while True:
        assert process.poll() is None, process.communicate()
        work = sum(map(int, (facts / "stat").read_text().rpartition(")")[2].split()[11:13])) / os.sysconf("SC_CLK_TCK")
        heard = int(re.search(r"SigCgt:\s*(\w+)", (facts / "status").read_text())[1], 16)
        if begun is None and heard >> signal.SIGINT - 1 & 1:
            begun = work
        if begun is not None and work > begun + 0.33:
            return
        time.sleep(0.01)


def interrupted(folder, *options, times=1):
    """Exit status and streams of a search that gets so many SIGINTs."""
    command = [BIN / "cleave", "cut", "graph.json", *options, "-o", "solution.json"]
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_for_search(process)
    for _ in range(times):
        process.send_signal(signal.SIGINT)
        time.sleep(0.001)
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err


def test_the_best_so_far_is_kept(tmp_path, write):
    problem = long_chains()
    write(problem)
    status, out, err = interrupted(tmp_path, "--json")
    assert status == 0 and err == ""
    assert (tmp_path / "solution.json").read_text() == out
    solution = json.loads(out)
    assert not solution["exact"] and 0 < solution["lowerBound"] < solution["maxLoad"]
    assert solution["gap"] == pytest.approx(1 - solution["lowerBound"] / solution["maxLoad"])
    (note,) = solution["notes"]
    assert re.fullmatch(r"interrupted: this is the best so far; none has a max load below [\d.]+, [\d.]+ % less", note)
    assert sorted(id for device in solution["fpgas"] for id in device["nodes"]) == [node["id"] for node in problem["nodes"]]
    assert [device["load"] for device in solution["fpgas"]] == pytest.approx(loads_of(problem, solution["fpgas"]))
    status, out, err = interrupted(tmp_path)
    assert status == 0 and "; not proven: interrupted, " in out and "note: interrupted: " in out


def test_a_second_interrupt_ends_the_command(tmp_path, write):
    write(long_chains())
    # The first one may have ended the search before the second one comes.
    for _ in range(5):
        status, out, err = interrupted(tmp_path, times=2)
        if status:
            break
        for path in tmp_path.iterdir():
            if path.name != "graph.json":
                path.unlink()
    assert (status, out, err) == (-signal.SIGINT, "", "error: cut: stopped by SIGINT\n")
    assert [path.name for path in tmp_path.iterdir()] == ["graph.json"]


def changed(key, value, entry=None, index=0):
    """The graph with one value of it, or of one of its nodes or edges, replaced, or without it for None."""
    problem = graph()
    place = problem if entry is None else problem[entry][index]
    if value is None:
        del place[key]
    else:
        place[key] = value
    return problem


BAD = [
    ("[1, 2", "graph.json: [1:5, byte=5]: Expected , or ] after array element; expected a JSON object"),
    ("[]", "graph.json: found an array, expected an object with nodes and edges"),
    ("[" * 100, "graph.json: byte 8: more than 8 levels of arrays and objects, a graph has fewer"),
    (changed("maxFPGAs", None), "graph.json: maxFPGAs: found nothing, expected a number from 0 to 65536"),
    (changed("maxFPGAs", 1.5), "graph.json: maxFPGAs: found 1.5, expected a whole number"),
    (changed("maxSizePerFPGA", -1), "graph.json: maxSizePerFPGA: found -1, expected a number from 0 to 1e+30"),
    (changed("maxCPUs", 1e9), "graph.json: maxCPUs: found 1000000000, expected a number from 0 to 65536"),
    (changed("nodes", None), "graph.json: nodes: found nothing, expected an array of at most 20000 entries"),
    (changed("nodes", [{}] * 20001), "graph.json: nodes: found 20001 entries, expected an array of at most 20000 entries"),
    ('[' + '{"a":1},' * 220002 + '{}]', "graph.json: byte 1760009: more than 220001 objects, a graph has fewer"),
    (changed("nodes", [3]), "graph.json: nodes[0]: found 3, expected an object"),
    (changed("nodes", []) | {"edges": []}, "graph.json: found 0 nodes, 2 accelerators and 0 CPUs, expected a node and a "
     "device at least; give some"),
    (changed("edges", None), "graph.json: edges: found nothing, expected an array of at most 200000 entries"),
    (changed("id", 10, "nodes", 2), "graph.json: nodes[2].id: found 10, which nodes[1] has; give each node an id of its own"),
    (changed("id", 10**30, "nodes"), "graph.json: nodes[0].id: found 1e+30, expected an integer of 64 bits"),
    (changed("id", "x", "nodes"), 'graph.json: nodes[0].id: found "x", expected an integer'),
    (changed("fpgaLatency", None, "nodes"), "graph.json: nodes[0].fpgaLatency: found nothing, expected a number from 0 to 1e+15"),
    (changed("fpgaLatency", -4, "nodes", 1), "graph.json: nodes[1].fpgaLatency: found -4, expected a number from 0 to 1e+15"),
    (changed("cpuLatency", 1e300, "nodes"), "graph.json: nodes[0].cpuLatency: found 1e+300, expected a "
     "number from 0 to 1e+15"),
    (changed("cpuLatency", float("nan"), "nodes"), "Invalid JSON value"),
    (changed("size", "big", "nodes"), 'graph.json: nodes[0].size: found "big", expected a number from 0 to 1e+15'),
    (changed("supportedOnFpga", 2, "nodes"), "graph.json: nodes[0].supportedOnFpga: found 2, expected true or false, or 1 or 0"),
    (changed("isBackwardNode", "no", "nodes"), 'graph.json: nodes[0].isBackwardNode: found "no", expected true or false, '
     "or 1 or 0"),
    (changed("colorClass", 0.5, "nodes"), "graph.json: nodes[0].colorClass: found 0.5, expected an integer"),
    (changed("destId", 99, "edges"), "graph.json: edges[0].destId: found 99, expected the id of a node; add the node or drop "
     "the edge"),
    (changed("sourceId", None, "edges"), "graph.json: edges[0].sourceId: found nothing, expected an integer"),
    (changed("maxFPGA", 3), 'graph.json: the key "maxFPGA" is unknown; use maxSizePerFPGA, maxFPGAs, maxCPUs, nodes, edges; did you mean '
     "maxFPGAs?"),
    (changed("colourClass", 3, "nodes", 2), 'graph.json: nodes[2]: the key "colourClass" is unknown; use id, supportedOnFpga, '
     "isBackwardNode, cpuLatency, fpgaLatency, size, colorClass, name, layerId; did you mean colorClass?"),
    (changed("bytes", 3, "nodes"), 'graph.json: nodes[0]: the key "bytes" is unknown; use id, '),
    (changed("latency", 3, "edges", 1), 'graph.json: edges[1]: the key "latency" is unknown; use sourceId, destId, cost, size'),
    (changed("cost", -1, "edges"), "graph.json: edges[0].cost: found -1, expected a number from 0 to 1e+15"),
    (changed("cost", 0.7, "edges", 1), "graph.json: edges[1].cost: found 0.7, an earlier edge of node 1 has "
     "0.5; give all edges of a node one cost"),
    (graph() | {"edges": [{"sourceId": 1, "destId": 10, "cost": 1e-7}, {"sourceId": 1, "destId": 20, "cost": 9e-7}]},
     "graph.json: edges[1].cost: found 9e-07, an earlier edge of node 1 has 1e-07; give all"),
    (changed("destId", 1, "edges", 2), "graph.json: edges: found a cycle through nodes 1, 10, expected none; drop an edge of it"),
    (changed("destId", 1, "edges", 0), "graph.json: edges: found a cycle through node 1, expected none; drop an edge of it"),
    (changed("isBackwardNode", 1, "nodes"), "graph.json: edges[0]: found an edge from the backward node 1 to the forward node "
     "10, expected none; turn it around, or correct isBackwardNode"),
    (changed("maxSizePerFPGA", 9), "graph.json: node 1: found a size of 10, an accelerator holds 9; set maxSizePerFPGA to 10 "
     "or more, or maxCPUs to 1 or more"),
    (changed("maxSizePerFPGA", 20), "graph.json: 2 accelerators hold 40, the nodes' sizes add up to 60; use --devices 3 or "
     "more"),
    (changed("supportedOnFpga", 0, "nodes", 3), "graph.json: node 20: not supported on accelerators, and there are no CPUs; "
     "set maxCPUs to 1 or more"),
]


@pytest.mark.parametrize("content, message", BAD, ids=lambda value: value[:60] if isinstance(value, str) else "")
def test_bad_graph(tmp_path, write, content, message):
    write(content)
    assert message in refused(tmp_path, "cut", "graph.json", "-o", "solution.json")


def test_no_file(tmp_path):
    assert refused(tmp_path, "cut", "graph.json") == "error: graph.json: No such file or directory; give a graph that can be read"
    (tmp_path / "graph.json").mkdir()
    assert refused(tmp_path, "cut", "graph.json") == ("error: graph.json: found a folder, expected a regular file of at most "
                                                      "33554432 bytes; give a graph")


def test_huge_file(tmp_path):
    with open(tmp_path / "graph.json", "wb") as file:
        file.truncate(1 << 33)
    assert "graph.json: found 8589934592 bytes, expected a regular file of at most 33554432 bytes; give a graph" in refused(
        tmp_path, "cut", "graph.json")


def test_output_that_cannot_be_written(tmp_path, write):
    write(graph())
    assert "missing" in refused(tmp_path, "cut", "graph.json", "-o", "missing/solution.json")
    (tmp_path / "folder").mkdir()
    assert "no regular file" in refused(tmp_path, "cut", "graph.json", "-o", "folder")


def test_its_own_graph_is_not_replaced(tmp_path, write):
    write(graph())
    (tmp_path / "link").symlink_to("graph.json")
    for name in ("graph.json", "./graph.json", "link"):
        assert f"--output {name}: is the graph; give another name" in refused(tmp_path, "cut", "graph.json", "-o", name)


@pytest.mark.parametrize("option, value", [("--devices", "0"), ("--objective", "latency")])
def test_wrong_option(tmp_path, write, option, value):
    write(graph())
    assert option in refused(tmp_path, "cut", "graph.json", option, value, status=2)
