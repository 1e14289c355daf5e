//===- RequestCaptures.h - What one request captures ------------*- C++ -*-===//
#ifndef CLEAVE_RUNTIME_CAPTURE_REQUESTCAPTURES_H
#define CLEAVE_RUNTIME_CAPTURE_REQUESTCAPTURES_H

#include "codegen/plan/CapturePoints.h"
#include "codegen/plan/Plan.h"
#include "runtime/capture/CaptureOptions.h"
#include "runtime/comm/Communicator.h"
#include "runtime/exchange/Exchange.h"
#include "runtime/exchange/Microbatches.h"
#include "runtime/executor/RequestStates.h"
#include "runtime/executor/Tap.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/Support/Error.h"
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <tuple>
#include <vector>

namespace cleave::runtime {

/// CaptureOptions with capture points as indices in Plan.capture_points. Those of whole-batch hooks are left
/// out.
struct ResolvedCaptures {
  struct PartHook {
    uint32_t point;
    std::string name;
    HookFunction function;
  };
  struct Replacement {
    uint32_t point;
    at::Tensor value;
  };
  std::vector<plan::NamedCapturePoint> captured;
  std::vector<Replacement> replacements;
  std::vector<PartHook> hooks;
  std::optional<uint32_t> stopAfter;
  std::optional<c10::Device> device;

  bool empty() const { return captured.empty() && replacements.empty() && hooks.empty() && !stopAfter; }
};

/// Fails if nothing may take the place of the capture point's value.
llvm::Error checkWritable(const plan::Plan &plan, uint32_t point);

/// What a request reads and replaces, and the values that it has read so far. Thread-safe: the threads of
/// several ranks use one object.
class RequestCaptures {
public:
  /// Fails where a replacement does not fit the plan or the request's sizes, or a value is to be replaced
  /// that cannot be, or parts of a batch cannot be put together. `plan` must outlive the result.
  static llvm::Expected<std::shared_ptr<RequestCaptures>> create(const plan::Plan &plan, uint32_t signature,
                                                                 ResolvedCaptures options,
                                                                 const Microbatches &microbatches);

  const ResolvedCaptures &options() const { return resolved; }
  /// True if the request ends before its outputs are there.
  bool stops() const { return resolved.stopAfter.has_value(); }
  /// True for an action that a request which stops does not need.
  bool skips(const plan::Action &action) const;

  /// What a run of the forward program of `stage` on `tpRank` does. The result refers to this object,
  /// `microbatches` and `tensorGroup`.
  /// \param part         the micro-batch, among those of all data-parallel ranks.
  /// \param tensorGroup  null if it has one rank.
  Taps tapsOf(uint32_t stage, uint32_t tpRank, const MicrobatchSlice &part, const Microbatches &microbatches,
              Communicator *tensorGroup, const RequestStates &states);

  /// Sends the captured values of this process, which runs `ownRank`, to the process that returns the
  /// outputs.
  void sendTo(Exchange &exchange, uint32_t ownRank);
  /// Takes the captured values of other processes than this one, which runs `ownRank`.
  void receiveFrom(Exchange &exchange, uint32_t ownRank);
  /// Calls `visit` with each tensor that is held.
  void forEach(llvm::function_ref<void(const at::Tensor &)> visit);
  /// True if a value is captured on another rank than `ownRank`, the one of this process.
  bool readsElsewhere(uint32_t ownRank) const;

  /// The captured values, once all parts are there.
  std::vector<NamedTensor> values(const Microbatches &microbatches);

private:
  RequestCaptures(const plan::Plan &plan, uint32_t signature, ResolvedCaptures options, uint32_t microbatches)
      : plan(plan), signature(signature), resolved(std::move(options)), microbatchCount(microbatches) {}

  /// Capture, micro-batch of all data-parallel ranks, tensor-parallel rank.
  using PartKey = std::tuple<size_t, uint32_t, uint32_t>;

  const plan::CapturePoint &pointOf(uint32_t index) const { return *plan.capture_points[index]; }
  /// The dimension along which micro-batches are concatenated; nothing if there is one micro-batch, or the
  /// value has no batch.
  std::optional<uint32_t> batchDimOf(const plan::CapturePoint &point) const;
  /// The parts that `rank` reads, in the order in which it sends them.
  std::vector<PartKey> partsOf(uint32_t rank) const;
  llvm::Error checkReplacement(const ResolvedCaptures::Replacement &replacement,
                               const Microbatches &microbatches) const;
  /// Calls the hook on the first tensor-parallel rank; all get what it returns.
  at::Tensor callHook(const ResolvedCaptures::PartHook &hook, const plan::CaptureSlot &slot,
                      const HookContext &context, Communicator *tensorGroup, at::Tensor value);
  at::Tensor joined(size_t capture, const Microbatches &microbatches);

  const plan::Plan &plan;
  const uint32_t signature;
  const ResolvedCaptures resolved;
  const uint32_t microbatchCount;
  std::mutex mutex, hookMutex;
  std::map<PartKey, at::Tensor> parts;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_CAPTURE_REQUESTCAPTURES_H
