//===- Lead.cpp - What process 0 has the others do ------------------------===//
#include "runtime/session/Lead.h"
#include "runtime/base/DTypes.h"
#include "runtime/base/Exceptions.h"
#include "runtime/device/Placement.h"
#include "runtime/exchange/TransferLimits.h"
#include "llvm/ADT/STLExtras.h"
#include <ATen/Functions.h>

namespace cleave::runtime {

using c10::IValue;
using llvm::Error;
using llvm::Expected;

Error agreeWhoLeads(Peers &peers, bool isLed) {
  auto words = peers.gather(isLed ? "led" : "", 0);
  if (!words)
    return words.takeError();
  for (auto [rank, word] : llvm::enumerate(*words))
    if (word != words->front())
      return llvm::createStringError(peers.fail("rank " + std::to_string(rank) + " is " +
                                                (word.empty() ? "not " : "") +
                                                "led by rank 0, others are otherwise; set "
                                                "SessionOptions::led alike"));
  return peers.share("", 0).takeError();
}

// An order as values: its kind, its signature, and each input as a tensor or, where only its sizes count, as
// a tuple of its element type and its sizes.

Lead::Lead(const plan::Plan &plan, Peers &peers, MemoryAccount &account) : plan(plan), peers(peers) {
  if (peers.rank() != 0)
    inbox.emplace(peers.wire(), 0, Topic::Orders, account, limitsOfInputs(plan));
  else
    for (uint32_t rank = 1; rank < peers.size(); ++rank)
      outboxes.try_emplace(rank, peers.wire(), rank, Topic::Orders);
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

Error Lead::give(const Order &order) {
  return peers.waitFor("for the others to take up a request", [&] {
    for (auto &[rank, outbox] : outboxes) {
      const bool reads = order.kind == Order::Kind::Run && readsInputs(plan, rank, order.signature);
      std::vector<IValue> values{int64_t(order.kind), int64_t(order.signature)};
      for (const at::Tensor &input : order.inputs)
        values.push_back(reads ? IValue(input) : sizesOf(input));
      outbox.send(values);
    }
  });
}

Order readOrder(const plan::Plan &plan, llvm::ArrayRef<IValue> values) {
  TORCH_CHECK(values.size() >= 2, "found ", values.size(), " values, expected a kind and a signature");
  const int64_t kind = values[0].toInt(), signature = values[1].toInt();
  TORCH_CHECK(kind >= 0 && kind <= int64_t(Order::Kind::End) && signature >= 0 &&
                  signature < int64_t(plan.signatures.size()),
              "found kind ", kind, " and signature ", signature, ", expected those of the plan");
  Order order{Order::Kind(kind), uint32_t(signature)};
  for (const IValue &value : values.drop_front(2))
    order.inputs.push_back(tensorOf(value));
  return order;
}

Expected<Order> Lead::take() {
  std::vector<IValue> values;
  try {
    inbox->take(values);
    return readOrder(plan, values);
  } catch (const PeerLost &lost) {
    peers.lose(lost.rank, "rank " + std::to_string(peers.rank()) + " waited for requests");
  } catch (const WireCut &) {
    // The run has ended.
  } catch (const std::exception &exception) {
    peers.fail("rank " + std::to_string(peers.rank()) + ": a request: " + messageOf(exception));
  }
  return peers.failure();
}

} // namespace cleave::runtime
