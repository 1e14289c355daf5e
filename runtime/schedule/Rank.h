//===- Rank.h - Executes the actions of one rank ----------------*- C++ -*-===//
#ifndef CLEAVE_RUNTIME_SCHEDULE_RANK_H
#define CLEAVE_RUNTIME_SCHEDULE_RANK_H

#include "codegen/plan/Plan.h"
#include "codegen/plan/Schedule.h"
#include "runtime/base/Trace.h"
#include "runtime/device/DeviceWorker.h"
#include "runtime/executor/WeightStore.h"
#include "runtime/operators/Operators.h"
#include "runtime/schedule/ProgramRun.h"
#include "runtime/schedule/Request.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/Support/Error.h"
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace cleave::runtime {

/// Options of a rank; see SessionOptions.
struct RankOptions {
  bool checkTypes, traced, cudaGraphs;
};

/// One rank: its weights, its programs, and for each signature the list of actions that it performs for a
/// request.
class Rank {
public:
  /// `plan`, `operators` and `worker` must outlive the result.
  static llvm::Expected<std::unique_ptr<Rank>> load(const plan::Plan &plan,
                                                    std::shared_ptr<plan::SafetensorsFile> weights,
                                                    uint32_t rank, DeviceWorker &worker, Operators &operators,
                                                    RankOptions options);

  /// True if this rank has actions for `signature`.
  bool takesPart(uint32_t signature) const { return !parts[signature].actions.empty(); }
  /// Performs this rank's actions for a request, on the thread of its device. Failures become failures of the
  /// request.
  void execute(Request &request, uint32_t signature);

  /// What the rank does, for messages: `(stage 1: transformer.h.2) is computing transformer.h.2.attn:
  /// aten::addmm`. `awaited` is the rank that its tensor-parallel group waits for, or empty. Thread-safe.
  std::string describe(const std::string &awaited) const;

  /// Stages that run without a CUDA graph although one was requested, and why. Thread-safe.
  std::vector<std::string> eagerStages() const;
  /// The actions since the last call, in order; empty unless `traced`.
  std::vector<TraceEvent> takeTrace();

  const WeightStore &weightStore() const { return weights; }
  int64_t weightBytes() const { return weights.bytes(); }
  /// What writes of this rank's states have cost.
  StateTraffic trafficOf(const StateStore &states) const;
  double busySeconds() const { return double(busyNanoseconds.load()) * 1e-9; }
  const DeviceWorker &device() const { return worker; }
  uint32_t number() const { return index; }

private:
  /// An action of the schedule, with what it refers to.
  struct ResolvedAction {
    const plan::Action *action;
    /// The action's micro-batch, as an index among those of all data-parallel ranks.
    uint64_t microbatch;
    /// The program that it runs, or whose values it moves; null for a reduction.
    ProgramRun *program;
    /// Sends and receives: the transfer.
    const ValueFlow *transfer;
    P2PKey key;
    /// Reductions: the group, and the states that it sums.
    uint32_t group;
    llvm::ArrayRef<uint32_t> states;
  };
  /// Actions of the rank for one signature.
  struct Part {
    std::vector<ValueFlow> flows;
    std::vector<std::unique_ptr<ProgramRun>> programs;
    std::vector<ResolvedAction> actions;

    /// Null when the program is another rank's.
    ProgramRun *find(plan::ProgramKey key) const;
  };

  Rank(const plan::Plan &plan, uint32_t index, DeviceWorker &worker, WeightStore weights,
       RankOptions options);
  /// Fails if the weights, or the predicted peak, exceed the plan's memory limit.
  llvm::Error checkMemory() const;
  llvm::Error loadProgram(const plan::Program &program, Operators &operators);
  void resolveActions(uint32_t signature);
  ResolvedAction resolve(const Part &part, const plan::Action &action) const;
  /// Adds the action to the busy time and the trace.
  void record(const Request &request, const plan::Action &action, TraceEvent::Clock::time_point begin);
  /// Runs `work`, whose exceptions become failures of the request. False if it throws or returns false.
  bool attempt(Request &request, const ResolvedAction &resolved, llvm::function_ref<bool()> work);
  /// Performs one action; false when the request failed meanwhile.
  bool perform(Request &request, const Part &part, const ResolvedAction &resolved);
  void compute(Request &request, const Part &part, const ResolvedAction &resolved);
  void reduce(Request &request, const ResolvedAction &resolved);
  bool send(Request &request, const ResolvedAction &resolved);
  bool receive(Request &request, const ResolvedAction &resolved);

  const plan::Plan &plan;
  const uint32_t index;
  DeviceWorker &worker;
  const WeightStore weights;
  /// By GroupKind, Tensor and Data: this rank's group.
  const std::array<std::optional<uint32_t>, 2> ownGroups;
  /// By signature.
  std::vector<Part> parts;
  std::atomic<int64_t> busyNanoseconds{0};
  /// The current action; null between requests.
  std::atomic<const ResolvedAction *> current{nullptr};
  /// Values of a transfer; kept for its capacity.
  std::vector<c10::IValue> moved;
  const RankOptions options;
  std::mutex traceMutex;
  std::vector<TraceEvent> trace;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_SCHEDULE_RANK_H
