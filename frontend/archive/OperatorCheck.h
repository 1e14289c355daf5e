//===- OperatorCheck.h - Which operators a model's code names ---*- C++ -*-===//
//
// Private to frontend/.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_FRONTEND_ARCHIVE_OPERATORCHECK_H
#define CLEAVE_FRONTEND_ARCHIVE_OPERATORCHECK_H

#include "frontend/archive/ZipDirectory.h"
#include <caffe2/serialize/inline_container.h>

namespace cleave {

/// Refuses an archive whose code names operators, or whose objects are of C++ classes, that a plan may not
/// call. Nothing of it is run: importing code evaluates defaults of arguments, and objects restore
/// themselves. Names count wherever they stand after a dot, so a model whose attributes are called like such
/// operators is refused as well.
llvm::Error checkOperators(caffe2::serialize::PyTorchStreamReader &reader, llvm::ArrayRef<ZipRecord> records);

/// The same of one source file. Exceptions are those of libtorch's lexer.
llvm::Error checkSource(const std::string &text, const std::string &name);

} // namespace cleave

#endif // CLEAVE_FRONTEND_ARCHIVE_OPERATORCHECK_H
