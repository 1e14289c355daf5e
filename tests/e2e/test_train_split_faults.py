"""Faults in how a training is split, put into its plan: the plan is refused, or `verify` says what differs."""

import re
import shutil

import pytest

from conftest import cleave, execute

# Those of tests/training/faultyPlan.cpp, by index; and what `verify` says: a difference, or why it refuses the plan.
FAULTS = {"a sum over ranks is forgotten": "DIFFERENT", "a sum over ranks is made twice": "DIFFERENT",
          "a gradient is not added to its sum": "DIFFERENT", "a gradient is added to its sum twice": "DIFFERENT",
          "a bucket, such as that of a tied weight, is not reduced": r"comes before the reduction of bucket \d",
          "two values of the stash are exchanged": "DIFFERENT", "two gradients are exchanged": "DIFFERENT",
          "a weight is not updated": "is no attribute of the original model", "the shards of a weight are exchanged": "keeps state '",
          "two weights are updated by each other's gradients": "DIFFERENT",
          "the values of one micro-batch are taken for those of another": "it cannot finish",
          "two gradients are added to each other's sum": "DIFFERENT"}
SEEDS = range(5)


@pytest.fixture(scope="module")
def trained(trace_model, tmp_path_factory):
    """A tiny GPT-2, whose embedding is tied to its head on another stage, and its plan."""
    config = "vocab_size=64,n_embd=16,n_layer=3,n_head=2,n_positions=16,attn_pdrop=0,embd_pdrop=0,resid_pdrop=0"
    model = trace_model("hf:gpt2", "--config", config, "--batch", 4, "--seq", 8, "--train")
    plan = tmp_path_factory.mktemp("faults") / "model.plan"
    done = cleave("compile", model.path, "--inputs", model.inputs, "--train", "--mesh", "pp=2,tp=2", "--microbatches", 4,
                  "--schedule", "1f1b", "--clip-norm", 1, "--verify", "-o", plan)
    assert "same as the original" in done.out
    return model, plan


@pytest.mark.parametrize("kind, said", enumerate(FAULTS.values()), ids=FAULTS)
def test_each_is_noticed(kind, said, trained, tmp_path):
    model, plan = trained
    for seed in SEEDS:
        faulty = tmp_path / f"{seed}.plan"
        shutil.copytree(plan, faulty)
        fault = execute("faultyPlan", plan / "plan.fb", kind, seed, faulty / "plan.fb").out
        found = cleave("verify", faulty, "--model", model.path, "--inputs", model.inputs, status=1)
        assert re.search(said, found.out if said == "DIFFERENT" else found.err), (fault, found.out, found.err)
