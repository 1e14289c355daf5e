//===- Lead.h - What process 0 has the others do ----------------*- C++ -*-===//
#ifndef CLEAVE_RUNTIME_SESSION_LEAD_H
#define CLEAVE_RUNTIME_SESSION_LEAD_H

#include "codegen/plan/Plan.h"
#include "runtime/exchange/Post.h"
#include "runtime/rendezvous/Peers.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"
#include <ATen/core/Tensor.h>
#include <map>
#include <optional>
#include <vector>

namespace cleave::runtime {

/// A call of a session, which all processes make.
struct Order {
  enum class Kind { Run, Reset, End };
  Kind kind = Kind::End;
  uint32_t signature = 0;
  std::vector<at::Tensor> inputs = {};
};

/// The values by which process 0 tells of an order. Throws for what are none of the plan.
Order readOrder(const plan::Plan &plan, llvm::ArrayRef<c10::IValue> values);

/// Fails in all processes where they do not say alike whether process 0 leads.
llvm::Error agreeWhoLeads(Peers &peers, bool isLed);

/// The way of orders from process 0 to all others, which carry them out one after the other.
class Lead {
public:
  /// \param account  counts what comes.
  Lead(const plan::Plan &plan, Peers &peers, MemoryAccount &account);

  /// Of process 0, one thread at a time. Returns when the order before this one has been taken. Who does not
  /// read inputs is told their sizes alone.
  llvm::Error give(const Order &order);
  /// Of the others. Waits for as long as it takes.
  llvm::Expected<Order> take();

private:
  const plan::Plan &plan;
  Peers &peers;
  /// By rank; of process 0.
  std::map<uint32_t, Outbox> outboxes;
  /// Of the others.
  std::optional<Inbox> inbox;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_SESSION_LEAD_H
