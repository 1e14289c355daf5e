//===- Unpickle.h - Values of a model's pickles -----------------*- C++ -*-===//
//
// Private to frontend/.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_FRONTEND_ARCHIVE_UNPICKLE_H
#define CLEAVE_FRONTEND_ARCHIVE_UNPICKLE_H

#include "llvm/ADT/ArrayRef.h"
#include <torch/csrc/jit/serialization/storage_context.h>
#include <torch/csrc/jit/serialization/unpickler.h>

namespace cleave {

/// The value of a pickle that checkPickle accepts. Sizes and strides of tensors come from the file, so they
/// are checked to be within `storages` before any operator or code of the model (`__setstate__`) sees them.
/// Throws libtorch's exceptions on failure.
/// \param version  version of the archive's format.
c10::IValue unpickle(llvm::ArrayRef<uint8_t> pickle, uint64_t version, torch::jit::TypeResolver resolver,
                     std::shared_ptr<torch::jit::DeserializationStorageContext> storages);

} // namespace cleave

#endif // CLEAVE_FRONTEND_ARCHIVE_UNPICKLE_H
