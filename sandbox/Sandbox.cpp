//===- Sandbox.cpp - What this process may still do -----------------------===//
#include "sandbox/Sandbox.h"
#include "sandbox/Landlock.h"
#include "sandbox/SystemCalls.h"
#include <cerrno>
#include <cstring>
#include <sys/prctl.h>

namespace cleave::sandbox {

/// What the libraries under Cleave look at: the machine's cores and caches, the time zone of messages, random
/// numbers, and what glibc loads when it is first needed.
static constexpr const char *kSystemFiles[] = {
    "/dev/null",
    "/dev/urandom",
    "/dev/zero",
    "/etc/ld.so.cache",
    "/etc/localtime",
    "/proc/cpuinfo",
    "/proc/meminfo",
    "/sys/devices/system/cpu",
    "/sys/devices/system/node",
};

static Protection protection;

std::string Protection::describe() const {
  std::string text = landlock ? "landlock " + std::to_string(landlock) : "";
  if (seccomp)
    text += text.empty() ? "seccomp" : ", seccomp";
  return text.empty() ? "nothing" : text;
}

Protection enter(const FileAccess &allowed) {
  auto failed = [](const char *what, int error) {
    if (protection.problem.empty())
      protection.problem = std::string(what) + ": " + std::strerror(error);
  };
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
    failed("no_new_privs", errno);
  FileAccess all = allowed;
  all.folders.insert(all.folders.end(), std::begin(kSystemFiles), std::end(kSystemFiles));
  if (const int version = limitFiles(all); version > 0)
    protection.landlock = version;
  else
    failed("Landlock", -version);
  if (const int error = blockSystemCalls())
    failed("seccomp", error);
  else
    protection.seccomp = true;
  return protection;
}

void blockIoUring() {
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  blockIoUringCalls();
}

const Protection &current() { return protection; }

} // namespace cleave::sandbox

#ifdef __SANITIZE_ADDRESS__
/// Asked when the process ends: looking for leaks takes a process that traces this one.
extern "C" __attribute__((visibility("default"))) int __lsan_is_turned_off() {
  return cleave::sandbox::current().seccomp;
}
#endif
