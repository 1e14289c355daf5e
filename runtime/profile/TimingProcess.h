//===- TimingProcess.h - Devices that are processes, timed ------*- C++ -*-===//
#ifndef CLEAVE_RUNTIME_PROFILE_TIMINGPROCESS_H
#define CLEAVE_RUNTIME_PROFILE_TIMINGPROCESS_H

#include "runtime/device/Device.h"
#include "runtime/exchange/P2PChannel.h"
#include "runtime/profile/KernelTimer.h"
#include "runtime/rendezvous/Membership.h"
#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace cleave::runtime {

/// One of several processes that time what a plan would do there, each on a device of its own, and between
/// them over the connections that the ranks of a plan have. What fails in one of them ends all.
class TimingProcess {
public:
  struct Options {
    Launch launch;
    /// What is timed, without spaces: all have to be asked for the same.
    std::string task;
    std::chrono::seconds timeout;
    /// This process' device.
    std::string device;
    KernelTimer::Effort effort;
    /// Told, from another thread, why all ends.
    std::function<void(const std::string &)> failed;
  };
  /// The two processes between which hand-overs are timed.
  using Ends = std::array<uint32_t, 2>;

  /// Meets the others.
  static llvm::Expected<std::unique_ptr<TimingProcess>> join(Options options);
  ~TimingProcess();

  uint32_t rank() const { return membership->rank(); }
  /// By rank, the machine that each is on: where two are on one, that is the same.
  const std::vector<std::string> &hosts() const { return hostOfRank; }
  /// What this process measures, for messages.
  void setStep(const std::string &step);
  /// What every process gives, by rank, in process 0; elsewhere nothing.
  llvm::Expected<std::vector<std::string>> gather(llvm::StringRef text) { return membership->gather(text, 0); }

  /// Of the devices of `count` processes from `first` on, one group, of which this process is one. They ask
  /// their timers the same in the same order, and all are told the same; processes of other groups do not
  /// wait. The result must not outlive this object.
  std::unique_ptr<KernelTimer> timer(uint32_t first, uint32_t count, Ends ends);

  /// Ends all, and gives the message that they end with.
  std::string fail(const std::string &message);
  /// Takes leave of the others.
  llvm::Error close() { return membership->leave(); }

private:
  class Timer;
  class Hops;
  /// Bytes of the largest message that goes to and fro.
  static constexpr int64_t kMostHop = 4 << 20;
  /// The way to another process and back.
  struct Ways {
    Ways(Transport &transport, uint32_t rank, MemoryAccount &account)
        : out(transport, rank, Tag::Values), in(transport, rank, Tag::Values, account, {2, kMostHop}) {}
    Sender out;
    Receiver in;
  };

  TimingProcess(Options options, Membership::Owner membership, std::unique_ptr<Device> device);
  llvm::Error begin();
  /// Does `work` on the device's thread. It may throw what messages between processes throw.
  llvm::Error onDevice(const std::string &what, const std::function<void()> &work);
  Ways &waysTo(uint32_t rank);

  const Options options;
  const Membership::Owner membership;
  std::vector<std::string> hostOfRank;
  std::mutex mutex;
  std::string step = "is starting";
  /// That have come in this step.
  std::atomic<uint64_t> messages{0};
  const std::unique_ptr<Device> device;
  /// By rank. They receive until the wire is cut.
  std::map<uint32_t, Ways> ways;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_PROFILE_TIMINGPROCESS_H
