//===- DeviceLinks.h - GPU connections of a process -------------*- C++ -*-===//
//
// Tensors between two processes with GPUs go through NCCL; each process uses one GPU. Their number and sizes,
// and everything that concerns a CPU, go through messages.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_RUNTIME_COMM_PROCESS_DEVICELINKS_H
#define CLEAVE_RUNTIME_COMM_PROCESS_DEVICELINKS_H

#include "codegen/plan/Plan.h"
#include "runtime/comm/TensorLink.h"
#include "runtime/comm/process/DeviceProcessGroup.h"
#include "runtime/device/DeviceWorker.h"
#include "runtime/rendezvous/Membership.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace cleave::runtime {

/// The device of a rank, as its process reports it to the others.
struct RankDevice {
  std::string name;
  /// Unique id of the GPU (DevicePlugin::identify); empty for a CPU.
  std::string gpu;
};

/// One GPU group: its kind and members.
struct GpuGroupSpec {
  enum class Kind { TensorParallel, PointToPoint };
  Kind kind;
  /// Point-to-point: the sender, then the receiver.
  std::vector<uint32_t> ranks;
};

/// The GPU groups of a plan: tensor-parallel groups whose ranks all have GPUs, and transfers from GPU to
/// GPU, one for each direction. Every process connects its groups in this order, so that connecting does not
/// deadlock.
std::vector<GpuGroupSpec> gpuGroupSpecs(const plan::Plan &plan, llvm::ArrayRef<RankDevice> devices);

/// Fails where two ranks of a group share one GPU, which NCCL does not support.
llvm::Error checkDistinct(llvm::ArrayRef<GpuGroupSpec> specs, llvm::ArrayRef<RankDevice> devices);

/// The connected GPU groups of one process.
class DeviceLinks {
public:
  /// Connects the GPUs. All processes call this, each with its own device; if one fails, all fail.
  /// `membership` must outlive the result.
  static llvm::Expected<std::unique_ptr<DeviceLinks>> open(const plan::Plan &plan, Membership &membership,
                                                           const ResolvedDevice &device,
                                                           std::chrono::seconds timeout);

  /// The device of this process.
  c10::Device device() const { return ownDevice; }
  /// Null where the tensor-parallel group of this rank includes a CPU, or there is none.
  DeviceProcessGroup *tensorGroup() const { return group; }
  /// Null where values go through CPU memory.
  TensorLink *to(uint32_t rank) const { return linkOf(rank, /*gives=*/true); }
  TensorLink *from(uint32_t rank) const { return linkOf(rank, /*gives=*/false); }

  /// Ends every wait, pending or later. Thread-safe.
  void abort();

private:
  TensorLink *linkOf(uint32_t peer, bool gives) const;
  void add(const GpuGroupSpec &spec, uint32_t own, c10::Device device,
           c10::intrusive_ptr<c10d::Backend> backend);

  c10::Device ownDevice = c10::kCPU;
  std::vector<std::unique_ptr<DeviceProcessGroup>> groups;
  DeviceProcessGroup *group = nullptr;
  /// By the rank at the other end, and whether this rank sends.
  std::map<std::pair<uint32_t, bool>, std::unique_ptr<TensorLink>> links;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_COMM_PROCESS_DEVICELINKS_H
