//===- OutputProtocol.h - Messages to the output broker ---------*- C++ -*-===//
#ifndef CLEAVE_CODEGEN_PLAN_FILES_OUTPUTPROTOCOL_H
#define CLEAVE_CODEGEN_PLAN_FILES_OUTPUTPROTOCOL_H

#include "codegen/plan/files/OutputBroker.h"

namespace cleave::plan {

/// A message in either direction: a request with its subject, or a result.
struct OutputMessage {
  enum Kind : char { MakeFile, CommitFile, DropFile, MakePlan, CommitPlan, MakeIr, Done, Failed };
  char kind = Done;
  int ticket = -1;
  /// A path, or the reason of a failure.
  std::string text;
  /// Descriptor passed with the message, or -1. The receiver owns it.
  int descriptor = -1;
};

/// Both return false if the other end has closed.
bool sendMessage(int socket, const OutputMessage &message);
bool receiveMessage(int socket, OutputMessage &message);

/// Serves requests until the other end closes. Requests are untrusted.
void serveOutputs(int socket, const OutputPaths &paths);

} // namespace cleave::plan

#endif // CLEAVE_CODEGEN_PLAN_FILES_OUTPUTPROTOCOL_H
