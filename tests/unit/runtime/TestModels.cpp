//===- TestModels.cpp - Plans that several tests run ----------------------===//
#include "tests/unit/runtime/TestModels.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include <ATen/ATen.h>

namespace cleave::runtime {

PlanTest::PlanTest() {
  llvm::SmallString<128> created;
  EXPECT_FALSE(llvm::sys::fs::createUniqueDirectory("cleave-runtime", created));
  folder = created.str();
}

PlanTest::~PlanTest() { llvm::sys::fs::remove_directories(folder); }

std::unique_ptr<Session> PlanTest::open(PlanWriter &writer, SessionOptions options) {
  writer.write(path("a.plan"));
  auto session = Session::open(path("a.plan"), std::move(options));
  if (session)
    return std::move(*session);
  ADD_FAILURE() << llvm::toString(session.takeError());
  return nullptr;
}

std::string PlanTest::openFailure(PlanWriter &writer, SessionOptions options) {
  writer.write(path("a.plan"));
  return failureOf(Session::open(path("a.plan"), std::move(options)));
}

at::Tensor wholeNumbers(at::IntArrayRef shape) { return at::randint(-8, 9, shape, at::kFloat); }

TwoLayers::TwoLayers(int64_t width, int64_t hidden)
    : firstWeight(wholeNumbers({hidden, width})), firstBias(wholeNumbers({hidden})),
      secondWeight(wholeNumbers({4, hidden})), writer({0, 1}) {
  writer.symbol("batch", 3);
  writer.input("x", tensorType(plan::DType::Float, {-1, width}));
  StageWriter &first = writer.stage(0), &second = writer.stage(1);
  uint32_t product = first.call(
      "aten::linear",
      {first.input(0), first.weight("net.0.weight", firstWeight), first.weight("net.0.bias", firstBias)},
      "net.0");
  first.output(first.call("aten::relu", {product}, "net.0"));
  uint32_t received = second.receive(0, 0);
  uint32_t weight = second.weight("net.1.weight", secondWeight);
  second.output(second.call("aten::linear", {received, weight, second.constant(none())}, "net.1"));
  writer.output("y", 1, 0);
}

at::Tensor TwoLayers::expected(const at::Tensor &x) const {
  return at::linear(at::relu(at::linear(x, firstWeight, firstBias)), secondWeight);
}

double relativeError(const at::Tensor &found, const at::Tensor &expected) {
  return (found.cpu() - expected).abs().max().item<double>() / expected.abs().max().item<double>();
}

} // namespace cleave::runtime
