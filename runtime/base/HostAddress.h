//===- HostAddress.h - The address of this host for other hosts -*- C++ -*-===//
#ifndef CLEAVE_RUNTIME_BASE_HOSTADDRESS_H
#define CLEAVE_RUNTIME_BASE_HOSTADDRESS_H

#include "runtime/base/Launch.h"
#include <string>

namespace cleave::runtime {

/// The numeric address by which processes on other hosts reach this one: the address of the interface named
/// by GLOO_SOCKET_IFNAME, or else the address from which this host reaches the store. The host name is not
/// resolved, since it may map to loopback (Debian: 127.0.1.1). Throws std::runtime_error where there is none.
std::string hostAddress(const Launch &launch);

/// Sets the numeric address and the port of this end of a socket. Returns false where it has none.
bool localAddressOf(int socket, std::string &address, std::string &port);

/// Closes `socket` unless it is negative.
void closeSocket(int socket);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_BASE_HOSTADDRESS_H
