//===- all_reduce.cpp - What two ranks' all_reduce costs ------------------===//
//
// A sum of two threads' tensors beside what it cannot be cheaper than: a copy of the same bytes, which both
// threads make, too. The argument is the bytes of a tensor, the time that of one call. Run with two cores to
// itself: build/bin/allReduce --benchmark_repetitions=5
//
//===----------------------------------------------------------------------===//
#include "runtime/comm/local/LocalGroup.h"
#include "runtime/device/MemoryAccount.h"
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <benchmark/benchmark.h>
#include <c10/core/InferenceMode.h>
#include <thread>

using namespace cleave::runtime;

/// Runs `call(rank, tensor)` on two threads of which this one is measured, each with an arena of its own.
template <typename Call> static void runTwice(benchmark::State &state, Call call) {
  auto onThread = [&](uint32_t rank, auto loop) {
    at::set_num_threads(1);
    c10::InferenceMode inference;
    MemoryAccountRef account(new MemoryAccount("bench"));
    ScopedAccount counted(*account);
    const at::Tensor tensor = at::ones({state.range(0) / 4});
    loop([&] { benchmark::DoNotOptimize(call(rank, tensor)); });
  };
  std::thread other([&] {
    onThread(1, [&](auto once) {
      for (size_t i = 0; i < size_t(state.max_iterations); ++i)
        once();
    });
  });
  onThread(0, [&](auto once) {
    for (auto _ : state)
      once();
  });
  other.join();
  state.SetBytesProcessed(state.iterations() * state.range(0));
}

static void copy(benchmark::State &state) {
  runTwice(state, [](uint32_t, const at::Tensor &tensor) { return tensor.clone(); });
}

static void allReduce(benchmark::State &state) {
  CancellationToken cancellation({.timeout = std::chrono::hours(1)});
  LocalGroup group({0, 1}, /*spins=*/true, cancellation);
  runTwice(state,
           [&](uint32_t rank, const at::Tensor &tensor) { return group.member(rank).allReduce(tensor); });
}

BENCHMARK(copy)->Arg(4 << 10)->Arg(1 << 20)->Arg(16 << 20)->UseRealTime();
BENCHMARK(allReduce)->Arg(4 << 10)->Arg(1 << 20)->Arg(16 << 20)->UseRealTime();
BENCHMARK_MAIN();
