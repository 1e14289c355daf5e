//===- Coordinator.h - What process 0 has the others do ----------------*- C++ -*-===//
#ifndef CLEAVE_RUNTIME_SESSION_COORDINATOR_H
#define CLEAVE_RUNTIME_SESSION_COORDINATOR_H

#include "codegen/plan/Plan.h"
#include "runtime/exchange/P2PChannel.h"
#include "runtime/rendezvous/Membership.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"
#include <ATen/core/Tensor.h>
#include <map>
#include <optional>
#include <vector>

namespace cleave::runtime {

/// A call of a session, which all processes make.
struct Command {
  enum class Kind { Run, Reset, End };
  Kind kind = Kind::End;
  uint32_t signature = 0;
  std::vector<at::Tensor> inputs = {};
};

/// The values by which process 0 tells of a command. Throws for what are none of the plan.
Command readCommand(const plan::Plan &plan, llvm::ArrayRef<c10::IValue> values);

/// Fails in all processes where they do not say alike whether process 0 leads.
llvm::Error agreeWhoLeads(Membership &membership, bool isLed);

/// The way of commands from process 0 to all others, which carry them out one after the other.
class Coordinator {
public:
  /// \param account  counts what comes.
  Coordinator(const plan::Plan &plan, Membership &membership, MemoryAccount &account);

  /// Of process 0, one thread at a time. Returns when the command before this one has been taken. Who does not
  /// read inputs is told their sizes alone.
  llvm::Error give(const Command &command);
  /// Of the others. Waits for as long as it takes.
  llvm::Expected<Command> take();

private:
  const plan::Plan &plan;
  Membership &membership;
  /// By rank; of process 0.
  std::map<uint32_t, Sender> senders;
  /// Of the others.
  std::optional<Receiver> receiver;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_SESSION_COORDINATOR_H
