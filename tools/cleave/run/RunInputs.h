//===- RunInputs.h - Inputs of `cleave run` ---------------------*- C++ -*-===//
#ifndef CLEAVE_TOOLS_CLEAVE_RUN_RUNINPUTS_H
#define CLEAVE_TOOLS_CLEAVE_RUN_RUNINPUTS_H

#include "runtime/session/Session.h"
#include "tools/cleave/run/RequestStream.h"
#include <string>

namespace cleave {

/// Reads the requests in a file: one, or those of a stream. Of several processes, those that need the data
/// read the file, which must be the same for all of them; the others get sizes.
/// \param signature  the index of the signature that they are for.
llvm::Expected<Requests> readInputs(runtime::Session &session, uint32_t signature, const std::string &file,
                                    bool isStream);

/// Tensors without data, of the types that another process describes. May throw what libtorch throws.
llvm::Expected<std::vector<at::Tensor>> describedInputs(llvm::StringRef words);

} // namespace cleave

#endif // CLEAVE_TOOLS_CLEAVE_RUN_RUNINPUTS_H
