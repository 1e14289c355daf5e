//===- DeviceProcessGroup.cpp - GPUs as a c10d group ----------------------===//
#include "runtime/comm/process/DeviceProcessGroup.h"
#include "llvm/ADT/STLExtras.h"
#include <ATen/Functions.h>
#include <thread>
#include <torch/csrc/distributed/c10d/Backend.hpp>

namespace cleave::runtime {

using at::Tensor;
using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

/// A wait spins this long before it sleeps between polls: small transfers are done by then.
static constexpr auto kSpin = 1ms;
static constexpr auto kLook = 50us;
/// How long an aborted backend may take to release its tensors.
static constexpr auto kLetGo = 2s;

//===- Byte buffers -------------------------------------------------------===//

static Tensor bytesOf(const Tensor &tensor) { return tensor.contiguous().view({-1}).view(at::kByte); }

FlattenedTensors flatten(llvm::ArrayRef<Tensor> parts, c10::Device device) {
  FlattenedTensors flat;
  std::vector<Tensor> buffers{at::empty({0}, at::TensorOptions(at::kByte).device(device))};
  for (const Tensor &part : parts) {
    flat.counts.push_back(int64_t(part.nbytes()));
    buffers.push_back(bytesOf(part));
  }
  flat.bytes = at::cat(buffers);
  return flat;
}

void unflatten(const Tensor &bytes, llvm::ArrayRef<Tensor> parts) {
  int64_t done = 0;
  for (const Tensor &part : parts) {
    const int64_t count = int64_t(part.nbytes());
    // A copy, since a part of the buffer may be misaligned for the part's type.
    part.copy_(bytes.narrow(0, done, count).clone().view(part.scalar_type()).view(part.sizes()));
    done += count;
  }
  TORCH_CHECK(done == bytes.numel(), "found ", bytes.numel(), " bytes of parts, expected ", done);
}

//===- Waiting ------------------------------------------------------------===//

DeviceProcessGroup::DeviceProcessGroup(c10::intrusive_ptr<c10d::Backend> backend)
    : backend(std::move(backend)) {}

DeviceProcessGroup::~DeviceProcessGroup() {
  abort();
  // Destroying the backend would wait for the thread that was left behind.
  if (!hasLetGo(0s))
    (void)backend.release();
}

bool DeviceProcessGroup::hasLetGo(std::chrono::seconds limit) const {
  return letGo.wait_for(limit) == std::future_status::ready;
}

void DeviceProcessGroup::abort() {
  if (isClosed.exchange(true))
    return;
  std::unique_lock lock(asking);
  // On a thread that is left behind if NCCL never returns.
  std::thread([aborting = backend, ended = ended]() mutable {
    try {
      aborting->abort();
    } catch (const std::exception &) {
      // The run ends all the same.
    }
    aborting.reset();
    ended->set_value();
  }).detach();
  lock.unlock();
  (void)hasLetGo(kLetGo);
}

/// Polls until `isOver`, or until `limit` has passed; 0: no limit.
template <typename Condition> static bool lookUntil(Condition isOver, Clock::duration limit = 0s) {
  const Clock::time_point begin = Clock::now();
  while (!isOver()) {
    const Clock::duration waited = Clock::now() - begin;
    if (limit > 0s && waited > limit)
      return false;
    if (waited > kSpin)
      std::this_thread::sleep_for(kLook);
  }
  return true;
}

void DeviceProcessGroup::await(c10::intrusive_ptr<c10d::Work> work) {
  lookUntil([&] {
    std::lock_guard lock(asking);
    return isClosed || work->isCompleted();
  });
  if (isClosed) {
    // The device may still write to the tensors, so they are leaked.
    if (!hasLetGo(kLetGo))
      (void)work.release();
    throw TransportClosed();
  }
  if (std::exception_ptr problem = work->exception())
    std::rethrow_exception(problem);
  // Orders this thread's stream after the work, and makes c10d release the tensors.
  work->synchronize();
}

template <typename Call> auto DeviceProcessGroup::attempt(Call call) {
  if (isClosed)
    throw TransportClosed();
  try {
    return call();
  } catch (const std::exception &) {
    // The death of another process explains more than c10d's error does.
    if (lookUntil([&] { return isClosed.load(); }, kEarlierFailureWait))
      throw TransportClosed();
    throw;
  }
}

//===- Calls --------------------------------------------------------------===//

Tensor DeviceProcessGroup::allReduce(const Tensor &given) {
  std::vector<Tensor> tensors{given.clone(at::MemoryFormat::Contiguous)};
  if (given.numel() > 0)
    attempt([&] { await(backend->allreduce(tensors)); });
  return tensors.front();
}

Tensor DeviceProcessGroup::broadcast(const Tensor &given, uint32_t root) {
  const Tensor result = given.clone(at::MemoryFormat::Contiguous);
  std::vector<Tensor> tensors{bytesOf(result)};
  c10d::BroadcastOptions options;
  options.rootRank = root;
  if (given.numel() > 0)
    attempt([&] { await(backend->broadcast(tensors, options)); });
  return result;
}

void DeviceProcessGroup::allToAll(llvm::ArrayRef<Tensor> inputs, llvm::ArrayRef<Tensor> outputs,
                                  c10::Device device) {
  FlattenedTensors out = flatten(inputs, device);
  std::vector<int64_t> counts;
  int64_t sum = 0;
  for (const Tensor &part : outputs) {
    counts.push_back(int64_t(part.nbytes()));
    sum += counts.back();
  }
  Tensor in = at::empty({sum}, out.bytes.options());
  attempt([&] { await(backend->alltoall_base(in, out.bytes, counts, out.counts)); });
  unflatten(in, outputs);
}

//===- Messages -----------------------------------------------------------===//

class DeviceProcessGroup::Pending final : public PendingMessage {
public:
  Pending(DeviceProcessGroup &group, c10::intrusive_ptr<c10d::Work> work)
      : group(group), work(std::move(work)) {}
  ~Pending() override {
    // The device may still write to the tensors.
    if (work && !group.hasLetGo(0s))
      (void)work.release();
  }
  void wait() override {
    group.attempt([&] { group.await(std::move(work)); });
  }

private:
  DeviceProcessGroup &group;
  c10::intrusive_ptr<c10d::Work> work;
};

std::unique_ptr<PendingMessage> DeviceProcessGroup::send(uint32_t to, const Tensor &bytes) {
  std::vector<Tensor> tensors{bytes};
  return attempt([&] { return std::make_unique<Pending>(*this, backend->send(tensors, int(to), 0)); });
}

std::unique_ptr<PendingMessage> DeviceProcessGroup::receive(uint32_t from, const Tensor &bytes) {
  std::vector<Tensor> tensors{bytes};
  return attempt([&] { return std::make_unique<Pending>(*this, backend->recv(tensors, int(from), 0)); });
}

} // namespace cleave::runtime
