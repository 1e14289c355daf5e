//===- HostAddress.h - By which others reach this machine --------*- C++ -*-===//
#ifndef CLEAVE_RUNTIME_BASE_HOSTADDRESS_H
#define CLEAVE_RUNTIME_BASE_HOSTADDRESS_H

#include "runtime/base/Launch.h"
#include <string>

namespace cleave::runtime {

/// The address, in numbers, by which the processes of a run on other machines reach this one: that of the
/// interface which GLOO_SOCKET_IFNAME names, or else by which this machine reaches the store. The one that a
/// machine's name stands for need not be: Debian writes 127.0.1.1. Throws std::runtime_error where there is
/// none.
std::string hostAddress(const Launch &launch);

/// The numeric address of this end of a socket, and its port. False where it has none.
bool hostNameOf(int socket, std::string &address, std::string &port);

/// Closes a socket, if it is one.
void closeSocket(int socket);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_BASE_HOSTADDRESS_H
