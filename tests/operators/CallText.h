//===- CallText.h - Calls of operators as text ------------------*- C++ -*-===//
#ifndef CLEAVE_TESTS_OPERATORS_CALLTEXT_H
#define CLEAVE_TESTS_OPERATORS_CALLTEXT_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <c10/core/ScalarType.h>
#include <cstdint>
#include <string>
#include <vector>

namespace cleave::operators {

enum class ValueKind : uint8_t {
  None,
  /// A tensor that has nothing, as operators give for results that nobody asked for.
  Undefined,
  Bool,
  Int,
  Float,
  Complex,
  String,
  Device,
  Tensor,
  List,
  Tuple,
  Dict,
  /// A result of another operator.
  Call,
};

/// How a tensor is made: a storage that holds all that `strides` reach, and what is in it.
struct TensorSpec {
  c10::ScalarType dtype = c10::kFloat;
  std::vector<int64_t> sizes;
  /// Empty: those of a contiguous tensor.
  std::vector<int64_t> strides;
  /// Elements before the first one.
  int64_t offset = 0;
  /// Random: uniform in [low, high]. Listed: `integers` or `reals`, again and again.
  enum class Fill : uint8_t { Normal, Random, Listed } fill = Fill::Normal;
  double low = 0, high = 1;
  std::vector<int64_t> integers;
  std::vector<double> reals;
  /// How many elements are then replaced by values that are extreme for the dtype.
  int64_t extremes = 0;
};

/// A value from which an argument is made. Copyable, and comparable by its text.
struct CallValue {
  ValueKind kind = ValueKind::None;
  /// Bool, Int; of a Call the number of the result.
  int64_t integer = 0;
  /// Float, Complex.
  double real = 0, imaginary = 0;
  /// String, Device; the element type of a List, `key,value` of a Dict, the operator of a Call.
  std::string text = {};
  TensorSpec tensor = {};
  /// Of a List, Tuple or Call; of a Dict key and value in turn.
  std::vector<CallValue> items = {};
};

/// One call: `aten::add.Tensor t:f32:2,3::n t:f32:3::n i:1`, that is the operator and its arguments,
/// separated by spaces:
///
///     none undef true i:-1 f:0.5 c:1,2 s:mean d:cpu     (in strings, %20 is a space)
///     t:DTYPE:SIZES:STRIDES:FILL                        FILL is n, r=LOW,HIGH or v=A,B,…, then perhaps
///     @OFFSET and !EXTREMES [int i:1 i:2 ]   ( i:1 none )   {str,int s:a i:1 }   <aten::relu t:f32:2::n >0
struct Call {
  std::string op;
  std::vector<CallValue> arguments;
};

llvm::Expected<Call> parseCall(llvm::StringRef line);
std::string toText(const Call &call);

/// `f32`; the types that plans know, and no others.
llvm::StringRef nameOf(c10::ScalarType dtype);

} // namespace cleave::operators

#endif // CLEAVE_TESTS_OPERATORS_CALLTEXT_H
