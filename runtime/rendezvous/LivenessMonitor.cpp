//===- LivenessMonitor.cpp - Detects dead processes -----------------------===//
#include "runtime/rendezvous/LivenessMonitor.h"
#include "codegen/plan/text/Printable.h"
#include "runtime/base/HostAddress.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringRef.h"
#include <algorithm>
#include <cerrno>
#include <netdb.h>
#include <poll.h>
#include <random>
#include <stdexcept>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

namespace cleave::runtime {

using llvm::StringRef;
using namespace std::chrono_literals;

/// The name of a rank: the run id, then its number in this many hexadecimal digits.
static constexpr size_t kDigits = 8;
static constexpr char kGoodbye = '!', kFailure = '?', kEnd = '\n';
/// Longest reason of a failure.
static constexpr size_t kLongestReason = 64 << 10;
/// Longest address in messages.
static constexpr size_t kLongestAddress = 255;
/// Most connections without a name, beside those of a run.
static constexpr size_t kMaxStrangers = 64;

static std::string nameOf(StringRef runId, uint32_t rank) {
  return (runId + llvm::utohexstr(rank, /*LowerCase=*/true, /*Width=*/kDigits)).str();
}

/// Ignores errors: if the other end is gone, nobody reads the text.
static void say(int socket, StringRef text) { (void)!send(socket, text.data(), text.size(), MSG_NOSIGNAL); }

namespace {
/// Resolved addresses of a host.
class Addresses {
public:
  Addresses(const std::string &host, const std::string &port, int type, int flags = 0) {
    addrinfo hints{};
    hints.ai_socktype = type;
    hints.ai_flags = flags;
    if (getaddrinfo(host.c_str(), port.c_str(), &hints, &found) != 0)
      found = nullptr;
  }
  ~Addresses() {
    if (found)
      freeaddrinfo(found);
  }
  Addresses(const Addresses &) = delete;
  const addrinfo *first() const { return found; }

private:
  addrinfo *found = nullptr;
};
} // namespace

//===- Connecting ---------------------------------------------------------===//

LivenessMonitor::LivenessMonitor(std::string runId)
    : id(std::move(runId)), stopEvent(eventfd(0, EFD_CLOEXEC)) {
  if (stopEvent < 0)
    throw std::runtime_error("the system gives no more file descriptors");
}

LivenessMonitor::~LivenessMonitor() {
  for (const Connection &connection : connections)
    closeSocket(connection.socket);
  closeSocket(listenSocket);
  close(stopEvent);
}

std::unique_ptr<LivenessMonitor> LivenessMonitor::listen(const std::string &address, uint32_t size) {
  std::random_device random;
  std::unique_ptr<LivenessMonitor> monitor(new LivenessMonitor(nameOf("", random()) + nameOf("", random())));
  const Addresses addresses(address, "0", SOCK_STREAM, AI_PASSIVE | AI_NUMERICHOST);
  const addrinfo *found = addresses.first();
  std::string own, port;
  if (found)
    monitor->listenSocket = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (monitor->listenSocket < 0 || bind(monitor->listenSocket, found->ai_addr, found->ai_addrlen) != 0 ||
      ::listen(monitor->listenSocket, SOMAXCONN) != 0 || !localAddressOf(monitor->listenSocket, own, port))
    throw std::runtime_error("cannot listen at " + address);
  monitor->address = own + " " + port;
  monitor->size = size;
  return monitor;
}

std::string LivenessMonitor::endpoint() const { return address + " " + id; }

/// Longest wait of one attempt, in milliseconds.
static constexpr int64_t kLongest = 1000 * 1000;

/// A connected socket; if nobody answers, the negative errno.
static int tryToConnect(const addrinfo &target, LivenessMonitor::Clock::time_point deadline) {
  const int made = socket(target.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (made < 0)
    return -errno;
  int problem = connect(made, target.ai_addr, target.ai_addrlen) == 0 ? 0 : errno;
  if (problem == EINPROGRESS) {
    pollfd polled{made, POLLOUT, 0};
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - LivenessMonitor::Clock::now());
    socklen_t length = sizeof problem;
    if (poll(&polled, 1, int(std::clamp<int64_t>(left.count(), 0, kLongest))) != 1 ||
        getsockopt(made, SOL_SOCKET, SO_ERROR, &problem, &length) != 0)
      problem = ETIMEDOUT;
  }
  if (problem == 0)
    return made;
  close(made);
  return -problem;
}

std::unique_ptr<LivenessMonitor> LivenessMonitor::connect(const std::string &endpoint, uint32_t rank,
                                                          Clock::time_point deadline) {
  auto [address, rest] = StringRef(endpoint).split(' ');
  auto [port, runId] = rest.split(' ');
  std::unique_ptr<LivenessMonitor> monitor(new LivenessMonitor(runId.str()));
  const Addresses addresses(address.str(), port.str(), SOCK_STREAM, AI_NUMERICHOST);
  if (!addresses.first())
    throw std::runtime_error("found no address in '" + plan::printable(endpoint, kLongestAddress) + "'");
  int made = -1;
  while ((made = tryToConnect(*addresses.first(), deadline)) < 0 && Clock::now() < deadline)
    std::this_thread::sleep_for(10ms);
  if (made < 0)
    throw std::runtime_error("rank 0 does not answer at " + plan::printable(address, kLongestAddress) + ":" +
                             plan::printable(port, kLongestAddress));
  monitor->connections.push_back({made, /*nameLength=*/0});
  monitor->connections.back().rank = 0;
  say(made, nameOf(runId, rank));
  return monitor;
}

bool LivenessMonitor::isGone(const std::string &endpoint, Clock::time_point deadline) {
  auto [address, rest] = StringRef(endpoint).split(' ');
  const Addresses addresses(address.str(), rest.split(' ').first.str(), SOCK_STREAM, AI_NUMERICHOST);
  if (!addresses.first())
    return false;
  const int made = tryToConnect(*addresses.first(), deadline);
  closeSocket(made);
  return made == -ECONNREFUSED;
}

//===- Watching -----------------------------------------------------------===//

void LivenessMonitor::accept() {
  // Further ones are accepted in the next call.
  for (size_t count = 0; count < kMaxStrangers + size; ++count) {
    const int made = accept4(listenSocket, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    isFull = made < 0 && errno != EAGAIN && errno != EWOULDBLOCK;
    if (made < 0)
      return;
    connections.push_back({made, id.size() + kDigits});
    dropStranger();
  }
}

void LivenessMonitor::dropStranger() {
  auto isStranger = [](const Connection &one) { return !one.rank; };
  if (size_t(llvm::count_if(connections, isStranger)) <= kMaxStrangers + size)
    return;
  auto oldest = llvm::find_if(connections, isStranger);
  // Its name may have arrived meanwhile.
  (void)read(*oldest);
  if (oldest->rank)
    return;
  closeSocket(oldest->socket);
  connections.erase(oldest);
}

bool LivenessMonitor::read(Connection &connection) const {
  char bytes[4096];
  ssize_t count;
  while ((count = recv(connection.socket, bytes, sizeof bytes, MSG_DONTWAIT)) > 0) {
    connection.received.append(bytes, size_t(count));
    if (connection.received.size() > connection.nameLength + kLongestReason)
      return false;
  }
  const bool isOpen = count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR);
  StringRef received = connection.received;
  if (received.size() < connection.nameLength)
    return isOpen;
  if (!connection.rank && !takeName(connection, received.take_front(connection.nameLength)))
    return false;
  StringRef said = received.drop_front(connection.nameLength);
  connection.hasLeft = said.starts_with(kGoodbye);
  if (said.starts_with(kFailure)) {
    connection.hasFailed = said.contains(kEnd);
    connection.reason = plan::printable(said.drop_front().split(kEnd).first);
  }
  return isOpen;
}

bool LivenessMonitor::takeName(Connection &connection, StringRef name) const {
  uint32_t rank = 0;
  if (!name.consume_front(id) || name.getAsInteger(16, rank) || rank == 0 || rank >= size ||
      llvm::any_of(connections, [&](const Connection &one) { return one.rank == rank; }))
    return false;
  connection.rank = rank;
  return true;
}

uint32_t LivenessMonitor::connected() const {
  std::lock_guard lock(mutex);
  return llvm::count_if(connections, [](const Connection &one) { return one.rank.has_value(); });
}

bool LivenessMonitor::haveAllLeft() const {
  auto isOne = [](const Connection &one) { return one.rank.has_value(); };
  return llvm::any_of(connections, isOne) &&
         llvm::none_of(connections, [&](const Connection &one) { return isOne(one) && !one.hasLeft; });
}

void LivenessMonitor::waitForEvents() {
  std::vector<pollfd> polled{{stopEvent, POLLIN, 0}};
  int wait = -1;
  {
    std::lock_guard lock(mutex);
    constexpr int kWhile = 100;
    if (isFull)
      wait = kWhile;
    else if (listenSocket >= 0)
      polled.push_back({listenSocket, POLLIN, 0});
    for (const Connection &connection : connections)
      polled.push_back({connection.socket, POLLIN, 0});
  }
  (void)poll(polled.data(), polled.size(), wait);
}

std::optional<LivenessMonitor::Loss> LivenessMonitor::readAll() {
  if (listenSocket >= 0)
    accept();
  for (auto next = connections.begin(); next != connections.end();) {
    auto connection = next++;
    if (connection->socket < 0)
      continue;
    const bool isOpen = read(*connection);
    if (connection->rank && (connection->hasFailed || (!isOpen && !connection->hasLeft)))
      return Loss{*connection->rank, connection->reason};
    if (isOpen)
      continue;
    close(std::exchange(connection->socket, -1));
    if (!connection->rank)
      connections.erase(connection);
  }
  return std::nullopt;
}

std::optional<LivenessMonitor::Loss> LivenessMonitor::watch() {
  for (;;) {
    waitForEvents();
    pollfd end{stopEvent, POLLIN, 0};
    if (poll(&end, 1, 0) == 1)
      return std::nullopt;
    std::lock_guard lock(mutex);
    if (std::optional<Loss> loss = readAll())
      return loss;
    if (haveAllLeft())
      return std::nullopt;
  }
}

void LivenessMonitor::sayGoodbye() {
  std::lock_guard lock(mutex);
  for (const Connection &connection : connections)
    if (connection.rank && connection.socket >= 0)
      say(connection.socket, StringRef(&kGoodbye, 1));
}

void LivenessMonitor::sayFailure(const std::string &message) {
  std::lock_guard lock(mutex);
  // Includes processes that have just connected.
  (void)readAll();
  // Escaped text is longer than its source.
  const std::string said = kFailure + plan::printable(message, kLongestReason / 8) + kEnd;
  for (const Connection &connection : connections)
    if (connection.rank && connection.socket >= 0)
      say(connection.socket, said);
}

void LivenessMonitor::stop() {
  const uint64_t one = 1;
  (void)!write(stopEvent, &one, sizeof one);
}

} // namespace cleave::runtime
