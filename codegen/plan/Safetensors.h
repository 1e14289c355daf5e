//===- Safetensors.h - Tensors in a file ------------------------*- C++ -*-===//
//
// The safetensors layout (huggingface/safetensors, format of version 0.4): u64 LE header length, JSON header,
// data. The format allows no gaps between tensors. Those whose sizes are multiples of 64 bytes are written
// first, on 64-byte boundaries, the others after them, each on the largest power of two that divides its
// size, so that a mapped file serves as weights directly. Files of other writers promise no alignment.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_CODEGEN_PLAN_SAFETENSORS_H
#define CLEAVE_CODEGEN_PLAN_SAFETENSORS_H

#include "codegen/plan/InputFile.h"
#include "codegen/plan/Plan.h"
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
/// torch's words: `float32`, `int64`, `bool`, …
llvm::StringRef nameOf(DType dtype);

/// One tensor of a safetensors file, contiguous, row-major.
struct TensorEntry {
  std::string name;
  DType dtype;
  std::vector<int64_t> shape;
  /// From the start of the file.
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

/// A mapped safetensors file, read as untrusted: header, ranges, overlaps and sizes are checked on opening,
/// data never touched. Entries stand in the order of their data.
class SafetensorsFile {
public:
  static llvm::Expected<std::shared_ptr<SafetensorsFile>> open(llvm::StringRef path);
  static llvm::Expected<std::shared_ptr<SafetensorsFile>> open(const InputFile &file);
  llvm::ArrayRef<TensorEntry> entries() const { return tensors; }
  /// Null when there is none of that name.
  const TensorEntry *find(llvm::StringRef name) const;
  /// The bytes of an entry; private to this process and writable (copy on write), alive as long as this
  /// object.
  uint8_t *data(const TensorEntry &entry) const { return mapping->data() + entry.offset; }
  uint64_t fileBytes() const { return mapping->bytes().size(); }

private:
  explicit SafetensorsFile(std::shared_ptr<MappedFile> mapping) : mapping(std::move(mapping)) {}
  const std::shared_ptr<MappedFile> mapping;
  std::vector<TensorEntry> tensors;
  llvm::StringMap<size_t> indexOf;
};

/// Writes `entries` (offset and bytes are filled in here) to a new file, the data of entry i from
/// `write(i, sink)`, which hands the entry's bytes to `sink` in order and in pieces; entries are asked for in
/// the order of their data. Returns length and checksum of the file. A failed write leaves no file, or the
/// older one of that name.
struct WrittenFile {
  uint64_t bytes;
  Digest digest;
};
using ByteSink = llvm::function_ref<llvm::Error(llvm::ArrayRef<uint8_t>)>;
llvm::Expected<WrittenFile>
writeSafetensors(llvm::StringRef path, std::vector<TensorEntry> entries,
                 llvm::function_ref<llvm::Error(size_t entry, ByteSink sink)> write);
/// The same into `file`, which is not committed.
llvm::Expected<WrittenFile>
writeSafetensors(AtomicFile &file, std::vector<TensorEntry> entries,
                 llvm::function_ref<llvm::Error(size_t entry, ByteSink sink)> write);

} // namespace cleave::plan

#endif // CLEAVE_CODEGEN_PLAN_SAFETENSORS_H
