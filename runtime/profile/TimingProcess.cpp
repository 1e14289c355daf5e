//===- TimingProcess.cpp - Times devices of several processes -------------===//
#include "runtime/profile/TimingProcess.h"
#include "runtime/base/Exceptions.h"
#include "runtime/base/HostAddress.h"
#include "runtime/comm/process/PeerGroup.h"
#include "runtime/profile/TimedCalls.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include <ATen/Functions.h>
#include <algorithm>
#include <latch>
#include <sys/utsname.h>

namespace cleave::runtime {

using llvm::Error;
using llvm::Expected;

namespace {
/// Timing group of processes.
class PeerTimingGroup final : public TimingGroup {
public:
  explicit PeerTimingGroup(PeerGroup &group) : group(group) {}

  Communicator &member(uint32_t) override { return group; }
  std::optional<double> broadcastFromFirst(uint32_t, double seconds) override {
    return group.broadcast(at::scalar_tensor(seconds, at::kDouble), 0).item<double>();
  }
  /// The failure of a process ends the others through Membership.
  void abandon() override {}

private:
  PeerGroup &group;
};
} // namespace

class TimingProcess::Timer final : public KernelTimer {
public:
  Timer(TimingProcess &process, uint32_t first, uint32_t count, EndpointRanks ends)
      : process(process), count(count), index(process.rank() - first), ends(ends),
        group(process.membership->transport(), consecutiveRanks(first, count), index) {}

  size_t devices() const override { return count; }
  int threads() const override { return process.worker->threads(); }
  Expected<double> secondsOf(const Call &timed, const Call *before) override;
  std::vector<int64_t> messageBytes() const override { return {4, 64 << 10, 1 << 20, kMaxMessageBytes}; }
  Expected<double> secondsOfMessage(int64_t bytes, bool sends) override;

private:
  bool begins() const { return process.rank() == ends[0]; }
  /// Seconds per hop, at the end that begins; 0 elsewhere.
  double secondsOfPingPong(int64_t bytes);
  double secondsOfAdding(int64_t bytes) const;

  TimingProcess &process;
  const uint32_t count, index;
  const EndpointRanks ends;
  PeerGroup group;
};

//===- Timing -------------------------------------------------------------===//

Expected<double> TimingProcess::Timer::secondsOf(const Call &timed, const Call *before) {
  auto calls = TimedCalls::of(timed, before, process.options.measurementSeconds, seconds);
  if (!calls)
    return calls.takeError();
  double found = 0;
  Error error = process.onDevice("for others to time " + timed.name, [&] {
    PeerTimingGroup together(group);
    const std::vector<double> own = calls->sample(index, together);
    const at::Tensor mean = at::div(group.allReduce(at::tensor(own, at::kDouble)), double(count));
    found = calls->summarize({mean.const_data_ptr<double>(), mean.const_data_ptr<double>() + mean.numel()});
  });
  if (error)
    return error;
  return found;
}

/// A tensor that goes back and forth between two processes, with a flag for the last time.
class TimingProcess::PingPong {
public:
  PingPong(TimingProcess &process, uint32_t other, int64_t bytes)
      : process(process), channels(process.channelsTo(other)),
        tensor(at::zeros({std::max<int64_t>(1, bytes / 4)})) {}

  void send(bool isLast) {
    values = {at::add(tensor, 1), isLast};
    tensor = at::Tensor();
    channels.out.send(values);
  }
  bool receive() {
    channels.in.take(values);
    TORCH_CHECK(values.size() == 2 && values[0].isTensor() && values[1].isBool(),
                "found another value than was sent");
    // Counted, so that a slow link is seen as progress: all messages together may take longer than processes
    // wait for one that shows none.
    ++process.messages;
    tensor = values[0].toTensor();
    return values[1].toBool();
  }

private:
  TimingProcess &process;
  Channels &channels;
  at::Tensor tensor;
  std::vector<c10::IValue> values;
};

double TimingProcess::Timer::secondsOfPingPong(int64_t bytes) {
  constexpr size_t kLeast = 3, kMost = 100;
  const double budget = 20 * process.options.measurementSeconds;
  PingPong pingPong(process, begins() ? ends[1] : ends[0], bytes);
  if (!begins()) {
    for (bool isLast = false; !isLast;) {
      isLast = pingPong.receive();
      pingPong.send(isLast);
    }
    return 0;
  }
  // Warm-up.
  pingPong.send(false);
  pingPong.receive();
  std::vector<double> trips;
  const double begin = seconds();
  for (bool isLast = false; !isLast;) {
    isLast = trips.size() + 1 >= kLeast && (trips.size() + 1 == kMost || seconds() - begin > budget);
    const double left = seconds();
    pingPong.send(isLast);
    pingPong.receive();
    trips.push_back(seconds() - left);
  }
  // The median, since a trip may be preempted.
  const auto middle = trips.begin() + (trips.size() - 1) / 2;
  std::nth_element(trips.begin(), middle, trips.end());
  return *middle / 2;
}

double TimingProcess::Timer::secondsOfAdding(int64_t bytes) const {
  constexpr int kTimes = 50;
  at::Tensor tensor = at::zeros({std::max<int64_t>(1, bytes / 4)});
  const double begin = seconds();
  for (int i = 0; i < kTimes; ++i)
    tensor = at::add(tensor, 1);
  return (seconds() - begin) / kTimes;
}

Expected<double> TimingProcess::Timer::secondsOfMessage(int64_t bytes, bool sends) {
  double found = 0;
  Error error = process.onDevice("for others to time transfers", [&] {
    if (begins() || (sends && process.rank() == ends[1]))
      found = sends ? secondsOfPingPong(bytes) : secondsOfAdding(bytes);
    found = group.allReduce(at::scalar_tensor(found, at::kDouble)).item<double>();
  });
  if (error)
    return error;
  return found;
}

//===- The process --------------------------------------------------------===//

TimingProcess::TimingProcess(Options given, Membership::Owner owned, std::unique_ptr<DeviceWorker> own)
    : options(std::move(given)), membership(std::move(owned)), worker(std::move(own)) {}

TimingProcess::~TimingProcess() {
  membership->clearClient();
  membership->transport().close();
}

Expected<std::unique_ptr<TimingProcess>> TimingProcess::join(Options options) {
  auto resolved = resolveTimedDevice(options.device);
  if (!resolved)
    return resolved.takeError();
  auto membership = Membership::join(options.launch, "--rounds or --quick", options.task,
                                     {options.timeout, options.timeout});
  if (!membership)
    return membership.takeError();
  const uint32_t sharers = options.launch.localSize;
  std::unique_ptr<TimingProcess> process(new TimingProcess(
      std::move(options), std::move(*membership), std::move(startWorkers(*resolved, sharers).front())));
  if (Error error = process->begin())
    return error;
  return process;
}

Error TimingProcess::begin() {
  auto status = [this] {
    std::lock_guard lock(mutex);
    return messages ? step + ", message " + std::to_string(messages) : step;
  };
  auto failed = [this](const std::string &message) {
    if (options.onFailure)
      options.onFailure(message);
  };
  membership->setClient({status, failed, [] {}});
  // Host names do not suffice: network namespaces of one machine share them, though only links connect them.
  utsname system;
  const std::string name = uname(&system) == 0 ? system.nodename : "?";
  auto address = catching([&]() -> Expected<std::string> { return hostAddress(options.launch); });
  if (!address)
    return llvm::createStringError(fail(llvm::toString(address.takeError())));
  auto all = membership->gather(*address + " " + name, 0);
  if (!all)
    return all.takeError();
  auto shared = membership->broadcast(llvm::join(*all, "\n"), 0);
  if (!shared)
    return shared.takeError();
  llvm::SmallVector<llvm::StringRef> hosts;
  llvm::StringRef(*shared).split(hosts, '\n');
  hostOfRank.assign(hosts.begin(), hosts.end());
  if (hostOfRank.size() != membership->size())
    return llvm::createStringError(fail("rank " + std::to_string(rank()) + ": found hosts of " +
                                        std::to_string(hostOfRank.size()) + " ranks from rank 0, expected " +
                                        std::to_string(membership->size())));
  return Error::success();
}

void TimingProcess::setStep(const std::string &measured) {
  std::lock_guard lock(mutex);
  step = "measures " + measured;
  messages = 0;
}

Error TimingProcess::onDevice(const std::string &what, const std::function<void()> &work) {
  return membership->waitFor(what, [&] {
    std::exception_ptr failure;
    std::latch done{1};
    worker->post([&] {
      try {
        work();
      } catch (...) {
        failure = std::current_exception();
      }
      done.count_down();
    });
    done.wait();
    if (failure)
      std::rethrow_exception(failure);
  });
}

TimingProcess::Channels &TimingProcess::channelsTo(uint32_t rank) {
  auto found = channels.find(rank);
  if (found == channels.end())
    found = channels
                .emplace(std::piecewise_construct, std::forward_as_tuple(rank),
                         std::forward_as_tuple(membership->transport(), rank, worker->memory()))
                .first;
  return found->second;
}

std::unique_ptr<KernelTimer> TimingProcess::timer(uint32_t first, uint32_t count, EndpointRanks ends) {
  return std::make_unique<Timer>(*this, first, count, ends);
}

std::string TimingProcess::fail(const std::string &message) {
  std::string agreed = membership->fail(message);
  membership->linger();
  return agreed;
}

} // namespace cleave::runtime
