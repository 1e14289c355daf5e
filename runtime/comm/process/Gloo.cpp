//===- Gloo.cpp - Messages and store over c10d ----------------------------===//
//
// The only file that needs Gloo's headers, which the torch wheel lacks. gloo-headers/ declares what is used;
// the code is in libtorch. So only symbols that libtorch exports are used, and no Gloo object by value.
//
//===----------------------------------------------------------------------===//
#include "runtime/base/HostAddress.h"
#include "runtime/comm/Transport.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/ScopeExit.h"
#include <ATen/ops/from_blob.h>
#include <c10/core/InferenceMode.h>
#include <csignal>
#include <cstdlib>
#include <mutex>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <unistd.h>

C10_DECLARE_int(caffe2_log_level);

namespace cleave::runtime {

using c10d::ProcessGroupGloo;
using std::chrono::milliseconds;

/// Our deadlines replace Gloo's: its timeouts close all connections, so that others would take this process
/// for dead.
static constexpr milliseconds kNever = std::chrono::hours(24 * 365);

//===- The store ----------------------------------------------------------===//

namespace {
class TcpStore final : public Store {
public:
  explicit TcpStore(c10::intrusive_ptr<c10d::Store> store) : store(std::move(store)) {}

  void set(const std::string &key, const std::string &value) override { store->set(key, value); }
  std::optional<std::string> find(const std::string &key) override {
    return store->check({key}) ? std::optional(store->get_to_str(key)) : std::nullopt;
  }
  std::string setOnce(const std::string &key, const std::string &value) override {
    return store->compareSet(key, std::string(), value);
  }
  std::string compareSet(const std::string &key, const std::string &expected,
                         const std::string &value) override {
    return store->compareSet(key, expected, value);
  }
  std::vector<std::string> values(const std::vector<std::string> &keys) override {
    std::vector<std::string> values;
    for (const std::vector<uint8_t> &value : store->multiGet(keys))
      values.emplace_back(value.begin(), value.end());
    return values;
  }
  void erase(const std::string &key) override { store->deleteKey(key); }
  std::unique_ptr<Store> withPrefix(const std::string &prefix) override {
    return std::make_unique<TcpStore>(c10::make_intrusive<c10d::PrefixStore>(prefix, store));
  }

private:
  const c10::intrusive_ptr<c10d::Store> store;
};
} // namespace

static c10::intrusive_ptr<c10d::Store> connectStore(const Launch &launch, bool isServer,
                                                    milliseconds timeout) {
  c10d::TCPStoreOptions options;
  options.port = launch.port;
  options.isServer = isServer;
  options.waitWorkers = false;
  options.timeout = timeout;
  auto store = c10::make_intrusive<c10d::TCPStore>(launch.address, options);
  return c10::make_intrusive<c10d::PrefixStore>(launch.prefix, std::move(store));
}

/// c10d and Gloo write to sockets without MSG_NOSIGNAL.
static void ignoreBrokenPipes() {
  struct sigaction known;
  if (sigaction(SIGPIPE, nullptr, &known) == 0 && known.sa_handler == SIG_DFL)
    std::signal(SIGPIPE, SIG_IGN);
}

std::unique_ptr<Store> openStore(const Launch &launch, milliseconds timeout,
                                 std::optional<milliseconds> connectTimeout) {
  ignoreBrokenPipes();
  // c10d would print lost connections with a backtrace, beside our own message.
  FLAGS_caffe2_log_level = 4;
  const bool isServer = launch.rank == 0 && !launch.agentHoldsStore;
  auto store = connectStore(launch, isServer, connectTimeout.value_or(timeout));
  store->setTimeout(timeout);
  return std::make_unique<TcpStore>(std::move(store));
}

//===- Messages -----------------------------------------------------------===//

namespace {
class GlooTransport final : public Transport {
public:
  GlooTransport(c10::intrusive_ptr<ProcessGroupGloo> group) : group(std::move(group)) {}
  std::unique_ptr<PendingMessage> send(uint32_t to, Tag tag, const void *data, size_t bytes) override;
  std::unique_ptr<PendingMessage> receive(uint32_t from, Tag tag, void *data, size_t bytes) override;
  void close() override;
  void wait(c10d::Work &work, uint32_t peer);

private:
  template <typename Start>
  c10::intrusive_ptr<c10d::Work> begin(uint32_t peer, const void *data, size_t bytes, Start start);

  const c10::intrusive_ptr<ProcessGroupGloo> group;
  std::mutex starting, mutex;
  llvm::DenseSet<c10d::Work *> waiting;
  bool isClosed = false;
};

class GlooMessage final : public PendingMessage {
public:
  GlooMessage(GlooTransport &transport, uint32_t peer, c10::intrusive_ptr<c10d::Work> work)
      : transport(transport), peer(peer), work(std::move(work)) {}
  void wait() override { transport.wait(*work, peer); }

private:
  GlooTransport &transport;
  const uint32_t peer;
  const c10::intrusive_ptr<c10d::Work> work;
};
} // namespace

/// Calls `start` with a tensor over the bytes.
template <typename Start>
c10::intrusive_ptr<c10d::Work> GlooTransport::begin(uint32_t peer, const void *data, size_t bytes,
                                                    Start start) {
  c10::InferenceMode inference;
  std::vector<at::Tensor> tensors{at::from_blob(const_cast<void *>(data), {int64_t(bytes)}, at::kByte)};
  // c10d numbers operations without a lock.
  std::lock_guard lock(starting);
  try {
    return start(tensors);
  } catch (const std::exception &exception) {
    throw PeerLost(peer, exception.what());
  }
}

std::unique_ptr<PendingMessage> GlooTransport::send(uint32_t to, Tag tag, const void *data, size_t bytes) {
  return std::make_unique<GlooMessage>(*this, to,
                                       begin(to, data, bytes, [&](std::vector<at::Tensor> &tensors) {
                                         return group->send(tensors, int(to), int(tag));
                                       }));
}

std::unique_ptr<PendingMessage> GlooTransport::receive(uint32_t from, Tag tag, void *data, size_t bytes) {
  return std::make_unique<GlooMessage>(*this, from,
                                       begin(from, data, bytes, [&](std::vector<at::Tensor> &tensors) {
                                         return group->recv(tensors, int(from), int(tag));
                                       }));
}

void GlooTransport::wait(c10d::Work &work, uint32_t peer) {
  {
    std::lock_guard lock(mutex);
    if (isClosed)
      throw TransportClosed();
    waiting.insert(&work);
  }
  auto done = llvm::make_scope_exit([&] {
    std::lock_guard lock(mutex);
    waiting.erase(&work);
  });
  bool isThere = false;
  try {
    isThere = work.wait(kNever);
  } catch (const std::exception &exception) {
    throw PeerLost(peer, exception.what());
  }
  if (!isThere)
    throw TransportClosed();
}

void GlooTransport::close() {
  std::lock_guard lock(mutex);
  isClosed = true;
  for (c10d::Work *work : waiting)
    work->abort();
}

c10::intrusive_ptr<c10d::Store> openGroupStore(const Launch &launch, const std::string &name,
                                               milliseconds timeout) {
  return c10::make_intrusive<c10d::PrefixStore>(name, connectStore(launch, /*isServer=*/false, timeout));
}

std::unique_ptr<Transport> openTransport(const Launch &launch, milliseconds timeout) {
  // This timeout applies to connecting only.
  auto options = ProcessGroupGloo::Options::create(timeout);
  // Connect eagerly, whatever TORCH_GLOO_LAZY_INIT says: lazy connections have no deadline.
  options->devices.push_back(
      ProcessGroupGloo::createDeviceForHostname(hostAddress(launch), /*lazyInit=*/false));
  return std::make_unique<GlooTransport>(c10::make_intrusive<ProcessGroupGloo>(
      connectStore(launch, /*isServer=*/false, timeout), int(launch.rank), int(launch.size), options));
}

} // namespace cleave::runtime
