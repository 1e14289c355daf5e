//===- TypeCheck.cpp ------------------------------------------------------===//
#include "runtime/base/TypeCheck.h"
#include "codegen/plan/DimExpr.h"
#include "runtime/base/DTypes.h"
#include "runtime/base/Values.h"
#include "llvm/ADT/STLExtras.h"

namespace cleave::runtime {

TypeCheck::TypeCheck(const plan::Program &program, const plan::Signature &signature) : types(program.slots) {
  for (const auto &predicted : program.types)
    types[predicted->slot] = predicted->type.get();
  for (const auto &symbol : signature.symbols)
    symbolNames.push_back(symbol->name);
}

static bool fits(const plan::DimExpr &predicted, int64_t actual, llvm::ArrayRef<int64_t> symbols) {
  std::optional<int64_t> size = plan::evaluate(predicted, symbols);
  return !size || *size == actual;
}

static bool sizesFit(const plan::TensorType &type, const at::Tensor &tensor,
                     llvm::ArrayRef<int64_t> symbols) {
  if (!type.ranked)
    return true;
  return int64_t(type.dims.size()) == tensor.dim() &&
         llvm::all_of(llvm::zip(type.dims, tensor.sizes()),
                      [&](auto pair) { return fits(*std::get<0>(pair), std::get<1>(pair), symbols); });
}

static bool stridesFit(const plan::TensorType &type, const at::Tensor &tensor,
                       llvm::ArrayRef<int64_t> symbols) {
  // libtorch leaves to the kernel the strides of tensors without elements and of dimensions of size 1. The
  // same holds for what is computed from such a dimension, as by a reshape that is a view for size 1 only.
  if (!type.ranked || type.strides.size() != type.dims.size() || tensor.numel() == 0 ||
      llvm::is_contained(symbols, 1))
    return true;
  for (auto [predicted, size, stride] : llvm::zip(type.strides, tensor.sizes(), tensor.strides()))
    if (size != 1 && !fits(*predicted, stride, symbols))
      return false;
  return true;
}

/// ` with strides [1, 4]`.
static std::string describeStrides(const plan::TensorType &type, llvm::ArrayRef<std::string> symbolNames) {
  std::string text = " with strides [";
  for (const auto &stride : type.strides)
    text += (stride == type.strides.front() ? "" : ", ") + plan::toString(*stride, symbolNames);
  return text + "]";
}

void TypeCheck::check(uint32_t slot, const c10::IValue &value, llvm::ArrayRef<int64_t> symbols) const {
  const plan::TensorType *type = types[slot];
  if (!type)
    return;
  TORCH_CHECK(value.isTensor(), "the plan predicts ", describe(*type, symbolNames), ", found ",
              value.tagKind());
  const at::Tensor &tensor = value.toTensor();
  // A quantized tensor has the dtype of its underlying integers.
  plan::DType found = dtypeOf(c10::toUnderlying(tensor.scalar_type()));
  bool sameDType = type->dtype == plan::DType::Unknown || type->dtype == found;
  TORCH_CHECK(sameDType && sizesFit(*type, tensor, symbols), "the plan predicts ",
              describe(*type, symbolNames), ", found ", describe(tensor));
  TORCH_CHECK(stridesFit(*type, tensor, symbols), "the plan predicts ", describe(*type, symbolNames),
              describeStrides(*type, symbolNames), ", found ", describe(tensor), " with strides ",
              tensor.strides());
}

} // namespace cleave::runtime
