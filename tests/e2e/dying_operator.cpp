//===- dying_operator.cpp - An operator that ends its process -------------===//
//
// libdyingOperator.so, preloaded: cleave_test::die(call) ends the process at once, by _exit, when it is
// called for the call-th time.
//
//===----------------------------------------------------------------------===//
#include <ATen/ATen.h>
#include <atomic>
#include <torch/library.h>
#include <unistd.h>

static at::Tensor die(int64_t call) {
  static std::atomic<int64_t> calls = 0;
  if (++calls == call)
    _exit(9);
  return at::empty({0});
}

TORCH_LIBRARY(cleave_test, library) { library.def("die(int call) -> Tensor", &die); }
