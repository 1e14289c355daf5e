//===- Rank.h - A rank's part of a plan -------------------------*- C++ -*-===//
#ifndef CLEAVE_RUNTIME_RANK_H
#define CLEAVE_RUNTIME_RANK_H

#include "codegen/plan/Plan.h"
#include "codegen/plan/Schedule.h"
#include "runtime/Device.h"
#include "runtime/Operators.h"
#include "runtime/Request.h"
#include "runtime/StageRun.h"
#include "runtime/Trace.h"
#include "runtime/WeightStore.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace cleave::runtime {

/// One rank: its weights, its programs, and for each signature the list of actions that it does for a
/// request.
class Rank {
public:
  /// `plan`, `operators`, `states` and `device` must outlive the result.
  static llvm::Expected<std::unique_ptr<Rank>> load(const plan::Plan &plan, llvm::StringRef directory,
                                                    uint32_t rank, Device &device, Operators &operators,
                                                    States &states, bool checkTypes, bool traced);

  /// Whether this rank has anything to do for `signature`.
  bool takesPart(uint32_t signature) const { return !parts[signature].steps.empty(); }
  /// Does this rank's part of a request, on the thread of its device. Failures become the request's.
  void execute(Request &request, uint32_t signature);

  /// What was done since the last call, in order; empty unless `traced`.
  std::vector<TraceEvent> takeTrace();

  int64_t weightBytes() const { return weights.bytes(); }
  double busySeconds() const { return double(busyNanoseconds.load()) * 1e-9; }
  const Device &device() const { return worker; }

private:
  struct Step {
    const plan::Action *action;
    StageRun *stage;
    /// Send and Recv: what is moved.
    const plan::Transfer *transfer;
  };
  /// What the rank does for one signature.
  struct Part {
    std::vector<plan::Transfer> transfers;
    std::vector<std::unique_ptr<StageRun>> stages;
    std::vector<Step> steps;

    /// Null when the stage is another rank's.
    StageRun *find(uint32_t stage) const;
  };

  Rank(const plan::Plan &plan, uint32_t index, Device &device, WeightStore weights, bool traced);
  llvm::Error loadStage(const plan::Program &program, Operators &operators, States &states, bool checkTypes);
  void loadSteps(uint32_t signature);
  /// What the request calls a transfer of this rank: it goes to the same tensor rank of the other stage.
  size_t mailboxOf(const Part &part, const plan::Transfer &transfer) const;

  /// Counts and keeps what was done.
  void note(const Request &request, const plan::Action &action, TraceEvent::Clock::time_point begin);
  /// False when the request failed meanwhile.
  bool perform(Request &request, const Part &part, const Step &step);
  void forward(Request &request, const Part &part, const Step &step);
  bool send(Request &request, const Part &part, const Step &step);
  bool receive(Request &request, const Part &part, const Step &step);

  const plan::Plan &plan;
  const uint32_t index, tensorRank;
  Device &worker;
  const WeightStore weights;
  /// By signature.
  std::vector<Part> parts;
  std::atomic<int64_t> busyNanoseconds{0};
  /// What a transfer moves, kept for its memory.
  std::vector<c10::IValue> moved;
  const bool traced;
  std::mutex traceMutex;
  std::vector<TraceEvent> trace;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_RANK_H
