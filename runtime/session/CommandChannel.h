//===- CommandChannel.h - Commands from rank 0 to the others ----*- C++ -*-===//
#ifndef CLEAVE_RUNTIME_SESSION_COMMANDCHANNEL_H
#define CLEAVE_RUNTIME_SESSION_COMMANDCHANNEL_H

#include "codegen/plan/Plan.h"
#include "runtime/capture/RequestCaptures.h"
#include "runtime/exchange/P2PChannel.h"
#include "runtime/rendezvous/Membership.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"
#include <ATen/core/Tensor.h>
#include <map>
#include <optional>
#include <vector>

namespace cleave::runtime {

/// A call of a session that all processes make.
struct Command {
  enum class Kind { Run, Reset, EndSequence, End };
  Kind kind = Kind::End;
  uint32_t signature = 0;
  uint64_t sequence = 0;
  std::vector<at::Tensor> inputs = {};
  /// Without hooks and names.
  ResolvedCaptures captures = {};
};

/// Parses a command of rank 0. Throws if the values are not a command for the plan.
Command readCommand(const plan::Plan &plan, llvm::ArrayRef<c10::IValue> values);

/// Fails in all processes unless they agree on whether rank 0 is the coordinator.
llvm::Error agreeOnCoordinator(Membership &membership, bool hasCoordinator);

/// Sends commands of rank 0 to all other processes, which execute them in order.
class CommandChannel {
public:
  /// \param account  counts received values.
  CommandChannel(const plan::Plan &plan, Membership &membership, MemoryAccount &account);

  /// Process 0, one thread at a time: sends a command. Returns when the previous command has been received.
  /// Ranks that do not read inputs receive only their sizes.
  llvm::Error send(const Command &command);
  /// Other processes: waits for a command, without a timeout.
  llvm::Expected<Command> receive();

private:
  const plan::Plan &plan;
  Membership &membership;
  /// In rank 0: by receiving rank.
  std::map<uint32_t, Sender> senders;
  /// In other processes.
  std::optional<Receiver> receiver;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_SESSION_COMMANDCHANNEL_H
