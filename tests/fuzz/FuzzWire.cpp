//===- FuzzWire.cpp - Messages of other processes -------------------------===//
//
// The first byte of a case selects the receiver: a stage that waits for values, a rank that waits for a
// command, a tensor group in one of its collectives, or a parser of texts of other ranks. The rest is what
// the other processes send, message after message.
//
//===----------------------------------------------------------------------===//
#include "codegen/plan/text/Printable.h"
#include "runtime/base/Exceptions.h"
#include "runtime/comm/process/PeerGroup.h"
#include "runtime/exchange/P2PChannel.h"
#include "runtime/rendezvous/PeerWaits.h"
#include "runtime/session/CommandChannel.h"
#include "tests/fuzz/Fuzz.h"
#include "tests/unit/plan/PlanBuilder.h"
#include "tools/cleave/run/RunInputs.h"
#include "tools/cleave/run/RunReport.h"
#include "tools/cleave/run/TraceMerge.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/JSON.h"
#include <ATen/ATen.h>
#include <cstring>

namespace cleave::fuzz {

using namespace runtime;
using c10::IValue;
using llvm::ArrayRef;
using llvm::StringRef;

enum Target : uint8_t { Values, Commands, Group, Report = Group + 5, Trace, Description, Status, Targets };

/// Values and bytes of a transfer.
static constexpr SerializedLimits kLimits{8, 4096};
/// Each message is preceded by its length.
static constexpr size_t kLengthBytes = 2;
static constexpr uint32_t kRanks = 3;

namespace {
/// Receives the messages of a case, and concatenates sent messages into a case.
class CaseTransport final : public Transport {
public:
  explicit CaseTransport(StringRef rest = {}) : rest(rest) {}
  std::unique_ptr<PendingMessage> send(uint32_t, Tag, const void *data, size_t bytes) override {
    char length[kLengthBytes];
    llvm::support::endian::write16le(length, uint16_t(bytes));
    sent.append(length, kLengthBytes).append(static_cast<const char *>(data), bytes);
    return std::make_unique<Done>();
  }
  std::unique_ptr<PendingMessage> receive(uint32_t, Tag, void *data, size_t bytes) override {
    if (rest.size() < kLengthBytes)
      throw TransportClosed();
    const size_t length = llvm::support::endian::read16le(rest.data());
    StringRef message = rest.drop_front(kLengthBytes).take_front(std::min(length, bytes));
    std::memcpy(data, message.data(), message.size());
    rest = rest.drop_front(kLengthBytes + message.size());
    return std::make_unique<Done>();
  }
  void close() override {}
  std::string sent;

private:
  class Done final : public PendingMessage {
    void wait() override {}
  };
  StringRef rest;
};
} // namespace

static const plan::Plan &planOf() {
  static const std::unique_ptr<plan::Plan> plan = plan::makeTwoStagePlan();
  return *plan;
}

//===- Seeds --------------------------------------------------------------===//

static std::string sentAs(Target target, std::vector<IValue> values) {
  CaseTransport transport;
  Sender sender(transport, 0, Tag::Values);
  sender.send(values);
  return std::string(1, char(target)) + transport.sent;
}

static at::Tensor call(Communicator &group, CollectiveOp operation) {
  const at::Tensor tensor = at::ones({kRanks, 2});
  switch (operation) {
  case CollectiveOp::AllReduce:
    return group.allReduce(tensor);
  case CollectiveOp::AllGather:
    return group.allGather(tensor, 0, {0, 0, 1, 1, 1, 2, 2, 0, 3});
  case CollectiveOp::ReduceScatter:
    return group.reduceScatter(tensor, 0, {0, 1});
  case CollectiveOp::AllToAll:
    return group.allToAll(tensor, 1, {0, 0, 2, 1, 0, 2, 2, 0, 2}, 0, {0, 1});
  case CollectiveOp::Broadcast:
    return group.broadcast(tensor, 1);
  }
  return {};
}

/// Arguments of a rank in the first round, once for each of the other ranks.
static std::string groupSeed(CollectiveOp operation) {
  CaseTransport transport;
  PeerGroup group(transport, consecutiveRanks(0, kRanks), 0);
  try {
    call(group, operation);
  } catch (const TransportClosed &) {
    // No rank answers; the message to rank 1 was sent.
  }
  return std::string(1, char(Group + int(operation))) + transport.sent + transport.sent;
}

std::vector<std::string> seeds() {
  c10::Dict<std::string, at::Tensor> dict;
  dict.insert("a", at::ones({3}));
  const at::Tensor quantized = at::quantize_per_tensor(at::ones({2}), 0.5, 3, at::kQUInt8);
  const IValue sizes = c10::ivalue::Tuple::create({int64_t(at::kFloat), int64_t(4), int64_t(8)});
  const c10::List<int64_t> none;
  std::vector<std::string> all = {
      sentAs(Values, {at::ones({2, 3}), int64_t(3), 2.5, std::string("text")}),
      sentAs(Values, {at::ones({8}).slice(0, 0, 8, 2), at::ones({1}).expand({9}), quantized, dict}),
      sentAs(Values, {c10::List<int64_t>({1, 2}), c10::Device("cpu"), true, IValue()}),
      sentAs(Commands, {int64_t(0), int64_t(0), int64_t(0), none, none, int64_t(-1), at::ones({4, 8})}),
      sentAs(Commands, {int64_t(0), int64_t(0), int64_t(0), c10::List<int64_t>({0}), c10::List<int64_t>({0}),
                        int64_t(0), sizes, at::ones({4, 8})})};
  for (int operation = 0; operation <= int(CollectiveOp::Broadcast); ++operation)
    all.push_back(groupSeed(CollectiveOp(operation)));
  auto text = [&](Target target, StringRef words) {
    all.push_back(std::string(1, char(target)) + words.str());
  };
  text(Report,
       R"({"devices":[{"name":"cpu:0","peak_bytes":1,"weight_bytes":1,"busy_seconds":1,"busy_alone":1}],)"
       R"("outputs":[{"name":"y","dtype":"float32","shape":[4,4]}]})");
  text(Trace, "{\"bytes\": 44, \"begin\": 10, \"names\": {\"0\": \"cpu:0\"}}\n" + std::string(44, 0));
  text(Description, R"([{"dtype":6,"sizes":[4,8],"checksum":"00"}])");
  text(Status, "1 is loading the plan");
  return all;
}

//===- Cases --------------------------------------------------------------===//

static void receiveValues(StringRef rest, bool areCommands) {
  CaseTransport transport(rest);
  const MemoryAccountRef account{new MemoryAccount("fuzz")};
  Receiver receiver(transport, 1, Tag::Values, *account, kLimits);
  std::vector<IValue> values;
  receiver.take(values);
  promise(values.size() <= kLimits.values, "more values than are expected");
  for (const IValue &value : values)
    promise(!value.isTensor() || !value.toTensor().defined() || value.toTensor().nbytes() <= kLimits.bytes,
            "more bytes than are expected");
  if (areCommands)
    promise(readCommand(planOf(), values).signature < planOf().signatures.size(), "a signature that is none");
}

static void callGroup(StringRef rest, CollectiveOp operation) {
  CaseTransport transport(rest);
  PeerGroup group(transport, consecutiveRanks(0, kRanks), 0);
  promise(call(group, operation).numel() <= kRanks * kRanks * 2, "more than ranks have given");
}

static void noteError(llvm::Error error) {
  std::string message = toString(std::move(error));
  promise(plan::isPrintable(plan::printable(message)), "text that is not printable");
  noteOutcome(message);
}

static void readReport(StringRef words) {
  Measurement own;
  own.secondsAlone = own.secondsPerStep = own.steps = 1;
  auto report = RunReport::merge(planOf(), own, {words.str(), words.str()}, 1);
  if (!report)
    return noteError(report.takeError());
  (void)report->toJson();
  std::string printed;
  llvm::raw_string_ostream out(printed);
  report->printText(out);
  promise(plan::printableLines(printed) == printed, "a report that is not printable");
}

/// A heading in the first line, then chunks of rank 0; the second process has no events.
static void readTrace(StringRef words) {
  std::string written;
  TraceMerge merge(planOf(), [&](StringRef text) {
    written += text;
    return llvm::Error::success();
  });
  auto [heading, chunk] = words.split('\n');
  auto chunks = merge.begin({heading.str(), R"({"bytes": 0, "begin": 0, "names": {"1": "cpu:1"}})"});
  if (!chunks)
    return noteError(chunks.takeError());
  if (llvm::Error error = merge.add(0, chunk))
    return noteError(std::move(error));
  llvm::cantFail(merge.finish());
  auto read = llvm::json::parse(written);
  promise(bool(read), "a trace that is no JSON");
}

static void readStatus(StringRef words) {
  KnownPeer peer;
  peer.update(words.str(), PeerClock::time_point());
  promise(plan::isPrintable(peer.status) && peer.status.size() < 8192, "a status that is not printable");
}

static void receive(Target target, StringRef rest) {
  switch (target) {
  case Values:
  case Commands:
    return receiveValues(rest, target == Commands);
  case Report:
    return readReport(rest);
  case Trace:
    return readTrace(rest);
  case Description:
    if (auto inputs = describedInputs(rest); !inputs)
      noteError(inputs.takeError());
    return;
  case Status:
    return readStatus(rest);
  default:
    return callGroup(rest, CollectiveOp(target - Group));
  }
}

bool test(ArrayRef<uint8_t> bytes) {
  if (bytes.empty())
    return false;
  try {
    receive(Target(bytes[0] % Targets), textOf(bytes.drop_front()));
  } catch (const std::exception &exception) {
    noteOutcome(messageOf(exception));
  }
  return true;
}

} // namespace cleave::fuzz
