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

ProgramRun *Rank::Part::find(plan::ProgramKey key) const {
  auto found = llvm::find_if(programs, [&](const auto &run) { return run->key() == key; });
  return found == programs.end() ? nullptr : found->get();
}

Rank::Rank(const plan::Plan &plan, uint32_t index, DeviceWorker &worker, WeightStore weights,
           RankOptions options)
    : plan(plan), index(index), worker(worker), weights(std::move(weights)),
      ownGroups{plan::groupOf(plan, index, plan::GroupKind::Tensor),
                plan::groupOf(plan, index, plan::GroupKind::Data)},
      parts(plan.signatures.size()), options(options) {
  size_t most = 0;
  for (uint32_t signature = 0; signature < parts.size(); ++signature) {
    parts[signature].flows = flowsOf(plan, signature);
    for (const ValueFlow &flow : parts[signature].flows)
      most = std::max(most, flow.results.size());
  }
  moved.reserve(most);
}

Error Rank::loadProgram(const plan::Program &program, Operators &operators) {
  auto executor = Executor::load(plan, program, weights, operators, worker.device(), options.checkTypes,
                                 options.traced ? worker.plugin() : nullptr, index);
  if (!executor)
    return llvm::createStringError(where(index, program.stage) + llvm::toString(executor.takeError()));
  Part &part = parts[program.signature];
  part.programs.push_back(std::make_unique<ProgramRun>(plan, program, std::move(*executor),
                                                       index % plan::ranksPerDeviceGroup(plan), part.flows,
                                                       scheduleOf(plan, program.signature).microbatches));
  if (options.cudaGraphs && worker.plugin())
    part.programs.back()->useGraphs(plan, *worker.plugin(), worker.device());
  return Error::success();
}

std::vector<std::string> Rank::eagerStages() const {
  std::vector<std::string> found;
  for (const Part &part : parts)
    for (const auto &program : part.programs)
      if (const std::string obstacle = program->obstacle(); !obstacle.empty())
        found.push_back("stage " + std::to_string(program->key().stage) + ": " + obstacle);
  return found;
}

Rank::ResolvedAction Rank::resolve(const Part &part, const plan::Action &action) const {
  ResolvedAction resolved{
      &action, plan::globalMicrobatch(plan, index, action.microbatch), nullptr, nullptr, {}, 0, {}};
  if (plan::isCompute(action.kind)) {
    resolved.program = part.find({action.stage, plan::phaseOf(action.kind)});
  } else if (plan::isTransport(action.kind)) {
    const plan::Phase phase = plan::phaseOfTransport(action.kind);
    const plan::ProgramKey own{action.stage, phase}, other{action.peer_stage, phase};
    const bool sends = plan::isSend(action.kind);
    resolved.program = part.find(own);
    resolved.transfer = &*llvm::find_if(part.flows, [&](const ValueFlow &flow) {
      return flow.source == (sends ? own : other) && flow.target == (sends ? other : own);
    });
    // Values go to the same data-parallel and tensor-parallel rank of the other stage.
    const size_t position = index % plan::ranksPerDeviceGroup(plan);
    const size_t transfers = llvm::count_if(
        part.flows, [](const ValueFlow &flow) { return flow.source.stage != flow.target.stage; });
    resolved.key = {position * transfers + (resolved.transfer - part.flows.data()), action.microbatch,
                    peerOf(plan, index, action)};
  } else {
    const plan::Bucket &bucket = *plan.buckets[action.bucket];
    resolved.group = *plan::groupOf(plan, index, bucket);
    resolved.states = plan::partOf(bucket, action.stage)->states;
  }
  return resolved;
}

StateTraffic Rank::trafficOf(const StateStore &states) const {
  StateTraffic all;
  for (auto [state, type] : llvm::enumerate(plan.states)) {
    if (!llvm::is_contained(plan.stages[type->stage]->ranks, index))
      continue;
    const StateTraffic own = states.trafficOf(index % plan::ranksPerDeviceGroup(plan), state);
    all.bytesWritten += own.bytesWritten;
    all.bytesCopied += own.bytesCopied;
  }
  return all;
}

void Rank::resolveActions(uint32_t signature) {
  Part &part = parts[signature];
  for (const auto &action : scheduleOf(plan, signature).ranks[index]->actions)
    part.actions.push_back(resolve(part, *action));
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
                                                 DeviceWorker &worker, Operators &operators,
                                                 RankOptions options) {
  auto weights = WeightStore::load(plan, std::move(file), index, worker.device());
  if (!weights)
    return llvm::createStringError("rank " + llvm::Twine(index) + ": " + llvm::toString(weights.takeError()));
  std::unique_ptr<Rank> rank(new Rank(plan, index, worker, std::move(*weights), options));
  if (Error error = rank->checkMemory())
    return error;
  worker.holdWeights(rank->weightBytes());
  for (const plan::Program *program : programsOf(plan, index))
    if (Error error = rank->loadProgram(*program, operators))
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
    // ones. Reductions and updates are for all of them.
    if (resolved.microbatch >= request.microbatches.count() && !plan::isOnce(resolved.action->kind))
      continue;
    if (request.captures && request.captures->skips(*resolved.action))
      continue;
    current.store(&resolved, std::memory_order_release);
    request.enter(index, *resolved.action, resolved.program);
    const TraceEvent::Clock::time_point begin = TraceEvent::Clock::now();
    isGoing = attempt(request, resolved, [&] { return perform(request, part, resolved); });
    record(request, *resolved.action, begin);
  }
  if (isGoing && !request.cancellation.isCancelled())
    attempt(request, part.actions.back(), [&] {
      synchronize(worker.device());
      request.sendOutputs(signature, index);
      return true;
    });
  current.store(nullptr, std::memory_order_release);
  for (const auto &program : part.programs)
    program->clear();
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
    std::string position = resolved.program ? resolved.program->position() : "reducing gradients";
    request.cancellation.cancel(request.errorPrefix + where(index, resolved.action->stage) +
                                (position.empty() ? "" : position + ": ") + messageOf(exception));
  }
  return false;
}

/// `micro-batch 2 (edge 0>1)`.
static std::string edgeOf(const plan::Action &action) {
  const bool sends = plan::isSend(action.kind);
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
  const bool isGradient = action.kind == ActionKind::SendGrad || action.kind == ActionKind::RecvGrad;
  if (plan::isReceive(action.kind))
    return text + "waits for the " + (isGradient ? "gradients" : "values") + " of stage " +
           std::to_string(action.peer_stage) + ", " + edgeOf(action);
  if (plan::isSend(action.kind))
    return text + "waits for stage " + std::to_string(action.peer_stage) + " to take " +
           (isGradient ? "gradients" : "values") + ", " + edgeOf(action);
  if (action.kind == ActionKind::Reduce)
    return text +
           (awaited.empty() ? "is reducing gradients" : "waits for " + awaited + " to reduce gradients");
  const std::string position = resolved->program->position();
  text += awaited.empty() ? "is computing" : "waits for " + awaited + " at";
  return text + (position.empty() ? " micro-batch " + std::to_string(action.microbatch) : " " + position);
}

void Rank::record(const Request &request, const plan::Action &action, TraceEvent::Clock::time_point begin) {
  const TraceEvent::Clock::time_point end = TraceEvent::Clock::now();
  if (plan::isCompute(action.kind))
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
  const ActionKind kind = resolved.action->kind;
  if (plan::isSend(kind))
    return send(request, resolved);
  if (plan::isReceive(kind))
    return receive(request, resolved);
  if (kind == ActionKind::Reduce)
    reduce(request, resolved);
  else
    compute(request, part, resolved);
  return true;
}

bool Rank::send(Request &request, const ResolvedAction &resolved) {
  resolved.program->take(*resolved.transfer, resolved.action->microbatch, moved);
  return request.exchange().send(resolved.key, moved);
}

bool Rank::receive(Request &request, const ResolvedAction &resolved) {
  if (!request.exchange().receive(resolved.key, worker.memory(), moved))
    return false;
  const size_t expected = resolved.transfer->inputs.size();
  TORCH_CHECK(moved.size() == expected, "found ", moved.size(), " values of rank ", resolved.key.peer,
              ", expected ", expected);
  worker.toDevice(moved);
  resolved.program->receive(*resolved.transfer, resolved.action->microbatch, moved);
  return true;
}

void Rank::compute(Request &request, const Part &part, const ResolvedAction &resolved) {
  const uint32_t microbatch = resolved.action->microbatch;
  // There are no actions between programs of one rank.
  for (const ValueFlow &flow : part.flows)
    if (ProgramRun *giver = part.find(flow.source); giver && flow.target == resolved.program->key()) {
      giver->take(flow, microbatch, moved);
      resolved.program->receive(flow, microbatch, moved);
    }
  std::array<Communicator *, 2> groups = {};
  const bool isOnce = plan::isOnce(resolved.action->kind);
  // Data-parallel ranks meet once a request alone.
  const size_t axes = isOnce ? 2 : 1;
  for (size_t axis = 0; axis < axes; ++axis)
    if (ownGroups[axis])
      groups[axis] = &request.exchange().communicatorOf(index, *ownGroups[axis]);
  if (resolved.action->kind == ActionKind::Update) {
    TORCH_CHECK(!request.refusesNan, "no operator before the update makes a NaN");
    request.beginUpdate();
  }
  resolved.program->run(request, groups, microbatch, isOnce ? 0 : resolved.microbatch,
                        !isOnce || plan::dpRankOf(plan, index) == 0);
  // Then the GPU's time counts for this stage; otherwise the thread continues while the GPU works.
  if (options.traced)
    synchronize(worker.device());
}

void Rank::reduce(Request &request, const ResolvedAction &resolved) {
  Communicator &group = request.exchange().communicatorOf(index, resolved.group);
  for (uint32_t state : resolved.states) {
    at::Tensor sum = request.states.sum(state, index % plan::ranksPerDeviceGroup(plan), worker.device());
    sum.copy_(group.allReduce(sum));
  }
}

} // namespace cleave::runtime
