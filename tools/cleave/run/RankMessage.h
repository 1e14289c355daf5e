//===- RankMessage.h - JSON that another rank has sent ----------*- C++ -*-===//
#ifndef CLEAVE_TOOLS_CLEAVE_RUN_RANKMESSAGE_H
#define CLEAVE_TOOLS_CLEAVE_RUN_RANKMESSAGE_H

#include "partitioner/machine/JsonFile.h"
#include "runtime/rendezvous/Membership.h"

namespace cleave {

/// Parses a JSON message of another rank. Fails if it is nested deeper than our messages, or has more objects
/// than a run has devices and outputs: LLVM's parser is recursive, and takes 4 KiB for each object.
inline llvm::Expected<llvm::json::Value> parseMessage(llvm::StringRef text) {
  return readJsonText(text, "a message", {"message", runtime::Membership::kMaxText, 1 << 16});
}

} // namespace cleave

#endif // CLEAVE_TOOLS_CLEAVE_RUN_RANKMESSAGE_H
