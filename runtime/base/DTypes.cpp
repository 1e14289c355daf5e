//===- DTypes.cpp ---------------------------------------------------------===//
#include "runtime/base/DTypes.h"
#include <utility>

namespace cleave::runtime {

using c10::ScalarType;
using plan::DType;

static constexpr std::pair<DType, ScalarType> kTypes[] = {
    {DType::Bool, ScalarType::Bool},
    {DType::UInt8, ScalarType::Byte},
    {DType::Int8, ScalarType::Char},
    {DType::Int16, ScalarType::Short},
    {DType::Int32, ScalarType::Int},
    {DType::Int64, ScalarType::Long},
    {DType::Half, ScalarType::Half},
    {DType::BFloat16, ScalarType::BFloat16},
    {DType::Float, ScalarType::Float},
    {DType::Double, ScalarType::Double},
    {DType::ComplexFloat, ScalarType::ComplexFloat},
    {DType::ComplexDouble, ScalarType::ComplexDouble},
    {DType::Float8E4M3, ScalarType::Float8_e4m3fn},
    {DType::Float8E5M2, ScalarType::Float8_e5m2},
};

std::optional<ScalarType> scalarTypeOf(DType dtype) {
  for (auto [ours, theirs] : kTypes)
    if (ours == dtype)
      return theirs;
  return std::nullopt;
}

DType dtypeOf(ScalarType type) {
  for (auto [ours, theirs] : kTypes)
    if (theirs == type)
      return ours;
  return DType::Unknown;
}

} // namespace cleave::runtime
