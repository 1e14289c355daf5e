//===- RunInputs.h - What `cleave run` runs on ------------------*- C++ -*-===//
#ifndef CLEAVE_TOOLS_CLEAVE_RUN_RUNINPUTS_H
#define CLEAVE_TOOLS_CLEAVE_RUN_RUNINPUTS_H

#include "runtime/session/Session.h"
#include "tools/cleave/run/Stream.h"
#include <string>

namespace cleave {

/// The requests in a file: one, or those of a stream. Of several processes, those read it that need what is
/// in it, and it must be the same there; the others get sizes.
llvm::Expected<Requests> readInputs(runtime::Session &session, const std::string &file, bool isStream);

/// Tensors without anything in them, of the types that another process tells of. May throw what libtorch
/// throws.
llvm::Expected<std::vector<at::Tensor>> describedInputs(llvm::StringRef words);

} // namespace cleave

#endif // CLEAVE_TOOLS_CLEAVE_RUN_RUNINPUTS_H
