"""What each rank holds of a feed-forward block that is split over 1, 2, 4 and 8 of them."""

import pathlib
import shutil
import sys
import tempfile

import report
from contestants import Bench, Model, Plan

SOURCE = pathlib.Path(__file__).resolve().parent / "feed_forward.py"
RANKS = (1, 2, 4, 8)
PRODUCTS = 3
FLOAT_BYTES = 4
# Of a rank's part of the weights.
MOST = 1.05


def measure(tools, width):
    """By number of ranks, the statistics of each device."""
    found = {}
    model = Model("feed-forward block", f"{SOURCE}:block_{width}", "", batch=0, seq=0)
    with tempfile.TemporaryDirectory(prefix="cleave-bench-") as folder:
        bench = Bench(tools, pathlib.Path(folder), model, steps=1)
        bench.trace()
        for ranks in RANKS:
            print(f"{model.name} on {ranks} ranks", file=sys.stderr, flush=True)
            split = Plan(model.name, f"tp={ranks}")
            split.prepare(bench)
            found[ranks] = split.run(bench)["devices"]
            shutil.rmtree(split.plan(bench))
    return found


def table(found, width):
    rows = [["ranks", "weights on a rank, bytes, wanted", "measured", f"peak on a rank, bytes, wanted ≤ {MOST} ×", "measured"]]
    for ranks, devices in found.items():
        part = PRODUCTS * width**2 * FLOAT_BYTES // ranks
        rows.append([str(ranks), f"{part:,}", extent([device["weight_bytes"] for device in devices], part, part),
                     f"{MOST * part:,.0f}", extent([device["peak_bytes"] for device in devices], part, MOST * part)])
    return report.table(rows)


def extent(values, least, most):
    """From the least to the largest, if they differ."""
    values = sorted(values)
    text = " to ".join(f"{value:,}" for value in dict.fromkeys((values[0], values[-1])))
    return text + ("" if least <= values[0] and values[-1] <= most else ", short")
