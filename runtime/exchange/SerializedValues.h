//===- SerializedValues.h - Serialization of values -------------*- C++ -*-===//
//
// Values that a stage sends to another process: a header that describes them, and the memory of their
// tensors. A tensor keeps its strides, so that the receiving stage sees the same layout as in one process. Of
// a view into a larger tensor only the viewed part is sent. Tensors of a device with a TensorLink are link
// buffers, apart from CPU memory.
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

/// Memory of a tensor: `bytes` bytes at `data`, kept alive by `owner`.
struct TensorMemory {
  void *data;
  size_t bytes;
  at::Tensor owner;
};

/// Values serialized for another process: one header and the memory of each tensor.
struct SerializedValues {
  std::string header;
  /// CPU memory of tensors; no block is empty.
  std::vector<TensorMemory> blocks;
  /// Memory of tensors that go through a TensorLink: byte tensors, not empty.
  std::vector<at::Tensor> linkBuffers;
};

/// Most that a receiver accepts. Nothing beyond it is allocated.
struct SerializedLimits {
  /// Number of values, and bytes of the elements of their tensors in total.
  size_t values;
  uint64_t bytes;
};

/// Memory of this machine: the limit for values of unknown size.
uint64_t machineMemory();

/// Longest header, in bytes. Lists and strings of a few hundred thousand elements fit.
inline constexpr size_t kMaxHeader = 4 << 20;

/// Serializes values. Throws for values that cannot be: objects of classes; tensors that are sparse,
/// quantized by channel, or on another device than the CPU and `linkDevice`; a header longer than kMaxHeader.
/// \param linkDevice  the device whose tensors go through a TensorLink.
SerializedValues serialize(llvm::ArrayRef<c10::IValue> values,
                           std::optional<c10::Device> linkDevice = std::nullopt);

/// Deserializes values: reads the header, allocates the tensors, and returns the values once their memory is
/// filled.
class Deserializer {
public:
  /// Parses a header and allocates the tensors. Throws for a malformed header, and for more than `limits`.
  /// \param linkDevice  the device of tensors that come through a TensorLink.
  Deserializer(llvm::StringRef header, SerializedLimits limits,
               std::optional<c10::Device> linkDevice = std::nullopt);

  /// Memory to fill, in the order of the sender's blocks and link buffers.
  llvm::ArrayRef<TensorMemory> blocks() const { return memory; }
  llvm::ArrayRef<at::Tensor> linkBuffers() const { return buffers; }
  /// Appends the values to `values`, after all blocks and link buffers are filled.
  void finish(std::vector<c10::IValue> &values);

private:
  /// A tensor whose strides leave gaps in its memory.
  struct Spread {
    at::Tensor compact, whole;
  };
  class Reader;

  std::vector<c10::IValue> values;
  std::vector<TensorMemory> memory;
  std::vector<at::Tensor> buffers;
  std::vector<Spread> spreads;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_EXCHANGE_SERIALIZEDVALUES_H
