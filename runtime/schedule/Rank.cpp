//===- Rank.cpp -----------------------------------------------------------===//
#include "runtime/schedule/Rank.h"
#include "codegen/plan/Batch.h"
#include "codegen/plan/PlanQueries.h"
#include "runtime/base/Exceptions.h"
#include "runtime/comm/Transport.h"
#include "runtime/device/PlanRanks.h"
#include "runtime/device/Streams.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include <algorithm>
#include <chrono>
#include <utility>

namespace cleave::runtime {

using llvm::Error;
using plan::ActionKind;

static std::string where(uint32_t rank, uint32_t stage) {
  return "rank " + std::to_string(rank) + " (stage " + std::to_string(stage) + "): ";
}

StageRun *Rank::Part::find(uint32_t stage) const {
  auto found = llvm::find_if(stages, [&](const auto &run) { return run->stage() == stage; });
  return found == stages.end() ? nullptr : found->get();
}

Rank::Rank(const plan::Plan &plan, uint32_t index, DeviceWorker &worker, WeightStore weights,
           RankOptions options)
    : plan(plan), index(index), worker(worker), weights(std::move(weights)), parts(plan.signatures.size()),
      options(options) {
  size_t most = 0;
  for (uint32_t signature = 0; signature < parts.size(); ++signature) {
    parts[signature].transfers = plan::transfers(plan, signature);
    for (const plan::Transfer &transfer : parts[signature].transfers)
      most = std::max(most, transfer.results.size());
  }
  moved.reserve(most);
}

Error Rank::loadStage(const plan::Program &program, Operators &operators, States &states) {
  auto executor = Executor::load(plan, program, weights, operators, states, worker.device(),
                                 options.checkTypes, options.traced ? worker.plugin() : nullptr, index);
  if (!executor)
    return llvm::createStringError(where(index, program.stage) + llvm::toString(executor.takeError()));
  Part &part = parts[program.signature];
  part.stages.push_back(std::make_unique<StageRun>(*plan.signatures[program.signature], program,
                                                   std::move(*executor), states, part.transfers,
                                                   scheduleOf(plan, program.signature).microbatches));
  if (options.cudaGraphs && worker.plugin())
    part.stages.back()->useGraphs(plan, *worker.plugin(), worker.device());
  return Error::success();
}

std::vector<std::string> Rank::eagerStages() const {
  std::vector<std::string> found;
  for (const Part &part : parts)
    for (const auto &stage : part.stages)
      if (const std::string obstacle = stage->obstacle(); !obstacle.empty())
        found.push_back("stage " + std::to_string(stage->stage()) + ": " + obstacle);
  return found;
}

/// The transfer of `action`; null for actions without one.
static const plan::Transfer *transferOf(llvm::ArrayRef<plan::Transfer> transfers,
                                        const plan::Action &action) {
  const bool sends = action.kind == ActionKind::Send;
  if (!sends && action.kind != ActionKind::Recv)
    return nullptr;
  const uint32_t from = sends ? action.stage : action.peer_stage,
                 to = sends ? action.peer_stage : action.stage;
  // Transfers are sorted by both stages.
  return llvm::partition_point(transfers, [&](const plan::Transfer &transfer) {
    return std::pair(transfer.from, transfer.to) < std::pair(from, to);
  });
}

void Rank::resolveActions(uint32_t signature) {
  Part &part = parts[signature];
  for (const auto &action : scheduleOf(plan, signature).ranks[index]->actions) {
    ResolvedAction resolved{action.get(),
                            plan::globalMicrobatch(plan, index, action->microbatch),
                            part.find(action->stage),
                            transferOf(part.transfers, *action),
                            {}};
    // Values go to the same data-parallel and tensor-parallel rank of the other stage.
    const size_t position = index % (size_t(plan.mesh->dp) * plan.mesh->tp);
    if (resolved.transfer)
      resolved.key = {position * part.transfers.size() + (resolved.transfer - part.transfers.data()),
                      action->microbatch, peerOf(plan, index, *action)};
    part.actions.push_back(resolved);
  }
}

Error Rank::checkMemory() const {
  const std::optional<int64_t> limit = memoryLimitOf(plan, index);
  int64_t needed = weightBytes();
  for (const plan::Program *program : programsOf(plan, index))
    if (const plan::Prediction *prediction = predictionOf(plan, program->stage, program->tp_rank))
      needed = std::max(needed, prediction->peak_bytes);
  if (!limit || needed <= *limit)
    return Error::success();
  return llvm::createStringError("rank " + llvm::Twine(index) + ": the plan needs " + llvm::Twine(needed) +
                                 " bytes of memory there, and limits the device to " + llvm::Twine(*limit) +
                                 "; compile the model again, for devices with more (--device-memory)");
}

llvm::Expected<std::unique_ptr<Rank>> Rank::load(const plan::Plan &plan,
                                                 std::shared_ptr<plan::SafetensorsFile> file, uint32_t index,
                                                 DeviceWorker &worker, Operators &operators, States &states,
                                                 RankOptions options) {
  auto weights = WeightStore::load(plan, std::move(file), index, worker.device());
  if (!weights)
    return llvm::createStringError("rank " + llvm::Twine(index) + ": " + llvm::toString(weights.takeError()));
  std::unique_ptr<Rank> rank(new Rank(plan, index, worker, std::move(*weights), options));
  if (Error error = rank->checkMemory())
    return error;
  worker.holdWeights(rank->weightBytes());
  for (const plan::Program *program : programsOf(plan, index))
    if (Error error = rank->loadStage(*program, operators, states))
      return error;
  for (uint32_t signature = 0; signature < plan.signatures.size(); ++signature)
    rank->resolveActions(signature);
  // GPU work of this thread is not ordered before that of the device's thread.
  if (Error error = catching([&]() -> Error {
        synchronize(worker.device());
        return Error::success();
      }))
    return llvm::createStringError("rank " + llvm::Twine(index) + ": " + llvm::toString(std::move(error)));
  return rank;
}

void Rank::execute(Request &request, uint32_t signature) {
  const Part &part = parts[signature];
  bool isGoing = true;
  for (const ResolvedAction &resolved : part.actions) {
    isGoing = isGoing && !request.cancellation.isCancelled();
    if (!isGoing)
      break;
    // A small batch has fewer micro-batches than the plan; all ranks of one data-parallel index skip the same
    // ones.
    if (resolved.microbatch >= request.microbatches.count())
      continue;
    current.store(&resolved, std::memory_order_release);
    request.enter(index, *resolved.action, resolved.stage);
    const TraceEvent::Clock::time_point begin = TraceEvent::Clock::now();
    isGoing = attempt(request, resolved, [&] { return perform(request, part, resolved); });
    record(request, *resolved.action, begin);
  }
  if (isGoing && !request.cancellation.isCancelled())
    attempt(request, part.actions.back(), [&] {
      synchronize(worker.device());
      request.sendOutputs(signature);
      return true;
    });
  current.store(nullptr, std::memory_order_release);
  for (const auto &stage : part.stages)
    stage->clear();
  request.leave(index, worker.memory());
}

bool Rank::attempt(Request &request, const ResolvedAction &resolved, llvm::function_ref<bool()> work) {
  Exchange &exchange = request.exchange();
  try {
    return work();
  } catch (const PeerLost &lost) {
    const std::string context = "rank " + std::to_string(index) + " " + describe(exchange.awaited(index));
    request.cancellation.cancelLost(lost.rank, context);
  } catch (const std::exception &exception) {
    std::string position = resolved.stage->position();
    request.cancellation.cancel(where(index, resolved.action->stage) +
                                (position.empty() ? "" : position + ": ") + messageOf(exception));
  }
  return false;
}

/// `micro-batch 2 (edge 0>1)`.
static std::string edgeOf(const plan::Action &action) {
  const bool sends = action.kind == ActionKind::Send;
  return "micro-batch " + std::to_string(action.microbatch) + " (edge " +
         std::to_string(sends ? action.stage : action.peer_stage) + ">" +
         std::to_string(sends ? action.peer_stage : action.stage) + ")";
}

std::string Rank::describe(const std::string &awaited) const {
  const ResolvedAction *resolved = current.load(std::memory_order_acquire);
  if (!resolved)
    return "is between requests";
  const plan::Action &action = *resolved->action;
  constexpr size_t shown = 2;
  const auto &paths = plan.stages[action.stage]->module_paths;
  std::string modules =
      llvm::join(llvm::ArrayRef(paths).take_front(shown), ", ") + (paths.size() > shown ? ", …" : "");
  std::string text = "(stage " + std::to_string(action.stage) + (paths.empty() ? "" : ": " + modules) + ") ";
  if (action.kind == ActionKind::Recv)
    return text + "waits for the values of stage " + std::to_string(action.peer_stage) + ", " +
           edgeOf(action);
  if (action.kind == ActionKind::Send)
    return text + "waits for stage " + std::to_string(action.peer_stage) + " to take values, " +
           edgeOf(action);
  const std::string position = resolved->stage->position();
  text += awaited.empty() ? "is computing" : "waits for " + awaited + " at";
  return text + (position.empty() ? " micro-batch " + std::to_string(action.microbatch) : " " + position);
}

void Rank::record(const Request &request, const plan::Action &action, TraceEvent::Clock::time_point begin) {
  const TraceEvent::Clock::time_point end = TraceEvent::Clock::now();
  if (action.kind == ActionKind::Forward)
    busyNanoseconds += std::chrono::duration_cast<std::chrono::nanoseconds>(end - begin).count();
  if (!options.traced)
    return;
  std::lock_guard lock(traceMutex);
  trace.push_back({request.number, index, action, begin, end});
}

std::vector<TraceEvent> Rank::takeTrace() {
  std::lock_guard lock(traceMutex);
  return std::exchange(trace, {});
}

bool Rank::perform(Request &request, const Part &part, const ResolvedAction &resolved) {
  switch (resolved.action->kind) {
  case ActionKind::Forward:
    forward(request, part, resolved);
    return true;
  case ActionKind::Send:
    return send(request, resolved);
  case ActionKind::Recv:
    return receive(request, resolved);
  default:
    TORCH_INTERNAL_ASSERT(false, "checkSupported refuses the other kinds");
  }
}

bool Rank::send(Request &request, const ResolvedAction &resolved) {
  resolved.stage->take(*resolved.transfer, resolved.action->microbatch, moved);
  return request.exchange().send(resolved.key, moved);
}

bool Rank::receive(Request &request, const ResolvedAction &resolved) {
  if (!request.exchange().receive(resolved.key, worker.memory(), moved))
    return false;
  const size_t expected = resolved.transfer->inputs.size();
  TORCH_CHECK(moved.size() == expected, "found ", moved.size(), " values of rank ", resolved.key.peer,
              ", expected ", expected);
  worker.toDevice(moved);
  resolved.stage->receive(*resolved.transfer, resolved.action->microbatch, moved);
  return true;
}

void Rank::forward(Request &request, const Part &part, const ResolvedAction &resolved) {
  const uint32_t microbatch = resolved.action->microbatch;
  // There are no actions between stages of one rank.
  for (const plan::Transfer &transfer : part.transfers)
    if (StageRun *giver = part.find(transfer.from); giver && transfer.to == resolved.stage->stage()) {
      giver->take(transfer, microbatch, moved);
      resolved.stage->receive(transfer, microbatch, moved);
    }
  resolved.stage->forward(request, request.exchange().communicatorOf(index), microbatch, resolved.microbatch);
  // Then the GPU's time counts for this stage; otherwise the thread continues while the GPU works.
  if (options.traced)
    synchronize(worker.device());
}

} // namespace cleave::runtime
