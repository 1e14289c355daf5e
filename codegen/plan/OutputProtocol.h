//===- OutputProtocol.h - What is said to the process that writes outputs -*- C++ -*-===//
#ifndef CLEAVE_CODEGEN_PLAN_OUTPUTPROTOCOL_H
#define CLEAVE_CODEGEN_PLAN_OUTPUTPROTOCOL_H

#include "codegen/plan/OutputBroker.h"

namespace cleave::plan {

/// One message, either way: a request and what it is about, or its result.
struct OutputMessage {
  enum Kind : char { MakeFile, CommitFile, DropFile, MakePlan, CommitPlan, MakeIr, Done, Failed };
  char kind = Done;
  int ticket = -1;
  /// A path, or why it failed.
  std::string text;
  /// Goes along with the message, or -1. Whoever receives one owns it.
  int descriptor = -1;
};

/// False where the other end is gone.
bool sendMessage(int socket, const OutputMessage &message);
bool receiveMessage(int socket, OutputMessage &message);

/// Does what the other end asks, until that is gone. What it asks is not trusted.
void serveOutputs(int socket, const OutputPaths &paths);

} // namespace cleave::plan

#endif // CLEAVE_CODEGEN_PLAN_OUTPUTPROTOCOL_H
