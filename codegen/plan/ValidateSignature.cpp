//===- ValidateSignature.cpp - Checks of what a plan takes and gives ------===//
#include "codegen/plan/Batch.h"
#include "codegen/plan/DimExpr.h"
#include "codegen/plan/Schedule.h"
#include "codegen/plan/ValidateParts.h"
#include "llvm/ADT/StringSet.h"
#include <cmath>

namespace cleave::plan {

using llvm::Error;
using llvm::Twine;

std::vector<int64_t> tracedSizes(const Signature &signature) {
  std::vector<int64_t> sizes;
  for (const auto &symbol : signature.symbols)
    sizes.push_back(symbol->traced);
  return sizes;
}

/// Names must be present, valid and distinct.
template <typename T>
static Error checkNames(const Twine &where, const std::vector<std::unique_ptr<T>> &table) {
  llvm::StringSet<> names;
  for (const auto &entry : table) {
    if (!entry)
      return invalid(where, "an entry is missing");
    if (Error error = checkName(where, entry->name))
      return error;
    if (!names.insert(entry->name).second)
      return invalid(where, "there are two '" + entry->name + "'");
  }
  return Error::success();
}

static Error checkInputs(const Twine &where, const Signature &signature, llvm::ArrayRef<int64_t> traced) {
  std::vector<bool> isBound(signature.symbols.size());
  for (const auto &input : signature.inputs) {
    std::string at = (where + ", input '" + input->name + "'").str();
    if (Error error = checkText(at, input->role))
      return error;
    if (Error error = checkType(at, input->type.get(), traced))
      return error;
    if (!input->type->ranked || input->type->dtype == DType::Unknown)
      return invalid(at, "its rank or dtype is unknown");
    for (const auto &dim : input->type->dims)
      if (auto symbol = asSymbol(*dim))
        isBound[*symbol] = true;
  }
  for (size_t i = 0; i < isBound.size(); ++i)
    if (!isBound[i])
      return invalid(where, "symbol '" + signature.symbols[i]->name + "' is no dimension of any input");
  return Error::success();
}

/// The batch must be a symbol, and every tensor must be splittable along it.
static Error checkBatch(const Twine &where, const Signature &signature) {
  if (signature.batch == -1)
    return Error::success();
  if (signature.batch < 0 || size_t(signature.batch) >= signature.symbols.size())
    return invalid(where, "its batch is symbol " + Twine(signature.batch) + ", there are " +
                              Twine(signature.symbols.size()));
  for (const auto &input : signature.inputs)
    if (!isSplittable(*input->type, signature.batch))
      return invalid(where + ", input '" + input->name + "'", "it is not in proportion to the batch");
  for (const auto &output : signature.outputs)
    if (!isSplittable(*output->type, signature.batch))
      return invalid(where + ", output '" + output->name + "'",
                     "it is not known to be in proportion to the batch");
  return Error::success();
}

/// Limit of a dynamic dimension in the example inputs: no tensor is larger, and sums and multiples of it stay
/// within 64 bits.
static constexpr int64_t kLargestSize = int64_t(1) << 40;

/// The traced size is one of those that were compared.
static Error checkWitnessed(const Twine &where, const Symbol &symbol) {
  if (symbol.witnessed_max == 0 && symbol.witnessed_min == 1 && symbol.witnessed_divisible_by == 1)
    return Error::success();
  if (symbol.witnessed_min < 1 || symbol.witnessed_min > symbol.traced ||
      symbol.witnessed_max < symbol.traced)
    return invalid(where, "of size " + Twine(symbol.traced) + " is said to have been compared from " +
                              Twine(symbol.witnessed_min) + " to " + Twine(symbol.witnessed_max));
  if (symbol.witnessed_divisible_by < 1 || symbol.traced % symbol.witnessed_divisible_by != 0)
    return invalid(where, "of size " + Twine(symbol.traced) +
                              " is said to have been compared at multiples of " +
                              Twine(symbol.witnessed_divisible_by));
  return Error::success();
}

Error checkSignature(const Plan &plan, const Signature &signature) {
  std::string where = "signature '" + signature.name + "'";
  if (Error error = checkNames(where + ", symbols", signature.symbols))
    return error;
  if (Error error = checkNames(where + ", inputs", signature.inputs))
    return error;
  if (Error error = checkNames(where + ", outputs", signature.outputs))
    return error;
  for (const auto &symbol : signature.symbols) {
    if (symbol->source != SymbolSource::InputDimension || symbol->source_index != 0)
      return invalid(where, "symbol '" + symbol->name +
                                "' is no dimension of an input, which this version does not run");
    // Sizes are multiplied by each other.
    if (symbol->traced < 0 || symbol->traced > kLargestSize)
      return invalid(where,
                     "symbol '" + symbol->name + "' was traced with the size " + Twine(symbol->traced));
    if (symbol->divisible_by < 1 || symbol->traced % symbol->divisible_by != 0)
      return invalid(where, "symbol '" + symbol->name + "' of size " + Twine(symbol->traced) +
                                " is said to be a multiple of " + Twine(symbol->divisible_by));
    if (symbol->min < 1 || (symbol->min > 1 && symbol->min > symbol->traced) || symbol->max < symbol->traced)
      return invalid(where, "symbol '" + symbol->name + "' of size " + Twine(symbol->traced) +
                                " is said to be from " + Twine(symbol->min) + " to " + Twine(symbol->max));
    if (symbol->min > 1 && symbol->min % symbol->divisible_by != 0)
      return invalid(where, "symbol '" + symbol->name + "' runs from " + Twine(symbol->min) +
                                ", which is no multiple of " + Twine(symbol->divisible_by));
    if (Error error = checkWitnessed(where + ", symbol '" + symbol->name + "'", *symbol))
      return error;
  }
  if (!std::isfinite(signature.clip_norm) || signature.clip_norm < 0)
    return invalid(where, "the norm to which its gradients are clipped is no finite number of 0 or more");
  std::vector<int64_t> traced = tracedSizes(signature);
  if (Error error = checkInputs(where, signature, traced))
    return error;
  for (const auto &output : signature.outputs) {
    if (Error error = checkType(where + ", output '" + output->name + "'", output->type.get(), traced))
      return error;
    if (output->phase > Phase::MAX || output->merge > OutputMerge::MAX)
      return invalid(where + ", output '" + output->name + "'",
                     "it is of an unknown phase, or merged in an unknown way");
    if (output->merge == OutputMerge::Sum && isOnce(output->phase))
      return invalid(where + ", output '" + output->name + "'",
                     "it is a sum over micro-batches, but comes from an update, which runs once");
    const bool isPerMicrobatch = output->merge == OutputMerge::Join && !isOnce(output->phase);
    if (!isPerMicrobatch && signature.batch >= 0 && batchDimension(*output->type, signature.batch))
      return invalid(where + ", output '" + output->name + "'",
                     "it has a batch dimension, but is a sum over the batch, or of an update");
    if (output->stage >= plan.stages.size())
      return invalid(where + ", output '" + output->name + "'",
                     "comes from stage " + Twine(output->stage) + ", there are " + Twine(plan.stages.size()));
  }
  if (Error error = checkBatch(where, signature))
    return error;
  if (Error error = checkTree(where + ", inputs", signature.input_tree.get(), signature.inputs.size()))
    return error;
  return checkTree(where + ", outputs", signature.output_tree.get(), signature.outputs.size());
}

} // namespace cleave::plan
