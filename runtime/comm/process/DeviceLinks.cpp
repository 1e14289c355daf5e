//===- DeviceLinks.cpp - GPU connections of a process ---------------------===//
#include "runtime/comm/process/DeviceLinks.h"
#include "codegen/plan/Schedule.h"
#include "codegen/plan/text/Printable.h"
#include "runtime/base/Exceptions.h"
#include "runtime/device/PlanRanks.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include <future>
#include <numeric>
#include <set>
#include <thread>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

namespace cleave::runtime {

using llvm::ArrayRef;
using llvm::Error;
using llvm::Expected;
using llvm::StringRef;
using namespace std::chrono_literals;

using Backends = std::vector<c10::intrusive_ptr<c10d::Backend>>;

/// How often to check whether the run has failed.
static constexpr auto kLook = 10ms;
/// Longest name of a device.
static constexpr size_t kLongestName = 255;

//===- GPU groups ---------------------------------------------------------===//

/// Pairs (sender, receiver) of ranks.
static std::set<std::pair<uint32_t, uint32_t>> transfersOf(const plan::Plan &plan) {
  std::set<std::pair<uint32_t, uint32_t>> pairs;
  for (const auto &schedule : plan.schedules)
    for (uint32_t rank = 0; rank < schedule->ranks.size(); ++rank)
      for (const auto &action : schedule->ranks[rank]->actions)
        if (plan::isSend(action->kind))
          pairs.insert({rank, peerOf(plan, rank, *action)});
  return pairs;
}

std::vector<GpuGroupSpec> gpuGroupSpecs(const plan::Plan &plan, ArrayRef<RankDevice> devices) {
  std::vector<GpuGroupSpec> specs;
  auto add = [&](GpuGroupSpec::Kind kind, std::vector<uint32_t> ranks) {
    if (llvm::all_of(ranks, [&](uint32_t rank) { return !devices[rank].gpu.empty(); }))
      specs.push_back({kind, std::move(ranks)});
  };
  const uint32_t tp = plan.mesh->tp;
  for (uint32_t first = 0; tp > 1 && first < devices.size(); first += tp) {
    std::vector<uint32_t> ranks(tp);
    std::iota(ranks.begin(), ranks.end(), first);
    add(GpuGroupSpec::Kind::TensorParallel, std::move(ranks));
  }
  for (auto [from, to] : transfersOf(plan))
    add(GpuGroupSpec::Kind::PointToPoint, {from, to});
  return specs;
}

Error checkDistinct(ArrayRef<GpuGroupSpec> specs, ArrayRef<RankDevice> devices) {
  for (const GpuGroupSpec &spec : specs)
    for (size_t i = 0; i < spec.ranks.size(); ++i)
      for (size_t j = 0; j < i; ++j) {
        const RankDevice &one = devices[spec.ranks[j]], &other = devices[spec.ranks[i]];
        if (one.gpu == other.gpu)
          return llvm::createStringError(
              "ranks " + llvm::Twine(spec.ranks[j]) + " (" + one.name + ") and " +
              llvm::Twine(spec.ranks[i]) + " (" + other.name +
              ") exchange tensors and are two processes on one GPU, " + one.gpu +
              ", which NCCL does not allow; give each process a GPU of its own, or "
              "run all ranks in one process");
      }
  return Error::success();
}

//===- Connecting ---------------------------------------------------------===//

static Expected<RankDevice> describe(const ResolvedDevice &device) {
  if (!device.plugin)
    return RankDevice{device.name, ""};
  return catching([&]() -> Expected<RankDevice> {
    return RankDevice{device.name, device.plugin->identify(device.torchDevice.index())};
  });
}

/// Gathers the devices of all ranks.
static Expected<std::vector<RankDevice>> tellDevices(Membership &membership, const RankDevice &own) {
  auto words = membership.gather(own.name + " " + own.gpu, 0);
  if (!words)
    return words.takeError();
  auto all = membership.broadcast(llvm::join(*words, "\n"), 0);
  if (!all)
    return all.takeError();
  std::vector<RankDevice> devices;
  for (StringRef line : llvm::split(*all, '\n')) {
    auto [name, gpu] = line.split(' ');
    devices.push_back({plan::printable(name, kLongestName), plan::printable(gpu, kLongestName)});
  }
  if (devices.size() != membership.size())
    return llvm::createStringError("found the devices of " + llvm::Twine(devices.size()) +
                                   " ranks at rank 0, expected those of " + llvm::Twine(membership.size()));
  return devices;
}

/// Connects the GPU groups of this process. The key is the index of the group among all groups.
static Backends connectAll(Membership &membership, const ResolvedDevice &device,
                           const std::map<size_t, GpuGroupSpec> &specs, std::chrono::seconds timeout) {
  auto backends = std::make_shared<Backends>();
  // On a thread that is left behind if it waits for a process that is gone.
  std::packaged_task<void()> connecting([launch = membership.launchInfo(), device, specs, timeout, backends] {
    for (const auto &[number, spec] : specs) {
      const int own = int(llvm::find(spec.ranks, launch.rank) - spec.ranks.begin());
      backends->push_back(device.plugin->connect(
          device.torchDevice.index(), openGroupStore(launch, "gpus/" + std::to_string(number), timeout), own,
          int(spec.ranks.size())));
    }
  });
  std::future<void> connected = connecting.get_future();
  std::thread(std::move(connecting)).detach();
  // Leaks the backends if another group fails: destroying them would abort groups while the process ends.
  auto leaveBehind = [&] { (void)new std::shared_ptr<Backends>(std::move(backends)); };
  while (connected.wait_for(kLook) != std::future_status::ready)
    if (membership.isOver()) {
      leaveBehind();
      throw TransportClosed();
    }
  try {
    connected.get();
    return std::move(*backends);
  } catch (const std::exception &) {
    leaveBehind();
    // The death of another process explains more than NCCL's error does.
    for (auto waited = 0ms; waited < kEarlierFailureWait && !membership.isOver(); waited += kLook)
      std::this_thread::sleep_for(kLook);
    if (membership.isOver())
      throw TransportClosed();
    throw;
  }
}

Expected<std::unique_ptr<DeviceLinks>> DeviceLinks::open(const plan::Plan &plan, Membership &membership,
                                                         const ResolvedDevice &device,
                                                         std::chrono::seconds timeout) {
  auto failed = [&](Error error) {
    return llvm::createStringError(membership.fail("rank " + std::to_string(membership.rank()) + ": " +
                                                   llvm::toString(std::move(error))));
  };
  auto own = describe(device);
  if (!own)
    return failed(own.takeError());
  auto devices = tellDevices(membership, *own);
  if (!devices)
    return failed(devices.takeError());
  const std::vector<GpuGroupSpec> specs = gpuGroupSpecs(plan, *devices);
  if (Error error = checkDistinct(specs, *devices))
    return failed(std::move(error));
  std::map<size_t, GpuGroupSpec> ours;
  for (auto [number, spec] : llvm::enumerate(specs))
    if (llvm::is_contained(spec.ranks, membership.rank()))
      ours.emplace(number, spec);
  auto opened = std::make_unique<DeviceLinks>();
  opened->ownDevice = device.torchDevice;
  if (ours.empty())
    return opened;
  Error error = membership.waitFor("for the GPUs of the ranks to be connected", [&] {
    const Backends backends = connectAll(membership, device, ours, timeout);
    for (auto [spec, backend] : llvm::zip(llvm::make_second_range(ours), backends))
      opened->add(spec, membership.rank(), device.torchDevice, backend);
  });
  if (error)
    return error;
  return opened;
}

//===- Links --------------------------------------------------------------===//

namespace {
/// One direction between the two members of a group.
class PairLink final : public TensorLink {
public:
  PairLink(DeviceProcessGroup &group, uint32_t peer, c10::Device device)
      : TensorLink(device), group(group), peer(peer) {}
  std::unique_ptr<PendingMessage> send(const at::Tensor &bytes) override { return group.send(peer, bytes); }
  std::unique_ptr<PendingMessage> receive(const at::Tensor &bytes) override {
    return group.receive(peer, bytes);
  }

private:
  DeviceProcessGroup &group;
  const uint32_t peer;
};
} // namespace

void DeviceLinks::add(const GpuGroupSpec &spec, uint32_t own, c10::Device device,
                      c10::intrusive_ptr<c10d::Backend> backend) {
  groups.push_back(std::make_unique<DeviceProcessGroup>(std::move(backend)));
  DeviceProcessGroup &made = *groups.back();
  if (spec.kind == GpuGroupSpec::Kind::TensorParallel) {
    group = &made;
    return;
  }
  const bool gives = spec.ranks[0] == own;
  links.emplace(std::pair(spec.ranks[gives ? 1 : 0], gives),
                std::make_unique<PairLink>(made, gives ? 1 : 0, device));
}

TensorLink *DeviceLinks::linkOf(uint32_t peer, bool gives) const {
  auto found = links.find({peer, gives});
  return found == links.end() ? nullptr : found->second.get();
}

void DeviceLinks::abort() {
  // Concurrently: when NCCL frees a group's memory, CUDA waits for all work of the GPU, which may wait for
  // another group.
  std::vector<std::thread> aborting;
  for (const auto &each : groups)
    aborting.emplace_back([&each] { each->abort(); });
  for (std::thread &thread : aborting)
    thread.join();
}

} // namespace cleave::runtime
