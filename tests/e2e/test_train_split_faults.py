"""Faults in how a training is split, put into its plan: the plan is refused, or `verify` says what differs."""

import shutil

import pytest

from conftest import cleave, execute

# Those of tests/training/faultyPlan.cpp, by index.
FAULTS = ["a sum over ranks is forgotten", "a sum over ranks is made twice", "a gradient is not added to its sum",
          "a gradient is added to its sum twice", "a bucket, such as that of a tied weight, is not reduced",
          "two values of the stash are exchanged", "two gradients are exchanged", "a weight is not updated",
          "the shards of a weight are exchanged", "two weights are updated by each other's gradients",
          "the values of one micro-batch are taken for those of another", "two gradients are added to each other's sum"]
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


@pytest.mark.parametrize("kind", range(len(FAULTS)), ids=FAULTS)
def test_each_is_noticed(kind, trained, tmp_path):
    model, plan = trained
    for seed in SEEDS:
        faulty = tmp_path / f"{seed}.plan"
        shutil.copytree(plan, faulty)
        fault = execute("faultyPlan", plan / "plan.fb", kind, seed, faulty / "plan.fb").out
        found = cleave("verify", faulty, "--model", model.path, "--inputs", model.inputs, status=1)
        assert "DIFFERENT" in found.out or found.err.startswith("error: "), (fault, found.out, found.err)
