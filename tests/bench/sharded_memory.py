#!/usr/bin/env python3
"""Memory of a device that trains one of N tensor-parallel shards, of the model in Lightning's tutorial of tensor parallelism.

usage: sharded_memory.py [--bin build/bin]
Prints a Markdown table, a row a number of ranks; beside Lightning's figures.
"""

import argparse
import json
import pathlib
import subprocess
import tempfile

PUBLISHED = {1: 4.04, 2: 2.03, 4: 1.02, 8: 0.60}  # GB a device, lightning.ai/docs/fabric, Tensor Parallelism
MODEL = pathlib.Path(__file__).with_name("feed_forward.py")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", type=lambda path: pathlib.Path(path).resolve(), default=pathlib.Path("build/bin").resolve())
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="cleave-bench-") as scratch:
        folder = pathlib.Path(scratch)

        def run(program, *arguments):
            return subprocess.run([options.bin / program, *map(str, arguments)], cwd=folder, check=True, text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout

        run("cleave-trace", f"{MODEL.resolve()}:trained_8192", "--train", "--no-witnesses", "-o", "model.pt")
        print("| ranks | predicted GB a device | measured | Lightning |\n|---|---|---|---|")
        for ranks, published in PUBLISHED.items():
            run("cleave", "compile", "model.pt", "--inputs", "model.inputs.safetensors", "--train", "--mesh", f"tp={ranks}",
                "-o", "plan")
            predicted = json.loads(run("cleave", "inspect", "plan", "--json"))["stages"][0]["predicted_peak_bytes"]
            report = json.loads(run("cleave", "train", "plan", "--data", "model.inputs.safetensors", "--steps", 2, "--lr", 1e-6,
                                    "--json"))
            measured = max(device["peak_bytes"] for device in report["devices"])
            print(f"| {ranks} | {predicted / 1e9:.3f} | {measured / 1e9:.3f} | {published} |", flush=True)


if __name__ == "__main__":
    main()
