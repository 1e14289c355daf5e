#!/usr/bin/env python3
"""Cleave on one GPU, a stage as a CUDA graph, against torch.compile, TorchScript and eager there, batches of one.

usage: gpu.py [--bin build/bin] [--models gpt2,bert,vit,resnet-50] [--rounds 5] [--repeat 50] [--quick]
In each round every contestant runs once, in a fresh process; inputs come from main memory, and outputs go back there. Prints
Markdown. Where there is no GPU it says so, with status 0.
"""

import dataclasses
import sys

import torch

sys.dont_write_bytecode = True
import report
import rounds
from contestants import Model, Peer, Plan


@dataclasses.dataclass(frozen=True)
class OnGpu(Plan):
    options: tuple = ()

    def command(self, bench):
        return [*super().command(bench), "--devices", "cuda:0", *self.options]


CONTESTANTS = {
    "eager": Peer("eager", "gpu_eager.py", threads=1),
    "torchscript": Peer("TorchScript, frozen", "gpu_torchscript.py", threads=1),
    "compiled": Peer("torch.compile with CUDA graphs", "gpu_compiled.py", threads=1),
    "plan": OnGpu("Cleave", "pp=1"),
    "graphs": OnGpu("Cleave with CUDA graphs", "pp=1", options=("--cuda-graphs",)),
}
MODELS = {name: Model(name, f"hf:{name}", "", batch=1, seq=128) for name in ("gpt2", "bert", "vit", "resnet-50")}


def main():
    parser = rounds.arguments(__doc__.splitlines()[0], MODELS)
    parser.add_argument("--repeat", type=int, default=50)
    options = rounds.parse(parser, MODELS)
    if not torch.cuda.is_available():
        print("skipped: torch finds no GPU here")
        return
    models = [MODELS[name].tiny() if options.quick else MODELS[name] for name in options.models]
    results = {model.name: rounds.compete(options, model, CONTESTANTS, options.repeat) for model in models}
    print(f"{torch.cuda.get_device_name()}; {report.machine(report.load())}\n")
    print(report.speeds(results, CONTESTANTS))
    print(report.table([["CUDA graphs, times as fast as", *results],
                        *([CONTESTANTS[other].label, *(report.against(found, "graphs", [other], 1) for found in results.values())]
                          for other in ("eager", "torchscript", "compiled", "plan"))]))
    print(*report.failures(results, CONTESTANTS), sep="\n")
    sys.exit(rounds.any_failed(results))


main()
