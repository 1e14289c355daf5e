//===- HostAddress.cpp - The address of this host for other hosts ---------===//
#include "runtime/base/HostAddress.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/StringRef.h"
#include <cstdlib>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdexcept>
#include <sys/socket.h>
#include <unistd.h>

namespace cleave::runtime {

void closeSocket(int socket) {
  if (socket >= 0)
    close(socket);
}

static bool localAddressOf(const sockaddr *own, socklen_t length, std::string &address, std::string &port) {
  char host[NI_MAXHOST] = "", service[NI_MAXSERV] = "";
  if (getnameinfo(own, length, host, sizeof host, service, sizeof service, NI_NUMERICHOST | NI_NUMERICSERV) !=
      0)
    return false;
  address = host;
  port = service;
  return true;
}

bool localAddressOf(int socket, std::string &address, std::string &port) {
  sockaddr_storage own{};
  socklen_t length = sizeof own;
  return getsockname(socket, reinterpret_cast<sockaddr *>(&own), &length) == 0 &&
         localAddressOf(reinterpret_cast<sockaddr *>(&own), length, address, port);
}

static std::string addressOfInterface(const std::string &name) {
  ifaddrs *all = nullptr;
  if (getifaddrs(&all) != 0)
    throw std::runtime_error("this machine tells no interfaces");
  auto release = llvm::make_scope_exit([&] { freeifaddrs(all); });
  std::string address, unused;
  for (const int family : {AF_INET, AF_INET6})
    for (const ifaddrs *one = all; one; one = one->ifa_next)
      if (name == one->ifa_name && one->ifa_addr && one->ifa_addr->sa_family == family &&
          localAddressOf(one->ifa_addr, family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6),
                         address, unused))
        return address;
  throw std::runtime_error("GLOO_SOCKET_IFNAME " + name +
                           ": this machine has no such interface with an address");
}

/// Address of the interface that routes packets to the store.
static std::string addressTowards(const std::string &host, uint16_t port) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_DGRAM;
  if (getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found) != 0 || !found)
    throw std::runtime_error("MASTER_ADDR " + host + ": there is no machine of that name");
  auto release = llvm::make_scope_exit([&] { freeaddrinfo(found); });
  // Connecting a datagram socket only selects the route; nothing is sent.
  const int way = socket(found->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  auto closing = llvm::make_scope_exit([&] { closeSocket(way); });
  std::string address, unused;
  if (way < 0 || connect(way, found->ai_addr, found->ai_addrlen) != 0 ||
      !localAddressOf(way, address, unused))
    throw std::runtime_error("MASTER_ADDR " + host + ": this machine has no way to there");
  return address;
}

std::string hostAddress(const Launch &launch) {
  const char *interface = std::getenv("GLOO_SOCKET_IFNAME");
  std::string address =
      interface && *interface ? addressOfInterface(interface) : addressTowards(launch.address, launch.port);
  const bool isLoopback = llvm::StringRef(address).starts_with("127.") || address == "::1";
  if (isLoopback && launch.localSize < launch.size)
    throw std::runtime_error("MASTER_ADDR " + launch.address + " is " + address +
                             " here, where other machines cannot reach this one; give an address that they "
                             "can, or name an interface (GLOO_SOCKET_IFNAME)");
  return address;
}

} // namespace cleave::runtime
