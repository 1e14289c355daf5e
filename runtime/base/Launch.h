//===- Launch.h - Which of several processes this one is --------*- C++ -*-===//
#ifndef CLEAVE_RUNTIME_BASE_LAUNCH_H
#define CLEAVE_RUNTIME_BASE_LAUNCH_H

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <cstdint>
#include <optional>
#include <string>

namespace cleave::runtime {

/// A process that runs one rank of a plan, and where it meets the others.
struct Launch {
  uint32_t rank = 0, size = 1;
  /// How many of the processes share this machine's cores, and which of them this one is, if that is known.
  uint32_t localSize = 1;
  std::optional<uint32_t> localRank = std::nullopt;
  /// Where the store is that all write to: held by rank 0, or by torchrun's agent.
  std::string address;
  uint16_t port = 0;
  bool agentHoldsStore = false;
  /// Begins every key in the store: an attempt after a failed one must not read what that has left.
  std::string prefix;
};

/// What the environment says of this process: torchrun's variables, Open MPI's, those of a Slurm step or
/// those of PMI. Nothing where it was started alone. Fails where they are incomplete.
llvm::Expected<std::optional<Launch>> launchFromEnvironment();

/// The same of any environment: `variable` gives a value by its name, nothing for what is not set.
llvm::Expected<std::optional<Launch>>
readLaunch(llvm::function_ref<std::optional<std::string>(llvm::StringRef)> variable);

/// The first machine of Slurm's list: `node003` of `node[003-005,9],other`.
std::string firstHost(llvm::StringRef list);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_BASE_LAUNCH_H
