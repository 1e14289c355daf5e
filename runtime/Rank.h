//===- Rank.h - A rank's part of a plan -------------------------*- C++ -*-===//
#ifndef CLEAVE_RUNTIME_RANK_H
#define CLEAVE_RUNTIME_RANK_H

#include "codegen/plan/Plan.h"
#include "codegen/plan/Schedule.h"
#include "runtime/Device.h"
#include "runtime/Operators.h"
#include "runtime/Request.h"
#include "runtime/StageRun.h"
#include "runtime/WeightStore.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

namespace cleave::runtime {

/// One rank: its weights, its programs, and for each signature the list of actions that it does for a
/// request.
class Rank {
public:
  /// `plan`, `operators` and `device` must outlive the result.
  static llvm::Expected<std::unique_ptr<Rank>> load(const plan::Plan &plan, llvm::StringRef directory,
                                                    uint32_t rank, Device &device, Operators &operators,
                                                    bool checkTypes);

  /// Whether this rank has anything to do for `signature`.
  bool takesPart(uint32_t signature) const { return !parts[signature].steps.empty(); }
  /// Does this rank's part of a request, on the thread of its device. Failures become the request's.
  void execute(Request &request, uint32_t signature);

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
    size_t mailboxOf(const plan::Transfer &transfer) const { return &transfer - transfers.data(); }
  };

  Rank(const plan::Plan &plan, uint32_t index, Device &device, WeightStore weights);
  llvm::Error loadStage(const plan::Program &program, Operators &operators, bool checkTypes);
  void loadSteps(uint32_t signature);

  /// False when the request failed meanwhile.
  bool perform(Request &request, const Part &part, const Step &step);
  void forward(Request &request, const Part &part, StageRun &stage);
  bool receive(Request &request, const Part &part, const Step &step);

  const plan::Plan &plan;
  const uint32_t index;
  Device &worker;
  const WeightStore weights;
  /// By signature.
  std::vector<Part> parts;
  std::atomic<int64_t> busyNanoseconds{0};
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_RANK_H
