//===- TensorFile.h - Reading and writing safetensors files -----*- C++ -*-===//
#ifndef CLEAVE_RUNTIME_BASE_TENSORFILE_H
#define CLEAVE_RUNTIME_BASE_TENSORFILE_H

#include "codegen/plan/Safetensors.h"
#include "codegen/plan/files/AtomicFile.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <ATen/core/Tensor.h>
#include <memory>
#include <string>
#include <vector>

namespace cleave::runtime {

struct NamedTensor {
  std::string name;
  at::Tensor tensor;
};

/// The tensor of an entry, backed by the mapped file, which it keeps alive. Copied where its data is not
/// aligned to its element size.
llvm::Expected<at::Tensor> mappedTensor(std::shared_ptr<plan::SafetensorsFile> file,
                                        const plan::TensorEntry &entry);

/// The tensors of a safetensors file, backed by its mapping, in the order of the file.
llvm::Expected<std::vector<NamedTensor>> readTensors(llvm::StringRef path);

/// Writes a safetensors file atomically: the file appears whole or not at all.
llvm::Error writeTensors(llvm::StringRef path, llvm::ArrayRef<NamedTensor> tensors);
/// Writes into `file` without committing it.
llvm::Error writeTensors(plan::AtomicFile &file, llvm::ArrayRef<NamedTensor> tensors);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_BASE_TENSORFILE_H
