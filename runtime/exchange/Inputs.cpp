//===- Inputs.cpp ---------------------------------------------------------===//
#include "runtime/exchange/Inputs.h"
#include "codegen/plan/DimExpr.h"
#include "codegen/plan/Safetensors.h"
#include "codegen/plan/WitnessedRange.h"
#include "runtime/base/DTypes.h"
#include "runtime/base/Values.h"
#include "llvm/ADT/StringExtras.h"
#include <ATen/ops/from_blob.h>
#include <c10/core/InferenceMode.h>
#include <optional>
#include <string>

namespace cleave::runtime {

using llvm::Error;
using llvm::Twine;

namespace {

/// Binds symbols to the sizes of one request's inputs.
class SymbolBinder {
public:
  SymbolBinder(const plan::Signature &signature, BindOptions options);
  Error checkInput(size_t index, const at::Tensor &tensor);
  /// Compares sizes that are expressions of symbols with the values of these.
  Error checkExpressions(llvm::ArrayRef<at::Tensor> inputs) const;
  /// A valid plan has every symbol as a dimension of some input.
  std::vector<int64_t> take() { return std::move(sizes); }

private:
  Error bind(size_t index, const at::Tensor &tensor, size_t dim, uint32_t symbol);
  Error mismatch(size_t index, const at::Tensor &tensor, const Twine &remedy) const;

  const plan::Signature &signature;
  const BindOptions options;
  std::vector<std::string> names;
  /// 0: not bound yet.
  std::vector<int64_t> sizes;
  /// By symbol: index of the input that bound it.
  std::vector<size_t> boundBy;
};

} // namespace

SymbolBinder::SymbolBinder(const plan::Signature &signature, BindOptions options)
    : signature(signature), options(options), sizes(signature.symbols.size()),
      boundBy(signature.symbols.size()) {
  for (const auto &symbol : signature.symbols)
    names.push_back(symbol->name);
}

Error SymbolBinder::mismatch(size_t index, const at::Tensor &tensor, const Twine &remedy) const {
  const plan::Input &input = *signature.inputs[index];
  return llvm::createStringError("input " + input.name + ": found " + describe(tensor) + ", expected " +
                                 describe(*input.type, names) + "; " + remedy);
}

Error SymbolBinder::bind(size_t index, const at::Tensor &tensor, size_t dim, uint32_t symbol) {
  const int64_t size = tensor.size(dim);
  if (size < 1)
    return mismatch(index, tensor, names[symbol] + " must be at least 1");
  if (int64_t multiple = signature.symbols[symbol]->divisible_by; size % multiple != 0)
    return mismatch(index, tensor,
                    names[symbol] + " must be a multiple of " + Twine(multiple) +
                        "; the model runs at no other size");
  const auto witnessed = plan::witnessedRange(*signature.symbols[symbol]);
  if (witnessed && !options.beyondWitnesses && !witnessed->contains(size))
    return llvm::createStringError("input " + signature.inputs[index]->name + ": dimension " + Twine(dim) +
                                   " (" + names[symbol] + ") is " + Twine(size) + ", expected " +
                                   witnessed->str() +
                                   ", where the trace was compared with the module; --beyond-witnesses "
                                   "(SessionOptions::beyondWitnesses) runs it all the same");
  if (sizes[symbol] == 0) {
    sizes[symbol] = size;
    boundBy[symbol] = index;
  }
  if (sizes[symbol] == size)
    return Error::success();
  return mismatch(index, tensor,
                  names[symbol] + " is " + Twine(sizes[symbol]) + " in " +
                      signature.inputs[boundBy[symbol]]->name + "; give both the same size");
}

Error SymbolBinder::checkInput(size_t index, const at::Tensor &tensor) {
  const plan::Input &input = *signature.inputs[index];
  if (!tensor.defined())
    return llvm::createStringError("input " + input.name + ": found no tensor, expected " +
                                   describe(*input.type, names));
  if (!(tensor.device().is_cpu() || (options.sizesAlone && tensor.is_meta())) ||
      tensor.layout() != c10::kStrided)
    return mismatch(index, tensor, "it must be a dense tensor on the CPU, and is " + tensor.toString());
  if (dtypeOf(tensor.scalar_type()) != input.type->dtype)
    return mismatch(index, tensor, "convert it to " + plan::nameOf(input.type->dtype));
  if (int64_t(input.type->dims.size()) != tensor.dim())
    return mismatch(index, tensor, "give it " + Twine(input.type->dims.size()) + " dimensions");
  for (size_t dim = 0; dim < input.type->dims.size(); ++dim) {
    const plan::DimExpr &expected = *input.type->dims[dim];
    if (std::optional<uint32_t> symbol = plan::asSymbol(expected)) {
      if (Error error = bind(index, tensor, dim, *symbol))
        return error;
    } else if (auto size = plan::asConstant(expected); size && *size != tensor.size(dim)) {
      return mismatch(index, tensor,
                      "the trace fixed dimension " + Twine(dim) + " at " + Twine(*size) +
                          "; compile with --dynamic to leave it open");
    }
  }
  return Error::success();
}

Error SymbolBinder::checkExpressions(llvm::ArrayRef<at::Tensor> inputs) const {
  for (size_t index = 0; index < inputs.size(); ++index) {
    const plan::TensorType &type = *signature.inputs[index]->type;
    for (size_t dim = 0; dim < type.dims.size(); ++dim) {
      std::optional<int64_t> size = plan::evaluate(*type.dims[dim], sizes);
      if (size && *size != inputs[index].size(dim))
        return mismatch(index, inputs[index],
                        plan::toString(*type.dims[dim], names) + " is " + Twine(*size) + " for these inputs");
    }
  }
  return Error::success();
}

/// `2 inputs (input_ids, attention_mask)`.
static std::string describeInputs(const plan::Signature &signature) {
  auto names = llvm::map_range(signature.inputs, [](const auto &input) { return input->name; });
  return std::to_string(signature.inputs.size()) + " (" + llvm::join(names, ", ") + ")";
}

llvm::Expected<std::vector<int64_t>> bindSymbols(const plan::Signature &signature,
                                                 llvm::ArrayRef<at::Tensor> inputs, BindOptions options) {
  if (inputs.size() != signature.inputs.size())
    return llvm::createStringError("signature " + signature.name + ": found " + Twine(inputs.size()) +
                                   " inputs, expected " + describeInputs(signature));
  SymbolBinder binder(signature, options);
  for (size_t index = 0; index < inputs.size(); ++index)
    if (Error error = binder.checkInput(index, inputs[index]))
      return error;
  if (Error error = binder.checkExpressions(inputs))
    return error;
  return binder.take();
}

/// A tensor over the memory that `tensor` covers, without the rest of the caller's storage. Keeps the storage
/// alive.
static at::Tensor withOwnStorage(const at::Tensor &tensor) {
  if (!tensor.is_cpu() || tensor.storage().nbytes() == tensor.nbytes())
    return tensor;
  // Never written: no operator of a plan writes to its operands.
  void *data = const_cast<void *>(tensor.const_data_ptr());
  return at::from_blob(data, tensor.sizes(), [tensor](void *) {}, at::TensorOptions(tensor.scalar_type()));
}

std::vector<at::Tensor> canonicalized(llvm::ArrayRef<at::Tensor> inputs) {
  c10::InferenceMode inference;
  std::vector<at::Tensor> tensors;
  for (const at::Tensor &input : inputs)
    tensors.push_back(withOwnStorage(input.resolve_conj().resolve_neg().contiguous()));
  return tensors;
}

} // namespace cleave::runtime
