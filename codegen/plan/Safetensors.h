//===- Safetensors.h - Safetensors files ------------------------*- C++ -*-===//
//
// The layout of safetensors (huggingface/safetensors, format version 0.4): header length as u64 LE, JSON
// header, data. The format allows no gaps between tensors. So that a mapped file serves as weights directly,
// tensors whose sizes are multiples of 64 bytes are written first, on 64-byte boundaries; each other tensor
// is aligned to the largest power of two that divides its size. Files of other writers may have any
// alignment.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_CODEGEN_PLAN_SAFETENSORS_H
#define CLEAVE_CODEGEN_PLAN_SAFETENSORS_H

#include "codegen/plan/Plan.h"
#include "codegen/plan/files/InputFile.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace cleave::plan {

class AtomicFile;

/// Bytes of one element; 0 for Unknown.
int64_t bytesOf(DType dtype);
/// The dtype's name in torch: `float32`, `int64`, `bool`, …
llvm::StringRef nameOf(DType dtype);

/// A tensor in a safetensors file, contiguous and row-major.
struct TensorEntry {
  std::string name;
  DType dtype;
  std::vector<int64_t> shape;
  /// Bytes from the start of the file.
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

/// A memory-mapped, untrusted safetensors file. Header, ranges, overlaps and sizes are checked on opening;
/// data is not read. Entries are in the order of their data.
class SafetensorsFile {
public:
  static llvm::Expected<std::shared_ptr<SafetensorsFile>> open(llvm::StringRef path);
  static llvm::Expected<std::shared_ptr<SafetensorsFile>> open(const InputFile &file);
  llvm::ArrayRef<TensorEntry> entries() const { return tensors; }
  /// Null if there is no tensor of that name.
  const TensorEntry *find(llvm::StringRef name) const;
  /// The bytes of an entry: private to this process, writable (copy on write), and alive as long as this
  /// object.
  uint8_t *data(const TensorEntry &entry) const { return mapping->data() + entry.offset; }
  uint64_t fileBytes() const { return mapping->bytes().size(); }

private:
  explicit SafetensorsFile(std::shared_ptr<MappedFile> mapping) : mapping(std::move(mapping)) {}
  const std::shared_ptr<MappedFile> mapping;
  std::vector<TensorEntry> tensors;
  llvm::StringMap<size_t> indexOf;
};

/// Length and checksum of a written file.
struct WrittenFile {
  uint64_t bytes;
  Digest digest;
};
using ByteSink = llvm::function_ref<llvm::Error(llvm::ArrayRef<uint8_t>)>;
/// Writes `entries` to a new file; their offsets and bytes are computed here. `write(i, sink)` passes the
/// data of entry i to `sink` in order, piece by piece, and is called in the order of data. If it fails, no
/// file is left, or the older one of that name.
llvm::Expected<WrittenFile>
writeSafetensors(llvm::StringRef path, std::vector<TensorEntry> entries,
                 llvm::function_ref<llvm::Error(size_t entry, ByteSink sink)> write);
/// Writes into `file`, without committing it.
llvm::Expected<WrittenFile>
writeSafetensors(AtomicFile &file, std::vector<TensorEntry> entries,
                 llvm::function_ref<llvm::Error(size_t entry, ByteSink sink)> write);

} // namespace cleave::plan

#endif // CLEAVE_CODEGEN_PLAN_SAFETENSORS_H
