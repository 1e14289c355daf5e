//===- CommandChannel.cpp - Commands from rank 0 to the others ------------===//
#include "runtime/session/CommandChannel.h"
#include "runtime/base/DTypes.h"
#include "runtime/base/Exceptions.h"
#include "runtime/device/PlanRanks.h"
#include "runtime/exchange/TransferLimits.h"
#include "llvm/ADT/STLExtras.h"
#include <ATen/Functions.h>

namespace cleave::runtime {

using c10::IValue;
using llvm::Error;
using llvm::Expected;

Error agreeOnCoordinator(Membership &membership, bool hasCoordinator) {
  auto answers = membership.gather(hasCoordinator ? "coordinator" : "", 0);
  if (!answers)
    return answers.takeError();
  for (auto [rank, answer] : llvm::enumerate(*answers))
    if (answer != answers->front())
      return llvm::createStringError(membership.fail(
          "rank " + std::to_string(rank) +
          (answer.empty() ? " has no coordinator, others have one" : " has a coordinator, others have none") +
          "; set SessionOptions::hasCoordinator alike in all processes"));
  return membership.broadcast("", 0).takeError();
}

// Layout of a command: kind, signature, sequence id, capture points that are read (a list), that are replaced
// (a list), and after which the request stops (-1: none); then each input: a tensor, or a tuple of dtype and
// sizes if only the sizes are needed; then the replacements.

CommandChannel::CommandChannel(const plan::Plan &plan, Membership &membership, MemoryAccount &account)
    : plan(plan), membership(membership) {
  if (membership.rank() != 0)
    receiver.emplace(membership.transport(), 0, Tag::Commands, account, limitsOfCommand(plan));
  else
    for (uint32_t rank = 1; rank < membership.size(); ++rank)
      senders.try_emplace(rank, membership.transport(), rank, Tag::Commands);
}

static IValue sizesOf(const at::Tensor &tensor) {
  std::vector<IValue> words{int64_t(tensor.scalar_type())};
  words.insert(words.end(), tensor.sizes().begin(), tensor.sizes().end());
  return c10::ivalue::Tuple::create(std::move(words));
}

static at::Tensor tensorOf(const IValue &value) {
  if (value.isTensor())
    return value.toTensor();
  const auto &words = value.toTupleRef().elements();
  TORCH_CHECK(!words.empty(), "found an input without a type");
  std::vector<int64_t> sizes;
  for (const IValue &size : llvm::drop_begin(words))
    sizes.push_back(size.toInt());
  const int64_t number = words[0].toInt();
  const auto dtype = c10::ScalarType(number);
  TORCH_CHECK(number >= 0 && number < int64_t(c10::ScalarType::Undefined) &&
                  dtypeOf(dtype) != plan::DType::Unknown,
              "found an input of an unknown element type");
  return at::empty(sizes, at::TensorOptions(dtype).device(at::kMeta));
}

static void addPoints(const ResolvedCaptures &captures, std::vector<IValue> &values) {
  std::vector<int64_t> read, replaced;
  for (const auto &point : captures.captured)
    read.push_back(point.index);
  for (const auto &replacement : captures.replacements)
    replaced.push_back(replacement.point);
  values.insert(values.end(), {read, replaced, captures.stopAfter ? int64_t(*captures.stopAfter) : -1});
}

Error CommandChannel::send(const Command &command) {
  return membership.waitFor("for the others to take up a request", [&] {
    for (auto &[rank, sender] : senders) {
      const bool reads = command.kind == Command::Kind::Run && readsInputs(plan, rank, command.signature);
      std::vector<IValue> values{int64_t(command.kind), int64_t(command.signature),
                                 int64_t(command.sequence)};
      addPoints(command.captures, values);
      for (const at::Tensor &input : command.inputs)
        values.push_back(reads ? IValue(input) : sizesOf(input));
      for (const auto &replacement : command.captures.replacements)
        values.push_back(replacement.value);
      sender.send(values);
    }
  });
}

/// The captures of a command whose values are `values`. Takes the replacements from their end.
static ResolvedCaptures capturesOf(const plan::Plan &plan, uint32_t signature,
                                   llvm::ArrayRef<IValue> &values) {
  auto pointOf = [&](int64_t index) {
    TORCH_CHECK(index >= 0 && index < int64_t(plan.capture_points.size()) &&
                    plan.capture_points[index]->signature == signature,
                "found capture point ", index, ", expected one of the signature");
    return uint32_t(index);
  };
  ResolvedCaptures captures;
  for (int64_t index : values[3].toIntVector())
    captures.captured.push_back({pointOf(index), ""});
  const std::vector<int64_t> replaced = values[4].toIntVector();
  if (const int64_t last = values[5].toInt(); last >= 0)
    captures.stopAfter = pointOf(last);
  TORCH_CHECK(values.size() - kCommandWords >= replaced.size(), "found fewer values than replacements");
  for (auto [index, value] : llvm::zip(replaced, values.take_back(replaced.size())))
    captures.replacements.push_back({pointOf(index), value.toTensor()});
  values = values.drop_back(replaced.size());
  return captures;
}

Command readCommand(const plan::Plan &plan, llvm::ArrayRef<IValue> values) {
  TORCH_CHECK(values.size() >= kCommandWords, "found ", values.size(),
              " values, expected a kind, a signature, a sequence id and what is captured");
  const int64_t kind = values[0].toInt(), signature = values[1].toInt();
  TORCH_CHECK(kind >= 0 && kind <= int64_t(Command::Kind::End) && signature >= 0 &&
                  signature < int64_t(plan.signatures.size()),
              "found kind ", kind, " and signature ", signature, ", expected those of the plan");
  Command command{Command::Kind(kind), uint32_t(signature), uint64_t(values[2].toInt())};
  command.captures = capturesOf(plan, command.signature, values);
  for (const IValue &value : values.drop_front(kCommandWords))
    command.inputs.push_back(tensorOf(value));
  return command;
}

Expected<Command> CommandChannel::receive() {
  std::vector<IValue> values;
  try {
    receiver->take(values);
    return readCommand(plan, values);
  } catch (const PeerLost &lost) {
    membership.reportLost(lost.rank, "rank " + std::to_string(membership.rank()) + " waited for requests");
  } catch (const TransportClosed &) {
    // The run has ended.
  } catch (const std::exception &exception) {
    membership.fail("rank " + std::to_string(membership.rank()) + ": a request: " + messageOf(exception));
  }
  return membership.failure();
}

} // namespace cleave::runtime
