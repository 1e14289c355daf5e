//===- SystemCalls.cpp - System calls that no kernel makes ----------------===//
#include "tests/operators/SystemCalls.h"
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <vector>

namespace cleave::operators {

/// Those of machines that have no `open` have `openat` alone, and so on.
static constexpr int kTrapped[] = {
#ifdef SYS_open
    SYS_open,          SYS_creat,    SYS_fork,     SYS_vfork,     SYS_unlink,           SYS_rename,
    SYS_mkdir,         SYS_chmod,
#endif
    SYS_openat,        SYS_openat2,  SYS_unlinkat, SYS_renameat2, SYS_mkdirat,          SYS_fchmod,
    SYS_fchmodat,      SYS_truncate, SYS_clone,    SYS_clone3,    SYS_execve,           SYS_execveat,
    SYS_socket,        SYS_connect,  SYS_kill,     SYS_ptrace,    SYS_process_vm_readv, SYS_process_vm_writev,
    SYS_io_uring_setup};

/// Compilers of kernels ask for the number of CPUs, and MKL for the words of its errors; both do without an
/// answer.
static bool isOwnQuestion(const char *path) {
  return std::strncmp(path, "/sys/devices/system/cpu/", 24) == 0 || std::strcmp(path, "/proc/stat") == 0 ||
         std::strstr(path, "mkl_msg");
}

bool answerTrap(const siginfo_t &trap, void *context) {
  auto &registers = static_cast<ucontext_t *>(context)->uc_mcontext;
#if defined(__x86_64__)
  auto &result = registers.gregs[REG_RAX];
  const auto path = registers.gregs[REG_RSI];
#elif defined(__aarch64__)
  auto &result = registers.regs[0];
  const auto path = registers.regs[1];
#endif
  if (trap.si_syscall != SYS_openat || !isOwnQuestion(reinterpret_cast<const char *>(path)))
    return false;
  result = -ENOENT;
  return true;
}

void trapSystemCalls() {
  std::vector<sock_filter> program = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr))};
  for (int call : kTrapped) {
    program.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, unsigned(call), 0, 1));
    program.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP));
  }
  program.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  sock_fprog filter = {static_cast<unsigned short>(program.size()), program.data()};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter)) {
    std::perror("seccomp");
    std::exit(2);
  }
}

} // namespace cleave::operators
