//===- Unpickle.h - Values out of a model's pickles -------------*- C++ -*-===//
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

/// The value of a pickle that checkPickle accepts. Its tensors, whose sizes and strides are the file's word,
/// lie within `storages`: they are checked before any operator and any code of the model (`__setstate__`)
/// gets to see them. Failures are exceptions of libtorch's.
/// \param version  of the archive's format.
c10::IValue unpickle(llvm::ArrayRef<uint8_t> pickle, uint64_t version, torch::jit::TypeResolver resolver,
                     std::shared_ptr<torch::jit::DeserializationStorageContext> storages);

} // namespace cleave

#endif // CLEAVE_FRONTEND_ARCHIVE_UNPICKLE_H
