//===- RequestCaptures.cpp ------------------------------------------------===//
#include "runtime/capture/RequestCaptures.h"
#include "codegen/plan/Batch.h"
#include "codegen/plan/DimExpr.h"
#include "codegen/plan/PlanQueries.h"
#include "codegen/plan/Schedule.h"
#include "runtime/base/DTypes.h"
#include "runtime/base/Exceptions.h"
#include "runtime/base/Values.h"
#include "runtime/capture/CaptureParts.h"
#include "llvm/ADT/STLExtras.h"
#include <ATen/Functions.h>

namespace cleave::runtime {

using llvm::Error;

Error checkWritable(const plan::Plan &plan, uint32_t index) {
  const plan::CapturePoint &point = *plan.capture_points[index];
  if (point.writable)
    return Error::success();
  return llvm::createStringError("capture point " + point.path +
                                 ": found a value that the module itself, or another one whose equal value "
                                 "was merged with it, reads later, "
                                 "expected one that can be replaced; compile with --capture-points '" +
                                 point.path +
                                 "', which keeps it apart; a value whose memory the module writes later "
                                 "cannot be replaced");
}

std::optional<uint32_t> RequestCaptures::batchDimOf(const plan::CapturePoint &point) const {
  const int32_t batch = plan.signatures[signature]->batch;
  if (microbatchCount == 1 || batch < 0)
    return std::nullopt;
  return plan::batchDimension(*point.type, batch);
}

Error RequestCaptures::checkReplacement(const ResolvedCaptures::Replacement &replacement,
                                        const Microbatches &microbatches) const {
  const plan::CapturePoint &point = pointOf(replacement.point);
  const at::Tensor &value = replacement.value;
  const plan::TensorType &type = *point.type;
  // Of a type that is only known when running, any tensor.
  bool fits = value.defined() &&
              (type.dtype == plan::DType::Unknown || dtypeOf(value.scalar_type()) == type.dtype) &&
              (!type.ranked || size_t(value.dim()) == type.dims.size());
  for (size_t dim = 0; fits && dim < type.dims.size(); ++dim) {
    // Sizes of the whole request.
    const auto size = plan::evaluate(*type.dims[dim], microbatches.wholeSymbols());
    fits = !size || *size == value.size(dim);
  }
  if (fits)
    return Error::success();
  std::vector<std::string> names;
  for (const auto &symbol : plan.signatures[signature]->symbols)
    names.push_back(symbol->name);
  return llvm::createStringError("capture point " + point.path + ": found " +
                                 (value.defined() ? describe(value) : "no tensor") + ", expected " +
                                 describe(type, names) + ", with the sizes of this request's inputs");
}

llvm::Expected<std::shared_ptr<RequestCaptures>> RequestCaptures::create(const plan::Plan &plan,
                                                                         uint32_t signature,
                                                                         ResolvedCaptures options,
                                                                         const Microbatches &microbatches) {
  std::shared_ptr<RequestCaptures> captures(
      new RequestCaptures(plan, signature, std::move(options), microbatches.count()));
  const ResolvedCaptures &resolved = captures->resolved;
  for (const auto &replacement : resolved.replacements) {
    if (Error error = checkWritable(plan, replacement.point))
      return error;
    if (Error error = captures->checkReplacement(replacement, microbatches))
      return error;
  }
  for (const auto &hook : resolved.hooks)
    if (Error error = checkWritable(plan, hook.point))
      return error;
  const int32_t batch = plan.signatures[signature]->batch;
  auto cannotBeJoined = [&](uint32_t index) {
    return microbatches.count() > 1 && !plan::isSplittable(*plan.capture_points[index]->type, batch);
  };
  auto checkJoinable = [&](uint32_t index) -> Error {
    if (!cannotBeJoined(index))
      return Error::success();
    return llvm::createStringError("capture point " + plan.capture_points[index]->path +
                                   ": found a type that does not say which dimension is the batch, "
                                   "expected one along which micro-batches can be concatenated; compile "
                                   "without --microbatches and data-parallel ranks");
  };
  for (const auto &captured : resolved.captured)
    if (Error error = checkJoinable(captured.index))
      return error;
  for (const auto &replacement : resolved.replacements)
    if (Error error = checkJoinable(replacement.point))
      return error;
  return captures;
}

bool RequestCaptures::skips(const plan::Action &action) const {
  if (!resolved.stopAfter)
    return false;
  const uint32_t last = pointOf(*resolved.stopAfter).stage;
  switch (action.kind) {
  case plan::ActionKind::Forward:
  case plan::ActionKind::Recv:
    return action.stage > last;
  case plan::ActionKind::Send:
    return action.peer_stage > last;
  default:
    return true;
  }
}

at::Tensor RequestCaptures::callHook(const ResolvedCaptures::PartHook &hook, const plan::CaptureSlot &slot,
                                     const HookContext &context, Communicator *tensorGroup,
                                     at::Tensor value) {
  const plan::CapturePoint &point = pointOf(hook.point);
  const at::Tensor whole = tensorGroup ? gatherWhole(point, value, *tensorGroup) : value;
  at::Tensor given;
  if (slot.tp_rank == 0) {
    std::lock_guard lock(hookMutex);
    try {
      given = hook.function(whole, context);
    } catch (const std::exception &exception) {
      throw std::runtime_error("hook of " + context.name + ": " + messageOf(exception));
    } catch (...) {
      throw std::runtime_error("hook of " + context.name + ": it threw what is no std::exception");
    }
    TORCH_CHECK(
        !given.defined() || (given.sizes() == whole.sizes() && given.scalar_type() == whole.scalar_type()),
        "hook of ", context.name, ": it returned ", given.defined() ? given.scalar_type() : at::kFloat,
        given.sizes(), ", expected ", whole.scalar_type(), whole.sizes(), " as it was given");
    given = given.defined() ? given.to(whole.device()).contiguous() : whole;
  }
  if (!tensorGroup)
    return given;
  return partOf(point, slot, tensorGroup->broadcast(given.defined() ? given : whole, /*root=*/0));
}

Taps RequestCaptures::tapsOf(uint32_t stage, uint32_t tpRank, const MicrobatchSlice &part,
                             const Microbatches &microbatches, Communicator *tensorGroup,
                             const RequestStates &states) {
  // With the index of the capture point.
  std::vector<std::pair<uint32_t, Tap>> visits;
  auto add = [&](uint32_t index, std::function<void(c10::IValue &)> visit) {
    const plan::CapturePoint &point = pointOf(index);
    if (point.stage != stage)
      return;
    const plan::CaptureSlot &slot = *point.slots[tpRank];
    visits.push_back({index, {slot.slot, slot.after, [&point, visit = std::move(visit)](c10::IValue &value) {
                                TORCH_CHECK(value.isTensor() && value.toTensor().defined(), "capture point ",
                                            point.path, ": found a ", value.tagKind(), ", expected a tensor");
                                visit(value);
                              }}});
  };
  for (const auto &replacement : resolved.replacements)
    add(replacement.point, [&, tpRank, part](c10::IValue &value) {
      const plan::CapturePoint &point = pointOf(replacement.point);
      const at::Tensor own = microbatches.partOf(*point.type, part.microbatch, replacement.value);
      value = partOf(point, *point.slots[tpRank], own.to(value.toTensor().device())).contiguous();
    });
  for (const auto &hook : resolved.hooks)
    add(hook.point, [&, tpRank, part, tensorGroup](c10::IValue &value) {
      const plan::CapturePoint &point = pointOf(hook.point);
      const HookContext context{hook.name, part.firstSample, part.samples};
      value = callHook(hook, *point.slots[tpRank], context, tensorGroup, value.toTensor());
    });
  for (auto [number, captured] : llvm::enumerate(resolved.captured)) {
    const plan::CapturePoint &point = pointOf(captured.index);
    if ((tpRank > 0 && !isSplit(point)) || (part.microbatch > 0 && !batchDimOf(point)))
      continue;
    add(captured.index, [&, number = number, tpRank, part](c10::IValue &value) {
      at::Tensor own = states.copiedIfAliased(value.toTensor(), part);
      std::lock_guard lock(mutex);
      parts[{number, part.microbatch, tpRank}] = std::move(own);
    });
  }
  // Where modules return one value, an inner one is read before an outer one, whose index is higher, is
  // edited.
  llvm::stable_sort(visits, [](const auto &a, const auto &b) {
    return std::pair(a.second.after, a.first) < std::pair(b.second.after, b.first);
  });
  Taps taps;
  for (auto &[index, tap] : visits)
    taps.taps.push_back(std::move(tap));
  if (resolved.stopAfter && pointOf(*resolved.stopAfter).stage == stage)
    taps.stopAfter = pointOf(*resolved.stopAfter).slots[tpRank]->after;
  return taps;
}

std::vector<RequestCaptures::PartKey> RequestCaptures::partsOf(uint32_t rank) const {
  std::vector<PartKey> keys;
  const uint32_t tpRank = rank % plan.mesh->tp, dpRank = plan::dpRankOf(plan, rank);
  for (auto [number, captured] : llvm::enumerate(resolved.captured)) {
    const plan::CapturePoint &point = pointOf(captured.index);
    if (!llvm::is_contained(plan.stages[point.stage]->ranks, rank) || (tpRank > 0 && !isSplit(point)))
      continue;
    const uint32_t count = batchDimOf(point) ? microbatchCount : 1;
    for (uint32_t microbatch = dpRank; microbatch < count; microbatch += plan.mesh->dp)
      keys.push_back({number, microbatch, tpRank});
  }
  return keys;
}

bool RequestCaptures::readsElsewhere(uint32_t ownRank) const {
  for (uint32_t other = 0; other < plan::rankCount(*plan.mesh); ++other)
    if (other != ownRank && !partsOf(other).empty())
      return true;
  return false;
}

void RequestCaptures::sendTo(Exchange &exchange, uint32_t ownRank) {
  std::vector<c10::IValue> values;
  for (const PartKey &key : partsOf(ownRank)) {
    std::lock_guard lock(mutex);
    auto found = parts.find(key);
    TORCH_INTERNAL_ASSERT(found != parts.end(), "a captured value is missing");
    values.push_back(found->second.cpu());
    parts.erase(found);
  }
  if (!values.empty())
    exchange.sendCaptured(signature, values);
}

void RequestCaptures::receiveFrom(Exchange &exchange, uint32_t ownRank) {
  for (uint32_t rank = 0; rank < plan::rankCount(*plan.mesh); ++rank) {
    const std::vector<PartKey> keys = partsOf(rank);
    if (rank == ownRank || keys.empty())
      continue;
    const std::vector<c10::IValue> values = exchange.receiveCaptured(rank);
    TORCH_CHECK(values.size() == keys.size(), "found ", values.size(), " captured values of rank ", rank,
                ", expected ", keys.size());
    std::lock_guard lock(mutex);
    for (auto [key, value] : llvm::zip(keys, values))
      parts[key] = value.toTensor();
  }
}

void RequestCaptures::forEach(llvm::function_ref<void(const at::Tensor &)> visit) {
  std::lock_guard lock(mutex);
  for (auto &[key, part] : parts)
    visit(part);
}

at::Tensor RequestCaptures::joined(size_t capture, const Microbatches &microbatches) {
  const plan::CapturePoint &point = pointOf(resolved.captured[capture].index);
  const std::optional<uint32_t> batchDim = batchDimOf(point);
  const uint32_t tpRanks = isSplit(point) ? plan.mesh->tp : 1;
  std::vector<at::Tensor> rows;
  for (uint32_t microbatch = 0; microbatch < (batchDim ? microbatches.count() : 1); ++microbatch) {
    std::vector<at::Tensor> ofRanks;
    for (uint32_t tpRank = 0; tpRank < tpRanks; ++tpRank) {
      at::Tensor part = parts.at({capture, microbatch, tpRank});
      // All on the device of the first part, or where they are wanted.
      const at::Tensor &first = ofRanks.empty() ? (rows.empty() ? part : rows.front()) : ofRanks.front();
      ofRanks.push_back(part.to(resolved.device.value_or(first.device())));
    }
    rows.push_back(wholeOf(point, ofRanks));
  }
  return rows.size() == 1 ? rows.front().contiguous() : at::cat(rows, *batchDim);
}

std::vector<NamedTensor> RequestCaptures::values(const Microbatches &microbatches) {
  std::lock_guard lock(mutex);
  std::vector<NamedTensor> values;
  // Another process may have them.
  if (parts.empty())
    return values;
  for (auto [number, captured] : llvm::enumerate(resolved.captured))
    values.push_back({captured.name, joined(number, microbatches)});
  return values;
}

} // namespace cleave::runtime
