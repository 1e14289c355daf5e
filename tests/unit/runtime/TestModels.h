//===- TestModels.h - Plans that several tests run --------------*- C++ -*-===//
#ifndef CLEAVE_TESTS_UNIT_RUNTIME_TESTMODELS_H
#define CLEAVE_TESTS_UNIT_RUNTIME_TESTMODELS_H

#include "runtime/session/Session.h"
#include "tests/unit/runtime/PlanWriter.h"
#include <ATen/core/Tensor.h>
#include <gtest/gtest.h>
#include <string>

namespace cleave::runtime {

/// A test with a folder of its own, where its plans stand.
class PlanTest : public testing::Test {
protected:
  PlanTest();
  ~PlanTest() override;

  std::string path(const std::string &name) const { return folder + "/" + name; }
  /// Writes the plan and opens it; fails the test where that fails.
  std::unique_ptr<Session> open(PlanWriter &writer, SessionOptions options = {});
  /// The message with which opening or running fails; empty where it does not.
  static std::string failureOf(llvm::Error error) { return error ? llvm::toString(std::move(error)) : ""; }
  template <typename T> static std::string failureOf(llvm::Expected<T> value) {
    return failureOf(value.takeError());
  }
  std::string openFailure(PlanWriter &writer, SessionOptions options = {});

private:
  std::string folder;
};

/// Small ones, whose sums of products are exact in float32, in whatever order they are made.
at::Tensor wholeNumbers(at::IntArrayRef shape);

/// `y = linear(relu(linear(x, w0, b0)), w1)` of whole numbers, with `x : float32[batch, width]` and 4
/// outputs, cut after the relu. The first stage is module `net.0`, the second `net.1`.
struct TwoLayers {
  explicit TwoLayers(int64_t width = 8, int64_t hidden = 16);
  at::Tensor expected(const at::Tensor &x) const;

  at::Tensor firstWeight, firstBias, secondWeight;
  PlanWriter writer;
};

/// Largest |found − expected|, as a share of the largest |expected|. In float32 a GPU adds in another order
/// than a CPU, and is off by some 1e-7; in TF32 by some 1e-4.
double relativeError(const at::Tensor &found, const at::Tensor &expected);

} // namespace cleave::runtime

#endif // CLEAVE_TESTS_UNIT_RUNTIME_TESTMODELS_H
