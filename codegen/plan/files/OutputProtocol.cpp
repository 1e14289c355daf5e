//===- OutputProtocol.cpp - Messages to the output broker -----------------===//
#include "codegen/plan/files/OutputProtocol.h"
#include <cerrno>
#include <cstring>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

namespace cleave::plan {

namespace {
/// The wire format of a message, sent whole or not at all.
struct Packet {
  char kind;
  int ticket;
  char text[8192];
};
/// Space for one descriptor, and for a second one that alignment may leave room for.
union Control {
  cmsghdr header;
  char bytes[CMSG_SPACE(sizeof(int))];
};
} // namespace

static constexpr size_t kHeader = offsetof(Packet, text);

bool sendMessage(int socket, const OutputMessage &message) {
  Packet packet{message.kind, message.ticket, {}};
  const size_t size = std::min(message.text.size(), sizeof(packet.text));
  std::memcpy(packet.text, message.text.data(), size);
  iovec part{&packet, kHeader + size};
  msghdr whole{};
  whole.msg_iov = &part;
  whole.msg_iovlen = 1;
  Control control{};
  if (message.descriptor >= 0) {
    whole.msg_control = control.bytes;
    whole.msg_controllen = sizeof(control.bytes);
    control.header = {CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS};
    std::memcpy(CMSG_DATA(&control.header), &message.descriptor, sizeof(int));
  }
  ssize_t sent;
  do
    sent = sendmsg(socket, &whole, MSG_NOSIGNAL);
  while (sent < 0 && errno == EINTR);
  return sent >= 0;
}

/// Takes the first descriptor that was received, and closes unexpected ones.
static void takeDescriptors(msghdr &whole, OutputMessage &message) {
  for (cmsghdr *header = CMSG_FIRSTHDR(&whole); header; header = CMSG_NXTHDR(&whole, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS)
      continue;
    for (size_t at = 0; CMSG_LEN(at + sizeof(int)) <= header->cmsg_len; at += sizeof(int)) {
      int descriptor;
      std::memcpy(&descriptor, CMSG_DATA(header) + at, sizeof(int));
      if (message.descriptor < 0)
        message.descriptor = descriptor;
      else
        close(descriptor);
    }
  }
}

bool receiveMessage(int socket, OutputMessage &message) {
  Packet packet{};
  iovec part{&packet, sizeof(packet)};
  Control control{};
  msghdr whole{};
  whole.msg_iov = &part;
  whole.msg_iovlen = 1;
  whole.msg_control = control.bytes;
  whole.msg_controllen = sizeof(control.bytes);
  ssize_t received;
  do
    received = recvmsg(socket, &whole, MSG_CMSG_CLOEXEC);
  while (received < 0 && errno == EINTR);
  if (received < ssize_t(kHeader))
    return false;
  message = {packet.kind, packet.ticket, std::string(packet.text, received - kHeader), -1};
  takeDescriptors(whole, message);
  return true;
}

} // namespace cleave::plan
