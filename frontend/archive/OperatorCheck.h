//===- OperatorCheck.h - Operators that a model's code names ----*- C++ -*-===//
//
// Private to frontend/.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_FRONTEND_ARCHIVE_OPERATORCHECK_H
#define CLEAVE_FRONTEND_ARCHIVE_OPERATORCHECK_H

#include "frontend/archive/ZipDirectory.h"
#include <caffe2/serialize/inline_container.h>

namespace cleave {

/// Refuses an archive whose code names operators, or whose objects have C++ classes, that a plan may not
/// call. None of its code runs, whereas importing code evaluates default arguments, and objects restore
/// themselves. Names count wherever they follow a dot, so a model with attributes named like such operators
/// is refused, too.
llvm::Error checkOperators(caffe2::serialize::PyTorchStreamReader &reader, llvm::ArrayRef<ZipRecord> records);

/// checkOperators for one source file. Throws the exceptions of libtorch's lexer.
llvm::Error checkSource(const std::string &text, const std::string &name);

} // namespace cleave

#endif // CLEAVE_FRONTEND_ARCHIVE_OPERATORCHECK_H
