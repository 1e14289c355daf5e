//===- SessionRequests.cpp - Requests of a session ------------------------===//
#include "codegen/plan/Batch.h"
#include "codegen/plan/PlanQueries.h"
#include "codegen/plan/Schedule.h"
#include "runtime/base/Exceptions.h"
#include "runtime/exchange/Inputs.h"
#include "runtime/session/SessionImpl.h"
#include <deque>

namespace cleave::runtime {

using llvm::Error;
using llvm::Expected;

size_t Session::Impl::mostUnderWay() const {
  // A request reads what the one before has written.
  auto isOneForAll = [](const auto &state) { return state->scope != plan::StateScope::Sequence; };
  const bool trains = llvm::any_of(plan->weights, [](const auto &weight) { return weight->trainable; });
  if (trains || llvm::any_of(plan->states, isOneForAll))
    return 1;
  return options.maxInFlight ? options.maxInFlight : 2 * rankCount(*plan) + 2;
}

std::shared_ptr<Exchange> Session::Impl::connect(const RankSet &rankSet, uint32_t microbatches,
                                                 CancellationToken &cancellation) {
  if (peerExchange)
    return peerExchange;
  return rankSet.connect(microbatches, cancellation);
}

std::function<void(const std::string &)> Session::Impl::onTimeout() const {
  if (membership)
    return nullptr;
  return [closedReason = closedReason, told = options.onTimeout](const std::string &message) {
    closedReason->set("one had no result in time (" + message + ")");
    if (told)
      told(message);
  };
}

Expected<AdmissionController::Admission> Session::Impl::enter(uint64_t sequence) {
  if (Error error = closedReason->check())
    return error;
  return admitted(admissions->enter(plan->states.empty() ? std::nullopt : std::optional(sequence)));
}

Expected<AdmissionController::Admission> Session::Impl::enterAlone() {
  if (Error error = closedReason->check())
    return error;
  return admitted(admissions->enterAlone());
}

Expected<AdmissionController::Admission> Session::Impl::admitted(AdmissionController::Admission admission) {
  if (admission) {
    // The request before may have failed meanwhile, and left weights half changed.
    if (Error error = closedReason->check())
      return error;
    return admission;
  }
  return llvm::createStringError("no room for another request after " + llvm::Twine(options.timeout.count()) +
                                 " s; allow more time (--timeout)");
}

Error Session::Impl::checkSequence(RequestOptions request, int64_t batch) const {
  auto isOneForAll = [](const auto &state) { return state->scope == plan::StateScope::Session; };
  auto state = llvm::find_if(plan->states, isOneForAll);
  if (request.sequence != 0 && state != plan->states.end())
    return llvm::createStringError("found sequence id " + llvm::Twine(request.sequence) + ", but state " +
                                   (*state)->name +
                                   " has no rows for the batch, so there is one for all "
                                   "sequences; leave the id out");
  const std::optional<int64_t> found = states.batchOf(request.sequence);
  if (!found || *found == batch || !rankSets[request.signature].usesSequences)
    return Error::success();
  return llvm::createStringError("found a batch of " + llvm::Twine(batch) + " for sequence id " +
                                 llvm::Twine(request.sequence) + ", whose requests have " +
                                 llvm::Twine(*found) + " rows; end it first (Session::endSequence)");
}

Expected<std::shared_ptr<Request>> Session::Impl::submit(llvm::ArrayRef<at::Tensor> inputs,
                                                         RequestOptions options, ResolvedCaptures resolved) {
  const uint32_t signature = options.signature;
  if (signature >= plan->signatures.size())
    return llvm::createStringError("found signature " + llvm::Twine(signature) + ", expected less than " +
                                   llvm::Twine(plan->signatures.size()));
  const RankSet &rankSet = rankSets[signature];
  auto symbols =
      bindSymbols(*plan->signatures[signature], inputs,
                  {.sizesAlone = !rankSet.readsInputs, .beyondWitnesses = this->options.beyondWitnesses});
  if (!symbols)
    return symbols.takeError();
  std::vector<at::Tensor> leaves = canonicalized(inputs);
  Microbatches microbatches(*plan->signatures[signature],
                            plan::microbatchesOfAll(*plan, scheduleOf(*plan, signature)),
                            std::move(*symbols));
  std::shared_ptr<RequestCaptures> captures;
  if (!resolved.empty())
    if (Error error =
            RequestCaptures::create(*plan, signature, std::move(resolved), microbatches).moveInto(captures))
      return error;
  auto admission = enter(options.sequence);
  if (!admission)
    return admission.takeError();
  if (Error error = checkSequence(options, microbatches.batch()))
    return error;
  auto request = catching([&] {
    return begin(std::move(*admission), std::move(leaves), std::move(microbatches), options,
                 std::move(captures));
  });
  if (request || !membership)
    return request;
  // Other processes may have begun the request that this one cannot.
  return failAll(llvm::toString(request.takeError()));
}

Expected<std::shared_ptr<Request>> Session::Impl::begin(AdmissionController::Admission admission,
                                                        std::vector<at::Tensor> inputs,
                                                        Microbatches microbatches, RequestOptions options,
                                                        std::shared_ptr<RequestCaptures> captures) {
  const uint32_t signature = options.signature, count = microbatches.count();
  RequestStates view(states, options.sequence, rankSets[signature].usesSequences ? microbatches.batch() : 0);
  const bool stops = captures && captures->stops();
  const bool collects =
      peerExchange &&
      ((!stops && peerExchange->receivesOutputs(signature)) ||
       (captures && !peerExchange->sendsOutputs(signature) && captures->readsElsewhere(membership->rank())));
  std::lock_guard lock(submission);
  if (isCoordinator())
    if (Error error = commands->send({Command::Kind::Run, signature, options.sequence, inputs,
                                      captures ? captures->options() : ResolvedCaptures()}))
      return error;
  auto request = std::make_shared<Request>(
      submitted++, std::move(inputs), std::move(microbatches), plan->signatures[signature]->outputs.size(),
      rankSets[signature].ranks, admissions, std::move(admission), std::move(view),
      [&](CancellationToken &cancellation) { return connect(rankSets[signature], count, cancellation); },
      outputDevice, collects, membership.get(), onTimeout(),
      [closedReason = closedReason](const std::string &message) {
        closedReason->set("one failed while it changed weights, which may be half changed (" + message + ")");
      });
  request->refusesNan = options.refusesNan;
  request->errorPrefix = options.errorPrefix;
  request->captures = std::move(captures);
  underWay.add(request);
  post(request, signature, collects);
  return request;
}

void Session::Impl::post(const std::shared_ptr<Request> &request, uint32_t signature, bool collects) {
  llvm::ArrayRef<size_t> left = rankSets[signature].localIndices;
  try {
    for (; !left.empty(); left = left.drop_front())
      workers[left.front()]->post(
          [rank = ranks[left.front()].get(), request, signature] { rank->execute(*request, signature); });
    if (collects)
      collector->post([this, request, signature] { receiveOutputs(*request, signature); });
  } catch (const std::exception &exception) {
    // Ranks that got the request would wait for those that did not.
    request->cancellation.cancel(messageOf(exception));
    for (size_t index : left)
      request->leave(ranks[index]->number(), workers[index]->memory());
    if (collects)
      request->leave(std::nullopt, workers.front()->memory());
  }
}

void Session::Impl::receiveOutputs(Request &request, uint32_t signature) {
  const std::string who = "rank " + std::to_string(membership->rank());
  if (!request.cancellation.isCancelled())
    try {
      request.receiveOutputs(signature, membership->rank());
    } catch (const PeerLost &lost) {
      request.cancellation.cancelLost(lost.rank, who + " waited for outputs");
    } catch (const std::exception &exception) {
      request.cancellation.cancel(who + ": outputs: " + messageOf(exception));
    }
  request.leave(std::nullopt, workers.front()->memory());
}

Error Session::Impl::reset() {
  auto admission = enterAlone();
  if (!admission)
    return admission.takeError();
  std::lock_guard lock(submission);
  if (isCoordinator())
    if (Error error = commands->send({Command::Kind::Reset}))
      return error;
  states.reset();
  return Error::success();
}

Error Session::Impl::endSequence(uint64_t sequence) {
  auto admission = enter(sequence);
  if (!admission)
    return admission.takeError();
  std::lock_guard lock(submission);
  if (isCoordinator())
    if (Error error = commands->send({.kind = Command::Kind::EndSequence, .sequence = sequence}))
      return error;
  states.forget(sequence);
  return Error::success();
}

Error Session::Impl::checkMayCall() const {
  if (!commands || isCoordinator())
    return Error::success();
  return llvm::createStringError("rank " + llvm::Twine(membership->rank()) +
                                 " takes requests from the coordinator, rank 0; call serve() here");
}

Error Session::Impl::serve() {
  std::deque<std::shared_ptr<Request>> begun;
  auto finish = [&](size_t left) -> Error {
    for (; begun.size() > left; begun.pop_front())
      if (auto outputs = begun.front()->wait(); !outputs)
        return outputs.takeError();
    return Error::success();
  };
  for (;;) {
    auto command = commands->receive();
    if (!command)
      return command.takeError();
    if (command->kind == Command::Kind::End)
      return finish(0);
    if (command->kind != Command::Kind::Run) {
      if (Error error = command->kind == Command::Kind::Reset ? reset() : endSequence(command->sequence))
        return failAll(llvm::toString(std::move(error)));
      continue;
    }
    auto request =
        submit(command->inputs, {command->signature, command->sequence}, std::move(command->captures));
    if (!request)
      return failAll(llvm::toString(request.takeError()));
    begun.push_back(std::move(*request));
    if (Error error = finish(mostUnderWay()))
      return error;
  }
}

} // namespace cleave::runtime
