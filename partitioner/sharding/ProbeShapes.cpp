//===- ProbeShapes.cpp - Sizes that distinguish dynamic dimensions --------===//
#include "partitioner/sharding/ProbeShapes.h"

using namespace mlir;

namespace cleave {

static int64_t nextPrime(int64_t above) {
  auto isPrime = [](int64_t number) {
    for (int64_t divisor = 2; divisor * divisor <= number; ++divisor)
      if (number % divisor == 0)
        return false;
    return true;
  };
  do
    ++above;
  while (!isPrime(above));
  return above;
}

ExampleShapes probeShapes(func::FuncOp function) {
  ExampleShapes shapes(function);
  auto limits = limitsOf(function);
  std::vector<std::string> names;
  for (auto &symbol : shapes.sizes())
    names.push_back(symbol.first().str());
  llvm::sort(names);
  int64_t prime = 10'000;
  for (StringRef symbol : names)
    shapes = shapes.resized(symbol, (prime = nextPrime(prime)) * limits.lookup(symbol).divisibleBy);
  return shapes;
}

} // namespace cleave
