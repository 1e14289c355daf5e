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

/// Refuses an archive whose code names operators that a plan may not call, or whose code or objects name C++
/// classes other than those of quantized weights. The check runs none of the model's code. It comes before
/// libtorch imports the code, because the import evaluates default arguments and calls `__setstate__` of
/// objects. Names count wherever they follow a dot, so a model with attributes named like such operators is
/// refused, too.
llvm::Error checkOperators(caffe2::serialize::PyTorchStreamReader &reader, llvm::ArrayRef<ZipRecord> records);

/// checkOperators for one source file. Throws the exceptions of libtorch's lexer.
llvm::Error checkSourceOperators(const std::string &text, const std::string &name);

} // namespace cleave

#endif // CLEAVE_FRONTEND_ARCHIVE_OPERATORCHECK_H
