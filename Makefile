# From a fresh Debian 12 or Ubuntu 24.04: `make demo` shows Cleave at work, `make test` checks it.
JOBS ?= $(shell nproc)
CLEAVE = build/bin/cleave

.PHONY: all help setup cleave build build-cost test test-gpu test-multigpu fuzz bench bench-gpu bench-training bench-training-ranks bench-training-prediction bench-pipelined bench-tensor-parallel bench-prediction bench-processes bench-protection bench-mesh bench-planner bench-cut faults repeated kills bits zoo witnesses captures transformer-lens gradients zoo-train training-cover rolling operators demo format clean
all: build

help: ## this list
	@sed -En 's/^([a-z-]+)( [a-z-]+)?:[^=]*## (.*)/\1\2\t\3/p' $(MAKEFILE_LIST) | expand -t 26

setup: ## system packages and .venv
	tools/setup.sh

cleave: setup ## `cleave` and `cleave-trace` alone, into build/bin/
	cmake --preset release
	cmake --build build --parallel $(JOBS) --target cleave

build: setup ## every executable, into build/bin/
	cmake --preset release
	cmake --build build --parallel $(JOBS)

build-cost: ## what the last build of each file took, by target
	.venv/bin/python cmake/build_cost.py build

test: build ## every test
	ctest --test-dir build --output-on-failure --parallel $(JOBS)

# What needs a GPU, and what needs two or more, with NCCL between processes. Where they are missing it says so, and fails; with
# one GPU the tests that take two say so and are skipped.
test-gpu: GPUS = 1
test-multigpu: GPUS = 2
test-gpu test-multigpu: ## what needs a GPU; what needs two or more, with NCCL
	@test -x .venv/bin/python || $(MAKE) setup
	@.venv/bin/python -c "import sys, torch; found = torch.cuda.device_count(); \
	  found >= $(GPUS) or sys.exit(f'NOT TESTED: plans on GPUs: found {found}, expected $(GPUS) or more')"
	$(MAKE) build
	ctest --test-dir build --output-on-failure --verbose --label-regex gpu

# Mutated input for everything that reads what others sent, RUNS cases each, with sanitizers and guided by coverage; SEED=2 gives
# others, TARGETS="Wire Plan" (tests/fuzz/run.sh) runs these alone.
RUNS ?= 25000
SEED ?= 1
fuzz: setup ## mutated input, with sanitizers: RUNS, SEED, TARGETS
	cmake --preset fuzz
	cmake --build build-fuzz --parallel $(JOBS) --target fuzz
	tests/fuzz/run.sh build-fuzz $(RUNS) $(SEED) $(TARGETS)

# Speed against eager and what else there is, into docs/results.md. Takes two or three hours on a quiet machine;
# BENCH="--models gpt2 --rounds 3" takes less and only prints. bench-tensor-parallel downloads a peer when it first runs.
bench: bench-pipelined bench-tensor-parallel ## speed against eager and other libraries

bench-pipelined: build ## pipelines against eager
	.venv/bin/python tests/bench/pipelined.py $(BENCH)

bench-tensor-parallel: build ## tensor ranks against tensor_parallel
	.venv/bin/python tests/bench/tensor_parallel.py $(BENCH)

# One GPU, batches of one: CUDA graphs against TorchScript and eager. Prints only.
bench-gpu: build ## one GPU: CUDA graphs against TorchScript and eager
	.venv/bin/python tests/bench/gpu.py $(BENCH)

# What plans are predicted to take, on this machine as `cleave profile` measures it, against runs. An hour or less.
bench-prediction: build ## predicted against measured times
	.venv/bin/python tests/bench/prediction.py $(BENCH)

# Two processes against torch.distributed.pipelining's. A quarter of an hour.
bench-processes: build ## two processes against torch.distributed.pipelining
	.venv/bin/python tests/bench/processes.py $(BENCH)

# What protection from untrusted plans costs, against the build of another commit: BENCH="--against OTHER/build/bin". Prints only.
bench-protection: build ## what protection from untrusted plans costs
	.venv/bin/python tests/bench/protection.py $(BENCH)

# Whether `--mesh auto` chooses the best of all configurations of two CPU devices, each compiled and run. An hour or less.
bench-mesh: build ## whether --mesh auto chooses the best
	.venv/bin/python tests/bench/chosen_mesh.py $(BENCH)

# Training steps of GPT-2, BERT, a Llama and ResNet-50. An hour.
bench-training: build ## training steps against eager PyTorch and torch.compile
	.venv/bin/python tests/bench/training.py $(BENCH)

# The same over two stages or two tensor-parallel ranks. An hour; downloads a peer when it first runs.
bench-training-ranks: build ## training steps over two ranks against eager and other libraries
	.venv/bin/python tests/bench/training_ranks.py $(BENCH)

# Forecasts of those, with the machine measured first. An hour.
bench-training-prediction: build ## forecast against measured training steps
	.venv/bin/python tests/bench/training_prediction.py $(BENCH)

# Seconds and memory of that search for a Llama of 70 B on 128 devices and GPT-3 on 1,024. Some minutes.
bench-planner: build ## time and memory of planning 70 B and 175 B
	.venv/bin/python tests/bench/plan_speed.py $(BENCH)

# What becomes of runs of several processes when one of them is killed, stopped or cut off, as docs/reliability.md has it. Takes
# seven minutes of a machine that does nothing else.
faults: build ## processes killed, stopped or cut off
	cd tests/e2e && FAULTS_TABLE=$(CURDIR)/docs/reliability.md ../../.venv/bin/python -m pytest -q test_faults.py test_hosts.py

# Tests that go by what a machine does, 20 times, every other time beside four busy processes. Two hours.
repeated: build ## tests that go by the clock, 20 times, also on a busy machine
	cd tests/e2e && ../../.venv/bin/python repeated.py $(REPEATED)

# Compile and run killed 100 times each, and with a disk that is full at each of their writes; 100,000 requests with a trace. A
# quarter of an hour.
kills: build ## compile and run killed, and disks that are full
	cd tests/e2e && KILLS=100 ALL_WRITES=1 TRACED_REQUESTS=100000 ../../.venv/bin/python -m pytest -q test_kills.py test_full_disk.py \
	  test_many_requests.py -k "not many_requests or trace"

# The bits of GPT-2 small and of a mixture of experts with 210 million weights: in one process, in several, and on two hosts.
# Some minutes.
bits: build ## the same bits in one process, several, and on two hosts
	cd tests/e2e && FULL_SIZE=1 ../../.venv/bin/python -m pytest -q test_hosts.py -k "test_bits and not link"

# `cleave cut` on the graphs in GRAPHS, a copy of the device-placement benchmark (github.com/msr-fiddle/dnn-partitioning), which is
# no part of this repository.
bench-cut: build ## `cleave cut` on the graphs in GRAPHS
	.venv/bin/python tests/bench/cut.py $(GRAPHS)

# Many architectures, compiled over several meshes and held to their originals, into docs/coverage.md. Some hours, and it goes on
# where it was stopped; ZOO="--only bert --meshes tp=2" is a part, which leaves the table alone.
zoo: build ## many architectures against their originals
	.venv/bin/python tests/zoo/picked.py
	.venv/bin/python tests/zoo/zoo.py $(ZOO)

# Plans that `compile --verify` accepts against the modules at other sizes and values. Some hours, and it goes on where it was stopped.
witnesses: build ## traces of many architectures against their modules at other sizes and values
	.venv/bin/python tests/zoo/python_decisions.py --plans
	.venv/bin/python tests/zoo/witnesses.py $(ZOO)

# Outputs of modules, captured and edited over several meshes, against forward hooks. Some hours, and it goes on where it was stopped.
captures: build ## outputs of modules of many architectures against forward hooks
	.venv/bin/python tests/zoo/captures.py $(ZOO)

# Hook points of TransformerLens, read, edited and patched over several meshes, against its own, into docs/transformer-lens.md.
# Downloads TransformerLens when it first runs. Half an hour, and it goes on where it was stopped; LENS="--only Bridge --again Bridge"
# repeats a part.
transformer-lens: build ## hook points of TransformerLens against its own cache and hooks
	.venv/bin/python tests/zoo/hook_points.py $(LENS)

# Gradients of the same architectures in training mode against PyTorch's. Some hours, and it goes on where it was stopped.
gradients: build ## gradients of many architectures against PyTorch's
	.venv/bin/python tests/zoo/gradients.py $(ZOO)

# Training of the same over a mesh each, against PyTorch's. Some hours, and it goes on where it was stopped.
zoo-train: build ## training of many architectures over meshes against PyTorch's
	.venv/bin/python tests/zoo/training.py $(ZOO)

# Training of the same over a pairwise cover of meshes, schedules and ways to run them. It goes on where it was stopped.
training-cover: build ## training of architectures over a cover of meshes, schedules, threads and processes
	.venv/bin/python tests/zoo/training_cover.py $(ZOO)

# Every class of dimensions of what `make zoo` has traced, with its parts in other places: no operator may notice. Some minutes.
rolling: build ## operators against the semantics table
	.venv/bin/python tests/zoo/rolling.py $(ROLLING)

# Which operators a plan may call: thousands of hostile calls of each, into codegen/plan/AllowedOperators.inc and
# docs/operators.md. An hour or less, and it goes on where it was stopped; `rm -r build/operators` begins anew.
operators: setup ## which operators a plan may call
	cmake --preset release
	cmake --build build --parallel $(JOBS) --target operatorCalls
	.venv/bin/python tests/operators/operators.py $(OPERATORS)

# GPT-2 small over four devices.
demo: cleave ## GPT-2 small over four devices, step by step
	rm -rf demo && mkdir demo
	build/bin/cleave-trace hf:gpt2 -o demo/gpt2.pt
	$(CLEAVE) compile demo/gpt2.pt --inputs demo/gpt2.inputs.safetensors --devices 4 --microbatches 4 --verify -o demo/gpt2.plan
	$(CLEAVE) run demo/gpt2.plan --inputs demo/gpt2.inputs.safetensors --outputs demo/outputs.safetensors
	$(CLEAVE) inspect demo/gpt2.plan

format: setup ## clang-format
	git ls-files '*.cpp' '*.h' | xargs .venv/bin/clang-format -i

clean: ## removes what was built
	rm -rf build build-dev build-fuzz build-tsan build-nocuda demo
