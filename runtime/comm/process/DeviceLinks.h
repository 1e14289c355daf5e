//===- DeviceLinks.h - Which GPUs of a run reach each other -----*- C++ -*-===//
//
// Between two processes with GPUs tensors go by NCCL, which each process uses for its own GPU alone. What
// says how many and how large they are goes by messages, as does all that concerns a CPU.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_RUNTIME_COMM_PROCESS_DEVICELINKS_H
#define CLEAVE_RUNTIME_COMM_PROCESS_DEVICELINKS_H

#include "codegen/plan/Plan.h"
#include "runtime/comm/TensorLink.h"
#include "runtime/comm/local/DeviceProcessGroup.h"
#include "runtime/device/Device.h"
#include "runtime/rendezvous/Membership.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace cleave::runtime {

/// The device of a rank, as its process tells the others.
struct RankDevice {
  std::string name;
  /// Which GPU that is (DevicePlugin::identify); empty for a CPU.
  std::string gpu;
};

/// Ranks whose GPUs are connected.
struct DeviceRoute {
  enum class Kind { TensorGroup, Transfer };
  Kind kind;
  /// Of a transfer: who gives, and who takes.
  std::vector<uint32_t> ranks;
};

/// The routes of a plan, in the order in which all processes make those they are in, so that none waits for
/// another that waits for it: tensor groups of GPUs alone, and transfers from GPU to GPU, one a direction.
std::vector<DeviceRoute> deviceRoutes(const plan::Plan &plan, llvm::ArrayRef<RankDevice> devices);

/// Fails where two ranks of a route have one GPU between them, which NCCL does not connect with itself.
llvm::Error checkDistinct(llvm::ArrayRef<DeviceRoute> routes, llvm::ArrayRef<RankDevice> devices);

/// The routes of one process, connected.
class DeviceLinks {
public:
  /// A call that all processes make, each with its own device. Where it fails, all do. `peers` must outlive
  /// the result.
  static llvm::Expected<std::unique_ptr<DeviceLinks>>
  open(const plan::Plan &plan, Membership &membership, const ResolvedDevice &device, std::chrono::seconds timeout);

  /// Where this process computes.
  c10::Device place() const { return ownPlace; }
  /// Null where this rank's tensor group, if there is one, has a CPU.
  DeviceProcessGroup *tensorGroup() const { return group; }
  /// Null where values go through main memory.
  TensorLink *to(uint32_t rank) const { return linkOf(rank, /*gives=*/true); }
  TensorLink *from(uint32_t rank) const { return linkOf(rank, /*gives=*/false); }

  /// Ends every wait, now and later. Of any thread.
  void abort();

private:
  TensorLink *linkOf(uint32_t peer, bool gives) const;
  void add(const DeviceRoute &route, uint32_t own, c10::Device place,
           c10::intrusive_ptr<c10d::Backend> backend);

  c10::Device ownPlace = c10::kCPU;
  std::vector<std::unique_ptr<DeviceProcessGroup>> groups;
  DeviceProcessGroup *group = nullptr;
  /// By the rank at the other end, and whether this one gives.
  std::map<std::pair<uint32_t, bool>, std::unique_ptr<TensorLink>> links;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_COMM_PROCESS_DEVICELINKS_H
