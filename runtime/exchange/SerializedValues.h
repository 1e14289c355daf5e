//===- SerializedValues.h - Values as bytes, and back ---------------------*- C++ -*-===//
//
// What a stage gives another process: a header that says what the values are, and the memory of their
// tensors. A tensor arrives with the strides that it has here, so that what computes with it finds what it
// would find in one process; where it is a part of something larger, only the part is sent. Tensors of a
// device that has a way of its own there go apart.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_RUNTIME_EXCHANGE_SERIALIZEDVALUES_H
#define CLEAVE_RUNTIME_EXCHANGE_SERIALIZEDVALUES_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <optional>
#include <string>
#include <vector>

namespace cleave::runtime {

/// The memory of a tensor: `bytes` from `data` on, alive as long as `owner`.
struct Block {
  void *data;
  size_t bytes;
  at::Tensor owner;
};

/// Values on their way out.
struct SerializedValues {
  std::string header;
  /// None of them empty.
  std::vector<Block> blocks;
  /// The memory of tensors that go apart, each a row of bytes and not empty.
  std::vector<at::Tensor> rows;
};

/// What a receiver takes at most. Nothing is allocated that is beyond it.
struct SerializedLimits {
  /// Values, and bytes of the elements of their tensors together.
  size_t values;
  uint64_t bytes;
};

/// What this machine has, where nothing is known of what comes.
uint64_t machineMemory();

/// How long a header may be: what lists and strings of a few hundred thousand elements take.
inline constexpr size_t kMostHeader = 4 << 20;

/// Throws for values that have no bytes: objects of classes, and tensors that are sparse, quantized by
/// channel or neither on the CPU nor on `apart`; and for a header longer than kMostHeader.
/// \param apart  the device whose tensors go apart.
SerializedValues serialize(llvm::ArrayRef<c10::IValue> values, std::optional<c10::Device> apart = std::nullopt);

/// Values on their way in.
class Deserializer {
public:
  /// Reads a header and makes the tensors. Throws for bytes that are no header, and for more than `limits`.
  /// \param apart  where tensors are that come apart.
  Deserializer(llvm::StringRef header, SerializedLimits limits, std::optional<c10::Device> apart = std::nullopt);

  /// To be filled, in the order of the parcel's.
  llvm::ArrayRef<Block> blocks() const { return memory; }
  llvm::ArrayRef<at::Tensor> rows() const { return apartRows; }
  /// Adds the values to `values`, once all blocks are filled.
  void finish(std::vector<c10::IValue> &values);

private:
  /// A tensor that lies in its memory with gaps.
  struct Spread {
    at::Tensor compact, whole;
  };
  class Reader;

  std::vector<c10::IValue> values;
  std::vector<Block> memory;
  std::vector<at::Tensor> apartRows;
  std::vector<Spread> spreads;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_EXCHANGE_SERIALIZEDVALUES_H
