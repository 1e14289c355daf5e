//===- TorchScriptFile.h - A memory-mapped TorchScript archive --*- C++ -*-===//
#ifndef CLEAVE_FRONTEND_ARCHIVE_TORCHSCRIPTFILE_H
#define CLEAVE_FRONTEND_ARCHIVE_TORCHSCRIPTFILE_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <torch/csrc/jit/api/module.h>

namespace cleave {

/// A loaded model whose weights are in the mapped file. The mapping lives as long as any of its tensors.
struct TorchScriptFile {
  torch::jit::Module module;
  /// BLAKE3 of the file.
  std::array<uint8_t, 32> fingerprint;
  /// What torch.jit.save wrote into the archive to tell it from others; untrusted text, empty if there is
  /// none.
  std::string serializationId;
  /// Tells the system that these bytes of a weight, if they are in the mapping, are not needed for now, so
  /// that they are resident only while they are read.
  std::function<void(const void *begin, size_t bytes)> release;
  /// Bytes of the file.
  uint64_t size = 0;

  /// Opens an archive written by torch.jit.save. Every record is compared with its CRC32 first (libtorch does
  /// not check weights), so a damaged file is refused before it is parsed.
  /// \param progress         called with the share of this work that is done; may be empty.
  /// \param requireListedOperators  refuse code that names operators which plans may not call, before any of
  /// it runs.
  static llvm::Expected<TorchScriptFile> open(llvm::StringRef path,
                                              const std::function<void(double)> &progress = {},
                                              bool requireListedOperators = false);
};

} // namespace cleave

#endif // CLEAVE_FRONTEND_ARCHIVE_TORCHSCRIPTFILE_H
