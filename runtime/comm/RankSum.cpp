//===- RankSum.cpp - Sums in rank order -----------------------------------===//
#include "runtime/comm/RankSum.h"
#include <algorithm>
#include <c10/util/Exception.h>
#include <type_traits>

namespace cleave::runtime {

using c10::ScalarType;
using llvm::ArrayRef;

/// Elements that are summed at a time: their sums stay in the L1 cache.
static constexpr int64_t kBlock = 1024;

template <typename Element, typename Sum>
static void addTo(Sum *sums, const Element *elements, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    if constexpr (std::is_same_v<Element, bool>)
      sums[i] = sums[i] | elements[i];
    else
      sums[i] += static_cast<Sum>(elements[i]);
}

template <typename Element, typename Sum>
static void sumAs(ArrayRef<const char *> inputs, ArrayRef<char *> outputs, int64_t count) {
  alignas(64) Sum sums[kBlock];
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t size = std::min(kBlock, count - begin);
    const Element *first = reinterpret_cast<const Element *>(inputs.front()) + begin;
    for (int64_t i = 0; i < size; ++i)
      sums[i] = static_cast<Sum>(first[i]);
    for (const char *input : inputs.drop_front())
      addTo(sums, reinterpret_cast<const Element *>(input) + begin, size);
    for (char *output : outputs) {
      Element *sum = reinterpret_cast<Element *>(output) + begin;
      for (int64_t i = 0; i < size; ++i)
        sum[i] = static_cast<Element>(sums[i]);
    }
  }
}

using Adder = void (*)(ArrayRef<const char *>, ArrayRef<char *>, int64_t);

/// How to add elements of `dtype`, and how many numbers one element has; null if they cannot be added.
static std::pair<Adder, int64_t> adderOf(ScalarType dtype) {
  switch (dtype) {
  case ScalarType::Bool:
    return {sumAs<bool, bool>, 1};
  // Signed integers are added as unsigned ones, whose overflow is defined.
  case ScalarType::Byte:
  case ScalarType::Char:
    return {sumAs<uint8_t, uint8_t>, 1};
  case ScalarType::Short:
    return {sumAs<uint16_t, uint16_t>, 1};
  case ScalarType::Int:
    return {sumAs<uint32_t, uint32_t>, 1};
  case ScalarType::Long:
    return {sumAs<uint64_t, uint64_t>, 1};
  case ScalarType::Half:
    return {sumAs<c10::Half, float>, 1};
  case ScalarType::BFloat16:
    return {sumAs<c10::BFloat16, float>, 1};
  case ScalarType::Float:
    return {sumAs<float, float>, 1};
  case ScalarType::Double:
    return {sumAs<double, double>, 1};
  case ScalarType::ComplexFloat:
    return {sumAs<float, float>, 2};
  case ScalarType::ComplexDouble:
    return {sumAs<double, double>, 2};
  default:
    return {nullptr, 0};
  }
}

std::pair<int64_t, int64_t> chunkOf(int64_t count, int64_t ranks, int64_t index) {
  constexpr int64_t step = 64;
  const int64_t steps = ((count + step - 1) / step + ranks - 1) / ranks;
  const int64_t begin = std::min(count, index * steps * step);
  return {begin, std::min(count, begin + steps * step)};
}

void checkSummable(ScalarType dtype) {
  TORCH_CHECK(adderOf(dtype).first, "found elements of ", dtype, ", expected numbers that can be added");
}

void sumInOrder(ScalarType dtype, ArrayRef<const char *> inputs, ArrayRef<char *> outputs, int64_t count) {
  auto [add, numbers] = adderOf(dtype);
  add(inputs, outputs, count * numbers);
}

} // namespace cleave::runtime
