//===- TrainingData.cpp ---------------------------------------------------===//
#include "tools/cleave/train/TrainingData.h"
#include "codegen/plan/DimExpr.h"
#include "runtime/base/DTypes.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include <c10/util/StringUtil.h>

namespace cleave {

using llvm::Expected;
using runtime::NamedTensor;

/// Sizes of an input in the example inputs of the plan.
static std::vector<int64_t> exampleSizes(const plan::Signature &signature, const plan::Input &input) {
  std::vector<int64_t> symbols, sizes;
  for (const auto &symbol : signature.symbols)
    symbols.push_back(symbol->traced);
  for (const auto &dim : input.type->dims)
    sizes.push_back(plan::evaluate(*dim, symbols).value_or(-1));
  return sizes;
}

Expected<TrainingData> TrainingData::read(const runtime::Trainer &trainer, const std::string &file) {
  auto tensors = runtime::readTensors(file);
  if (!tensors)
    return tensors.takeError();
  const plan::Signature &signature = *trainer.session().plan().signatures.front();
  const std::vector<const plan::Input *> inputs = trainer.inputs();
  TrainingData data;
  std::optional<uint64_t> count;
  std::vector<std::string> names;
  for (const plan::Input *input : inputs) {
    names.push_back(input->name);
    auto found = llvm::find_if(*tensors, [&](const NamedTensor &each) { return each.name == input->name; });
    if (found == tensors->end())
      return llvm::createStringError(file + ": input " + input->name + " is missing");
    const at::Tensor &rows = found->tensor;
    const std::vector<int64_t> sizes = exampleSizes(signature, *input);
    const at::IntArrayRef wanted(sizes);
    const auto dtype = runtime::scalarTypeOf(input->type->dtype);
    if (dtype && rows.scalar_type() != *dtype)
      return llvm::createStringError(file + ": " + input->name + ": found " +
                                     c10::str(rows.scalar_type(), ", expected ", *dtype));
    const bool isWhole = rows.sizes() == wanted;
    if (!isWhole && (sizes.empty() || rows.dim() != int64_t(sizes.size()) ||
                     rows.sizes().slice(1) != wanted.slice(1) || rows.size(0) < sizes[0] || sizes[0] < 1))
      return llvm::createStringError(
          file + ": " + input->name + ": found " +
          c10::str(rows.sizes(), ", expected ", wanted, " with as many or more in dimension 0"));
    data.columns.push_back({rows, isWhole ? 0 : sizes[0]});
    if (input->role == "tokens" || data.units == 0)
      data.units = input->role == "tokens" ? c10::multiply_integers(wanted) : sizes.empty() ? 0 : sizes[0];
    if (input->role == "tokens")
      data.unitName = "tokens";
    if (isWhole)
      continue;
    const uint64_t own = rows.size(0) / sizes[0];
    if (count && *count != own)
      return llvm::createStringError(file + ": " + input->name + ": found rows for " + llvm::Twine(own) +
                                     " batches, other inputs have " + llvm::Twine(*count));
    count = own;
  }
  for (const NamedTensor &tensor : *tensors)
    if (!llvm::is_contained(names, tensor.name))
      return llvm::createStringError(file + ": tensor " + tensor.name +
                                     " is no input of a step, which takes " +
                                     (names.empty() ? "none" : llvm::join(names, ", ")) + "; leave it out");
  data.count = count.value_or(1);
  return data;
}

std::vector<at::Tensor> TrainingData::batch(uint64_t step) const {
  std::vector<at::Tensor> tensors;
  for (const Column &column : columns)
    tensors.push_back(column.length == 0
                          ? column.rows
                          : column.rows.narrow(0, int64_t(step % count) * column.length, column.length));
  return tensors;
}

} // namespace cleave
