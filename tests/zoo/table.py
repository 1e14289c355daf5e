"""The table of architectures in docs/coverage.md, from the results of zoo.py."""

import collections
import pathlib
import re
import statistics

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs/coverage.md"
BEGIN, END = "<!-- make zoo, architectures: begin -->", "<!-- make zoo, architectures: end -->"
MESHES = ("pp=2", "tp=2", "tp=3", "pp=2,tp=2")
KINDS = ("text", "vision", "audio", "multimodal", "state-space", "MoE", "other")
COLUMNS = ("architecture", "class", "kind", *MESHES, "bytes sharded", "collectives a layer", "replicated ops", "compile, s")
HEADER = "| " + " | ".join(COLUMNS) + " |\n" + "|---" * len(COLUMNS) + "|"
SHOWN = "tp=2"  # of which mesh the last columns are


def write(entries):
    """Replaces what is between the marks of docs/coverage.md."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    PAGE.write_text("\n".join([before + BEGIN, text(entries), END]) + rest.partition(END)[2])


def text(entries):
    entries = sorted(entries, key=lambda entry: entry["name"])
    traced = [entry for entry in entries if not entry["trace"]["reason"]]
    failed = [(entry["name"], mesh, result["reason"]) for entry in traced for mesh, result in entry["meshes"].items()
              if result["reason"]]
    parts = ["\n".join(summary(entries, traced)), "\n".join([HEADER, *map(row, traced)])]
    if failed:
        parts.append("Failures, by mesh:\n\n" + "\n".join(f"- {name}, {mesh}: {escaped(reason)}" for name, mesh, reason in failed))
    untraced = [entry for entry in entries if entry["trace"]["reason"]]
    if untraced:
        parts.append("No model for Cleave, since PyTorch did not trace, save and load them again, or the rules did not fit them:\n\n" + "\n".join(
            f"- {names}: {reason}" for reason, names in by_reason(untraced)))
    return "\n\n".join(parts)


def summary(entries, traced):
    """What the table comes to."""
    kinds = collections.Counter(entry["trace"]["kind"] for entry in traced)
    lines = [f"Of {len(entries)} architectures that were tried, PyTorch traces, saves and loads again {len(traced)} ("
             + ", ".join(f"{kinds[kind]} {kind}" for kind in KINDS if kinds[kind]) + ").", "",
             "| | " + " | ".join(MESHES) + " |", "|---|" + "---|" * len(MESHES)]
    lines.append("| answer as the original | " + " | ".join(map(lambda mesh: passed(traced, mesh), MESHES)) + " |")
    for title, what, form in (("median share of bytes sharded", share, "{:.0%}"), ("5th percentile of it", share, "{:.0%}"),
                              ("median collectives a layer", per_layer, "{:.1f}"),
                              ("95th percentile of it", per_layer, "{:.1f}"),
                              ("median seconds to compile", seconds, "{:.1f}"),
                              ("95th percentile of it", seconds, "{:.1f}")):
        rank = 5 if title.startswith("5th") else 95 if title.startswith("95th") else 50
        cells = []
        for mesh in MESHES:
            found = [what(entry["meshes"][mesh]) for entry in traced if is_passed(entry, mesh)]
            found = sorted(value for value in found if value is not None)
            cells.append(form.format(percentile(found, rank)) if found and not (what is not seconds and mesh == "pp=2") else "–")
        lines.append(f"| {title} | " + " | ".join(cells) + " |")
    return lines


def passed(traced, mesh):
    tried = [entry for entry in traced if mesh in entry["meshes"]]
    return f"{sum(is_passed(entry, mesh) for entry in tried)} of {len(tried)}"


def is_passed(entry, mesh):
    return mesh in entry["meshes"] and not entry["meshes"][mesh]["reason"]


def share(result):
    return result["sharded"]


def per_layer(result):
    return result["layer_collectives"] / result["layers"] if result["layers"] else None


def seconds(result):
    return result["seconds"]


def percentile(found, rank):
    """The least of `found`, which is sorted, that so many hundredths are at most."""
    return statistics.median(found) if rank == 50 else found[min(len(found) - 1, len(found) * rank // 100)]


def row(entry):
    trace, shown = entry["trace"], entry["meshes"].get(SHOWN)
    cells = [entry["name"], trace["class_name"], trace["kind"], *(status(entry["meshes"].get(mesh)) for mesh in MESHES)]
    if shown and not shown["reason"]:
        layer = per_layer(shown)
        operators = ", ".join(f"{count} {name}" for name, count in sorted(shown["replicated"].items()))
        cells += [f"{shown['sharded']:.0%}" if shown["sharded"] is not None else "–", f"{layer:.1f}" if layer is not None else "–",
                  operators or "–", f"{shown['seconds']:.1f}"]
    else:
        cells += ["–"] * 4
    return "| " + " | ".join(cells) + " |"


def status(result):
    if result is None:
        return "not run"
    return "fails" if result["reason"] else f"{result['error']:.0e}"


def by_reason(untraced):
    """(reason, names), most frequent first."""
    groups = {}
    for entry in untraced:
        groups.setdefault(brief(entry["trace"]["reason"]), []).append(entry["name"])
    for reason, names in sorted(groups.items(), key=lambda item: (-len(item[1]), item[0])):
        yield reason, ", ".join(names)


def brief(reason):
    reason = re.sub(r"; pass --traceback to see where$", "", reason.removeprefix("TraceError: "))
    reason = reason.removeprefix("the module fails on its example inputs: ").removeprefix("TorchScript cannot trace the module: ")
    return escaped(reason[:110] + ("…" if len(reason) > 110 else ""))


def escaped(text):
    """No paths of this machine, and nothing that Markdown would take for its own."""
    text = re.sub(r"(/[\w.+-]+){2,}", lambda found: found.group(0).rpartition("/")[2], text)
    return text.replace("|", "\\|").replace("<", "\\<").replace("*", "\\*").replace("_", "\\_")
