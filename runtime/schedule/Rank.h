//===- Rank.h - A rank's part of a plan -------------------------*- C++ -*-===//
#ifndef CLEAVE_RUNTIME_SCHEDULE_RANK_H
#define CLEAVE_RUNTIME_SCHEDULE_RANK_H

#include "codegen/plan/Plan.h"
#include "codegen/plan/Schedule.h"
#include "runtime/base/Trace.h"
#include "runtime/device/Device.h"
#include "runtime/executor/WeightStore.h"
#include "runtime/operators/Operators.h"
#include "runtime/schedule/Request.h"
#include "runtime/schedule/StageRun.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/Support/Error.h"
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace cleave::runtime {

/// What is asked of a rank, as SessionOptions has it.
struct RankOptions {
  bool checkTypes, traced, cudaGraphs;
};

/// One rank: its weights, its programs, and for each signature the list of actions that it does for a
/// request.
class Rank {
public:
  /// `plan`, `operators`, `states` and `device` must outlive the result.
  static llvm::Expected<std::unique_ptr<Rank>> load(const plan::Plan &plan,
                                                    std::shared_ptr<plan::SafetensorsFile> weights,
                                                    uint32_t rank, Device &device, Operators &operators,
                                                    States &states, RankOptions options);

  /// Whether this rank has anything to do for `signature`.
  bool takesPart(uint32_t signature) const { return !parts[signature].steps.empty(); }
  /// Does this rank's part of a request, on the thread of its device. Failures become the request's.
  void execute(Request &request, uint32_t signature);

  /// What it does, for messages: `(stage 1: transformer.h.2) is computing transformer.h.2.attn: aten::addmm`.
  /// `awaited` is the rank that its group waits for, if any. Of any thread.
  std::string describe(const std::string &awaited) const;

  /// Which stages run without a CUDA graph although that is wanted, and why. Of any thread.
  std::vector<std::string> eagerStages() const;
  /// What was done since the last call, in order; empty unless `traced`.
  std::vector<TraceEvent> takeTrace();

  int64_t weightBytes() const { return weights.bytes(); }
  double busySeconds() const { return double(busyNanoseconds.load()) * 1e-9; }
  const Device &device() const { return worker; }
  uint32_t number() const { return index; }

private:
  struct Step {
    const plan::Action *action;
    /// The action's micro-batch, of those of all data ranks.
    uint64_t microbatch;
    StageRun *stage;
    /// Send and Recv: what is moved.
    const plan::Transfer *transfer;
    P2PKey key;
  };
  /// What the rank does for one signature.
  struct Part {
    std::vector<plan::Transfer> transfers;
    std::vector<std::unique_ptr<StageRun>> stages;
    std::vector<Step> steps;

    /// Null when the stage is another rank's.
    StageRun *find(uint32_t stage) const;
  };

  Rank(const plan::Plan &plan, uint32_t index, Device &device, WeightStore weights, RankOptions options);
  /// Weights, and what the plan predicts, are within the plan's limit.
  llvm::Error checkMemory() const;
  llvm::Error loadStage(const plan::Program &program, Operators &operators, States &states);
  void loadSteps(uint32_t signature);
  /// Counts and keeps what was done.
  void note(const Request &request, const plan::Action &action, TraceEvent::Clock::time_point begin);
  /// Does `work`, whose failures become the request's; false then, and where it gives false.
  bool attempt(Request &request, const Step &step, llvm::function_ref<bool()> work);
  /// False when the request failed meanwhile.
  bool perform(Request &request, const Part &part, const Step &step);
  void forward(Request &request, const Part &part, const Step &step);
  bool send(Request &request, const Step &step);
  bool receive(Request &request, const Step &step);

  const plan::Plan &plan;
  const uint32_t index;
  Device &worker;
  const WeightStore weights;
  /// By signature.
  std::vector<Part> parts;
  std::atomic<int64_t> busyNanoseconds{0};
  /// What is done; null between requests.
  std::atomic<const Step *> current{nullptr};
  /// What a transfer moves, kept for its memory.
  std::vector<c10::IValue> moved;
  const RankOptions options;
  std::mutex traceMutex;
  std::vector<TraceEvent> trace;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_SCHEDULE_RANK_H
