//===- Launch.h - Rank and rendezvous of this process -----------*- C++ -*-===//
#ifndef CLEAVE_RUNTIME_BASE_LAUNCH_H
#define CLEAVE_RUNTIME_BASE_LAUNCH_H

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <cstdint>
#include <optional>
#include <string>

namespace cleave::runtime {

/// Rank of this process in a run of several processes, and the address of the store where they meet.
struct Launch {
  uint32_t rank = 0, size = 1;
  /// Number of processes that share this host's cores, and the index of this process among them, if known.
  uint32_t localSize = 1;
  std::optional<uint32_t> localRank = std::nullopt;
  /// Address of the store. Rank 0 holds the store, or torchrun's agent does.
  std::string address;
  uint16_t port = 0;
  bool agentHoldsStore = false;
  /// Prefix of every key in the store. A restarted run gets another one, so that it does not read keys of the
  /// failed attempt.
  std::string prefix;
};

/// Reads the launch from the environment: variables of torchrun, Open MPI, Slurm or PMI. Nothing where this
/// process was started alone. Fails where the variables are incomplete.
llvm::Expected<std::optional<Launch>> launchFromEnvironment();

/// As launchFromEnvironment, for any environment: `variable` returns the value of a name, or nothing if it is
/// not set.
llvm::Expected<std::optional<Launch>>
readLaunch(llvm::function_ref<std::optional<std::string>(llvm::StringRef)> variable);

/// The first host of a Slurm node list: `node003` of `node[003-005,9],other`.
std::string firstHost(llvm::StringRef list);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_BASE_LAUNCH_H
