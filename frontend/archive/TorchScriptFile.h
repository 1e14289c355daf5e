//===- TorchScriptFile.h - A TorchScript archive, mapped --------*- C++ -*-===//
#ifndef CLEAVE_FRONTEND_ARCHIVE_TORCHSCRIPTFILE_H
#define CLEAVE_FRONTEND_ARCHIVE_TORCHSCRIPTFILE_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <array>
#include <cstdint>
#include <functional>
#include <torch/csrc/jit/api/module.h>

namespace cleave {

/// A loaded model whose weights lie in the mapped file. The mapping lives as long as any of its tensors.
struct TorchScriptFile {
  torch::jit::Module module;
  /// BLAKE3 of the file.
  std::array<uint8_t, 32> fingerprint;
  /// Tells the system that these bytes of a weight are not needed for now, where they lie in the mapping:
  /// they count as resident only while somebody reads them.
  std::function<void(const void *begin, size_t bytes)> release;

  /// Opens an archive that torch.jit.save wrote. Every record is compared with its CRC32 first (libtorch
  /// itself does not for weights), so a damaged file is refused before anything is made of it. `progress`,
  /// unless empty, is told which share of this is done. Where `listedOperators`, code that calls others than
  /// plans may is refused before any of it runs.
  static llvm::Expected<TorchScriptFile>
  open(llvm::StringRef path, const std::function<void(double)> &progress = {}, bool listedOperators = false);
};

} // namespace cleave

#endif // CLEAVE_FRONTEND_ARCHIVE_TORCHSCRIPTFILE_H
