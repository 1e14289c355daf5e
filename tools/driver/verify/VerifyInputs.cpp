//===- VerifyInputs.cpp ---------------------------------------------------===//
#include "tools/driver/verify/VerifyInputs.h"
#include "codegen/plan/DimExpr.h"
#include "codegen/plan/TrainingStep.h"
#include "codegen/plan/WitnessedRange.h"
#include "ir/autograd/StepInputs.h"
#include "runtime/base/DTypes.h"
#include "runtime/base/TensorFile.h"
#include "runtime/exchange/SignatureInputs.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"
#include <ATen/ATen.h>

namespace cleave {

/// What an input of a training step is where nobody gives it: 0, and the indices of the traced samples.
static at::Tensor stepInput(const plan::Input &input, llvm::ArrayRef<int64_t> traced) {
  std::vector<int64_t> shape;
  for (auto &dim : input.type->dims)
    shape.push_back(plan::evaluate(*dim, traced).value_or(1));
  const auto dtype = *runtime::scalarTypeOf(input.type->dtype);
  return input.role == kSampleIndexRole && shape.size() == 1 && dtype == at::kLong
             ? at::arange(shape[0], dtype)
             : at::zeros(shape, dtype);
}

llvm::Expected<Inputs> readInputs(const plan::Signature &signature, const std::string &path) {
  auto tensors = runtime::readTensors(path);
  if (!tensors)
    return tensors.takeError();
  std::vector<int64_t> traced;
  for (auto &symbol : signature.symbols)
    traced.push_back(symbol->traced);
  for (auto &input : signature.inputs)
    if (plan::isStepInput(*input) &&
        llvm::none_of(*tensors, [&](auto &tensor) { return tensor.name == input->name; }))
      tensors->push_back({input->name, stepInput(*input, traced)});
  return runtime::matchInputs(signature, *tensors, path);
}

Inputs makeInputs(const plan::Signature &signature) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(uint64_t{0});
  std::vector<int64_t> traced;
  for (auto &symbol : signature.symbols)
    traced.push_back(symbol->traced);
  Inputs inputs;
  for (auto &input : signature.inputs) {
    std::vector<int64_t> shape;
    for (auto &dim : input->type->dims)
      shape.push_back(plan::evaluate(*dim, traced).value_or(1));
    auto dtype = *runtime::scalarTypeOf(input->type->dtype);
    inputs.push_back(at::isFloatingType(dtype) ? at::rand(shape, generator, at::kFloat).to(dtype)
                                               : at::randint(0, 2, shape, generator, at::kLong).to(dtype));
  }
  return inputs;
}

Inputs resized(const plan::Signature &signature, llvm::ArrayRef<at::Tensor> inputs,
               llvm::ArrayRef<int64_t> sizes) {
  Inputs result;
  for (auto [input, tensor] : llvm::zip(signature.inputs, inputs)) {
    at::Tensor changed = tensor;
    for (int64_t dim = 0; dim < tensor.dim(); ++dim) {
      int64_t size = plan::evaluate(*input->type->dims[dim], sizes).value_or(tensor.size(dim));
      if (tensor.size(dim) > 0)
        changed = changed.index_select(dim, at::arange(size).remainder(tensor.size(dim)));
    }
    result.push_back(changed);
  }
  return result;
}

/// The sizes at which the model runs, and its trace was compared with the module. The traced size is one of
/// them; `min` is a multiple.
static plan::WitnessedRange comparableSizes(const plan::Symbol &symbol) {
  plan::WitnessedRange range{symbol.min, symbol.max, symbol.divisible_by};
  // Both divide the traced size, which is small.
  if (auto witnessed = plan::witnessedRange(symbol))
    range = range.intersectedWith(*witnessed).value_or(range);
  if (range.min > 1)
    range.min = llvm::alignTo(range.min, range.divisibleBy);
  return range;
}

std::vector<std::vector<int64_t>> otherSizes(const plan::Signature &signature) {
  std::vector<int64_t> traced, near, least, larger;
  for (auto &symbol : signature.symbols) {
    const plan::WitnessedRange range = comparableSizes(*symbol);
    const int64_t multiple = range.divisibleBy, size = symbol->traced / multiple;
    auto runnable = [&](int64_t steps) {
      int64_t most = range.max / multiple;
      // If there are no larger sizes there may be a smaller one.
      return std::max(multiple * (steps > most ? std::max<int64_t>(1, 2 * size - steps) : steps), range.min);
    };
    traced.push_back(symbol->traced);
    near.push_back(runnable(size < 16 ? size + 1 : size / 2 | 1));
    least.push_back(runnable(1));
    larger.push_back(runnable(size < 16 ? size + 2 : (size + size / 8 + 1) | 1));
  }
  std::vector<std::vector<int64_t>> result{near, least, larger};
  llvm::erase(result, traced);
  result.erase(std::unique(result.begin(), result.end()), result.end());
  return result;
}

std::vector<Inputs> inputsOfCalls(const Inputs &first, size_t count) {
  std::vector<Inputs> calls(count, first);
  for (size_t call = 1; call < count; ++call)
    for (at::Tensor &input : calls[call]) {
      input = input.roll(call);
      if (at::isFloatingType(input.scalar_type()))
        input = input * (1 - double(call) / 8);
    }
  return calls;
}

} // namespace cleave
