//===- RankProcess.h - `cleave run` as one of several processes -*- C++ -*-===//
#ifndef CLEAVE_TOOLS_CLEAVE_RANKPROCESS_H
#define CLEAVE_TOOLS_CLEAVE_RANKPROCESS_H

#include "runtime/Session.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include <string>

namespace cleave {

/// Opens the session of this process' rank and does `work` with it. A failure, here or in another process,
/// ends this one with one message and status 1, whatever its threads do then.
llvm::Error runAsRank(const std::string &plan, runtime::SessionOptions options,
                      llvm::function_ref<llvm::Error(runtime::Session &)> work);

} // namespace cleave

#endif // CLEAVE_TOOLS_CLEAVE_RANKPROCESS_H
