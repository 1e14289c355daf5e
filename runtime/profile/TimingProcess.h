//===- TimingProcess.h - Times devices of several processes -----*- C++ -*-===//
#ifndef CLEAVE_RUNTIME_PROFILE_TIMINGPROCESS_H
#define CLEAVE_RUNTIME_PROFILE_TIMINGPROCESS_H

#include "runtime/device/DeviceWorker.h"
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

/// One of several processes that time operators as a plan would run them, each on its own device, and
/// messages between them over the transport of plans. A failure in one process ends all.
class TimingProcess {
public:
  struct Options {
    Launch launch;
    /// Name of what is timed; must not contain spaces. All processes must have the same.
    std::string task;
    std::chrono::seconds timeout;
    /// The device of this process.
    std::string device;
    /// How long each call is measured.
    double measurementSeconds;
    /// Called with the reason when all processes end, from another thread.
    std::function<void(const std::string &)> onFailure;
  };
  /// The two processes that time messages between each other.
  using EndpointRanks = std::array<uint32_t, 2>;

  /// Joins the other processes.
  static llvm::Expected<std::unique_ptr<TimingProcess>> join(Options options);
  ~TimingProcess();

  uint32_t rank() const { return membership->rank(); }
  /// By rank: its machine. Ranks on one machine have equal entries.
  const std::vector<std::string> &hosts() const { return hostOfRank; }
  /// Sets what this process measures, for messages.
  void setStep(const std::string &step);
  /// Gathers `text` of all processes, by rank, at rank 0; empty elsewhere.
  llvm::Expected<std::vector<std::string>> gather(llvm::StringRef text) {
    return membership->gather(text, 0);
  }

  /// A timer of one tensor-parallel group: the devices of the processes [first, first + count), which include
  /// this one. All of them call their timers in the same order, and get the same results. Processes of other
  /// groups do not wait. The result must not outlive this object.
  std::unique_ptr<KernelTimer> timer(uint32_t first, uint32_t count, EndpointRanks ends);

  /// Ends all processes, and returns the message that they end with.
  std::string fail(const std::string &message);
  /// Leaves the run.
  llvm::Error close() { return membership->leave(); }

private:
  class Timer;
  class PingPong;
  /// Bytes of the largest timed message.
  static constexpr int64_t kMaxMessageBytes = 4 << 20;
  /// Channel to another process and back.
  struct Channels {
    Channels(Transport &transport, uint32_t rank, MemoryAccount &account)
        : out(transport, rank, Tag::Values),
          in(transport, rank, Tag::Values, account, {2, kMaxMessageBytes}) {}
    Sender out;
    Receiver in;
  };

  TimingProcess(Options options, Membership::Owner membership, std::unique_ptr<DeviceWorker> worker);
  llvm::Error begin();
  /// Runs `work` on the device's thread. It may throw what messages between processes throw.
  llvm::Error onDevice(const std::string &what, const std::function<void()> &work);
  Channels &channelsTo(uint32_t rank);

  const Options options;
  const Membership::Owner membership;
  std::vector<std::string> hostOfRank;
  std::mutex mutex;
  std::string step = "is starting";
  /// Number of messages received in this step.
  std::atomic<uint64_t> messages{0};
  const std::unique_ptr<DeviceWorker> worker;
  /// By rank. Receivers run until the transport is closed.
  std::map<uint32_t, Channels> channels;
};

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_PROFILE_TIMINGPROCESS_H
