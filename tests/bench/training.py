#!/usr/bin/env python3
"""A training step on two threads, AdamW: Cleave against eager PyTorch and torch.compile, without dropout.

usage: training.py [--bin build/bin] [--models gpt2,bert,llama,resnet-50] [--rounds 5] [--steps 8] [--quick]
In each round every contestant runs once, in a fresh process. Prints Markdown, and puts it into docs/results.md.
"""

import dataclasses
import sys

sys.dont_write_bytecode = True
import report
import rounds
from contestants import Model, Peer, Plan, output
import json

# As peers: the first steps allocate.
WARM_UPS = 4


@dataclasses.dataclass(frozen=True)
class TrainedModel(Model):
    def options(self):
        return [*super().options(), "--train"]

    def tiny(self):
        small = super().tiny()
        return dataclasses.replace(small, config=",".join(filter(None, (small.config, NO_DROPOUT[self.name]))))


@dataclasses.dataclass(frozen=True)
class TrainingPlan(Plan):
    schedule: str = "1f1b"  # of pipeline stages

    def plan(self, bench):
        return bench.folder / f"{self.mesh}x{self.microbatches}-{self.schedule}.plan"

    def prepare(self, bench):
        split = ["--mesh", self.mesh, "--microbatches", self.microbatches, "--schedule", self.schedule] if self.mesh else []
        output([bench.tools / "cleave", "compile", bench.traced, "--inputs", bench.inputs, "--train", *split, "-o", self.plan(bench)])

    def measure(self, bench):
        return {"seconds": self.mean_step(self.train(bench))}

    def train(self, bench):
        command = [bench.tools / "cleave", "train", self.plan(bench), "--data", bench.inputs, "--lr", "1e-4", "--json",
                   "--timeout", 1800, "--steps", bench.steps + WARM_UPS, "--log-every", bench.steps + WARM_UPS]
        return json.loads(output(command, OMP_NUM_THREADS="2"))

    def mean_step(self, trained):
        seconds = trained["step_seconds"][WARM_UPS:]
        return sum(seconds) / len(seconds)


NO_DROPOUT = {"gpt2": "attn_pdrop=0,embd_pdrop=0,resid_pdrop=0",
              "bert": "hidden_dropout_prob=0,attention_probs_dropout_prob=0",
              "llama": "num_hidden_layers=12,hidden_size=768,intermediate_size=2048,num_attention_heads=12,"
                       "num_key_value_heads=12,vocab_size=32000,max_position_embeddings=512",
              "resnet-50": ""}
MODELS = {name: TrainedModel(name, f"hf:{name}", config, batch=4, seq=128) for name, config in NO_DROPOUT.items()}
CONTESTANTS = {
    "eager": Peer("eager", "train_eager.py", threads=2),
    "compiled": Peer("torch.compile", "train_compiled.py", threads=2),
    "plan": TrainingPlan("Cleave", ""),
}


def main():
    parser = rounds.arguments(__doc__.splitlines()[0], MODELS)
    parser.add_argument("--steps", type=int, default=8)
    options = rounds.parse(parser, MODELS)
    rounds.take_cores()
    before = report.load()
    results = {name: rounds.compete(options, MODELS[name].tiny() if options.quick else MODELS[name], CONTESTANTS,
                                    2 if options.quick else options.steps) for name in options.models}
    ratios = report.table([["Cleave, times as fast as", *results],
                           *([CONTESTANTS[other].label, *(report.against(found, "plan", [other], 1) for found in results.values())]
                             for other in ("eager", "compiled"))])
    rounds.conclude(options, MODELS, "training", results,
                    f"{report.machine(before)}\n\n{report.speeds(results, CONTESTANTS)}\n\n{ratios}")
    print(*report.failures(results, CONTESTANTS), sep="\n")
    sys.exit(rounds.any_failed(results))


if __name__ == "__main__":
    main()
