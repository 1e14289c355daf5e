//===- P2PChannel.cpp - Values sent between processes ---------------------===//
#include "runtime/exchange/P2PChannel.h"
#include "runtime/base/Exceptions.h"
#include "runtime/base/Values.h"
#include "runtime/device/Streams.h"
#include <c10/core/InferenceMode.h>
#include <c10/util/Exception.h>
#include <cstring>
#include <pthread.h>

namespace cleave::runtime {

using c10::IValue;

/// Size of the receiver's buffer for the first message of values.
static constexpr size_t kFirst = 64 << 10;

namespace {
struct Sizes {
  uint64_t header, blocks;
};
} // namespace

static bool fits(Sizes sizes, bool withBlocks) {
  const uint64_t room = kFirst - sizeof sizes;
  return sizes.header <= room && (!withBlocks || sizes.blocks <= room - sizes.header);
}

//===- Out ----------------------------------------------------------------===//

void Sender::flush() {
  for (const auto &message : messages)
    message->wait();
  messages.clear();
  outgoing = {};
}

void Sender::send(std::vector<IValue> &values) {
  flush();
  for (IValue &value : values)
    if (!link)
      value = movedTo(c10::kCPU, std::move(value));
  // The receiver blocks its GPU as soon as it knows of the tensors, so they must be ready.
  if (link)
    synchronize(link->device);
  outgoing = serialize(values, link ? std::optional(link->device) : std::nullopt);
  values.clear();
  Sizes sizes{outgoing.header.size(), 0};
  for (const TensorMemory &block : outgoing.blocks)
    sizes.blocks += block.bytes;
  first.assign(reinterpret_cast<const char *>(&sizes), sizeof sizes);
  if (fits(sizes, /*withBlocks=*/false))
    first += outgoing.header;
  const bool isWhole = fits(sizes, /*withBlocks=*/true);
  for (const TensorMemory &block : outgoing.blocks)
    if (isWhole)
      first.append(static_cast<const char *>(block.data), block.bytes);
  std::unique_ptr<PendingMessage> opening = transport.send(to, tag, first.data(), first.size());
  if (isWhole)
    outgoing.blocks.clear();
  else if (!fits(sizes, /*withBlocks=*/false))
    messages.push_back(transport.send(to, tag, outgoing.header.data(), outgoing.header.size()));
  for (const TensorMemory &block : outgoing.blocks)
    messages.push_back(transport.send(to, tag, block.data, block.bytes));
  if (outgoing.linkBuffers.empty()) {
    messages.push_back(std::move(opening));
    return;
  }
  opening->wait();
  for (const at::Tensor &buffer : outgoing.linkBuffers)
    messages.push_back(link->send(buffer));
}

//===- In -----------------------------------------------------------------===//

Receiver::Receiver(Transport &transport, uint32_t from, Tag tag, MemoryAccount &account,
                   SerializedLimits limits, TensorLink *link)
    : transport(transport), from(from), tag(tag), link(link), account(&account), limits(limits),
      thread([this] { work(); }) {}

Receiver::~Receiver() {
  {
    std::lock_guard lock(mutex);
    ending = true;
  }
  changed.notify_all();
  thread.join();
}

void Receiver::work() {
  pthread_setname_np(pthread_self(), ("from " + std::to_string(from)).c_str());
  c10::InferenceMode inference;
  ScopedAccount counted(*account);
  for (;;) {
    std::vector<IValue> values;
    std::exception_ptr problem;
    try {
      receiveValues(transport, from, tag, limits, link, buffer, values);
    } catch (const PeerLost &) {
      problem = std::current_exception();
    } catch (const TransportClosed &) {
      problem = std::current_exception();
    } catch (const std::exception &exception) {
      problem = std::make_exception_ptr(
          std::runtime_error("a message of rank " + std::to_string(from) + ": " + messageOf(exception)));
    }
    std::unique_lock lock(mutex);
    arrived = std::move(values);
    failure = problem;
    isThere = true;
    changed.notify_all();
    changed.wait(lock, [&] { return ending || !isThere; });
    if (ending || problem)
      return;
  }
}

void Receiver::take(std::vector<IValue> &values) {
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return isThere; });
  if (failure)
    std::rethrow_exception(failure);
  values.clear();
  // GPU values were allocated on the stream of another thread.
  recordStream(arrived);
  for (IValue &value : arrived)
    values.push_back(std::move(value));
  arrived.clear();
  isThere = false;
  changed.notify_all();
}

void receiveValues(Transport &transport, uint32_t from, Tag tag, SerializedLimits limits, TensorLink *link,
                   std::vector<char> &first, std::vector<IValue> &values) {
  first.resize(kFirst);
  Sizes sizes{0, 0};
  // A malformed message may be shorter than `sizes`.
  std::memcpy(first.data(), &sizes, sizeof sizes);
  transport.receive(from, tag, first.data(), first.size())->wait();
  std::memcpy(&sizes, first.data(), sizeof sizes);
  const char *next = first.data() + sizeof sizes;
  std::string longHeader;
  TORCH_CHECK(sizes.header <= kMaxHeader, "found a header of ", sizes.header, " bytes, expected at most ",
              kMaxHeader);
  llvm::StringRef header(next, sizes.header);
  if (!fits(sizes, /*withBlocks=*/false)) {
    longHeader.resize(sizes.header);
    transport.receive(from, tag, longHeader.data(), longHeader.size())->wait();
    header = longHeader;
  }
  Deserializer incoming(header, limits, link ? std::optional(link->device) : std::nullopt);
  uint64_t expected = 0;
  for (const TensorMemory &block : incoming.blocks())
    expected += block.bytes;
  TORCH_CHECK(expected == sizes.blocks, "found ", sizes.blocks, " bytes of tensors, expected ", expected);
  next += sizes.header;
  std::vector<std::unique_ptr<PendingMessage>> messages;
  for (const TensorMemory &block : incoming.blocks()) {
    if (!fits(sizes, /*withBlocks=*/true)) {
      messages.push_back(transport.receive(from, tag, block.data, block.bytes));
      continue;
    }
    std::memcpy(block.data, next, block.bytes);
    next += block.bytes;
  }
  for (const at::Tensor &buffer : incoming.linkBuffers())
    messages.push_back(link->receive(buffer));
  for (const auto &message : messages)
    message->wait();
  incoming.finish(values);
  // The thread that takes the values computes on a stream of its own.
  if (link)
    synchronize(link->device);
}

} // namespace cleave::runtime
