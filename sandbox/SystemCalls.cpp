//===- SystemCalls.cpp - System calls that this process may make ----------===//
#include "sandbox/SystemCalls.h"
#include <asm/ioctls.h>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <fcntl.h>
#include <initializer_list>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <vector>

namespace cleave::sandbox {

#if defined(__x86_64__)
static constexpr uint32_t kArchitecture = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
static constexpr uint32_t kArchitecture = AUDIT_ARCH_AARCH64;
#else
#error "no table of system calls for this architecture"
#endif

/// Calls after this one are newer than this table, and glibc does without them.
static constexpr uint32_t kNewestKnown = 450; // set_mempolicy_home_node
/// Marks calls of x32, an architecture of its own in the table of x86-64.
static constexpr uint32_t kX32 = 0x40000000;

namespace {
struct Refusal {
  int number, error;
};
} // namespace

/// Whatever the arguments. ENOSYS where a library then takes an older call, which is looked into.
static constexpr Refusal kRefused[] = {
    // Other programs, other processes and their memory.
    {SYS_clone3, ENOSYS},
    {SYS_execve, EPERM},
    {SYS_execveat, EPERM},
    {SYS_ptrace, EPERM},
    {SYS_process_vm_readv, EPERM},
    {SYS_process_vm_writev, EPERM},
    {SYS_process_madvise, EPERM},
    {SYS_process_mrelease, EPERM},
    {SYS_kcmp, EPERM},
    {SYS_move_pages, EPERM},
    {SYS_migrate_pages, EPERM},
    {SYS_userfaultfd, EPERM},
    {SYS_pidfd_open, EPERM},
    {SYS_pidfd_getfd, EPERM},
    {SYS_pidfd_send_signal, EPERM},
    {SYS_tkill, EPERM},
    {SYS_rt_sigqueueinfo, EPERM},
    {SYS_rt_tgsigqueueinfo, EPERM},
    {SYS_setpriority, EPERM},
    {SYS_ioprio_set, EPERM},
    {SYS_sched_setscheduler, EPERM},
    {SYS_sched_setparam, EPERM},
    {SYS_sched_setattr, EPERM},
    {SYS_setpgid, EPERM},
    {SYS_setsid, EPERM},
    // Ways to speak to others. Those that are open already stay so.
    {SYS_socket, EPERM},
    {SYS_socketpair, EPERM},
    {SYS_bind, EPERM},
    {SYS_connect, EPERM},
    {SYS_listen, EPERM},
    {SYS_io_uring_setup, ENOSYS},
    {SYS_io_uring_enter, ENOSYS},
    {SYS_io_uring_register, ENOSYS},
    {SYS_shmget, EPERM},
    {SYS_shmat, EPERM},
    {SYS_shmctl, EPERM},
    {SYS_semget, EPERM},
    {SYS_semop, EPERM},
    {SYS_semtimedop, EPERM},
    {SYS_semctl, EPERM},
    {SYS_msgget, EPERM},
    {SYS_msgsnd, EPERM},
    {SYS_msgrcv, EPERM},
    {SYS_msgctl, EPERM},
    {SYS_mq_open, EPERM},
    {SYS_mq_unlink, EPERM},
    // What of files Landlock does not watch over, in any version or in older ones.
    {SYS_openat2, ENOSYS},
    {SYS_truncate, EPERM},
    {SYS_fchmod, EPERM},
    {SYS_fchmodat, EPERM},
    {SYS_fchown, EPERM},
    {SYS_fchownat, EPERM},
    {SYS_utimensat, EPERM},
    {SYS_getxattr, EPERM},
    {SYS_lgetxattr, EPERM},
    {SYS_fgetxattr, EPERM},
    {SYS_listxattr, EPERM},
    {SYS_llistxattr, EPERM},
    {SYS_flistxattr, EPERM},
    {SYS_setxattr, EPERM},
    {SYS_lsetxattr, EPERM},
    {SYS_fsetxattr, EPERM},
    {SYS_removexattr, EPERM},
    {SYS_lremovexattr, EPERM},
    {SYS_fremovexattr, EPERM},
    {SYS_name_to_handle_at, EPERM},
    {SYS_open_by_handle_at, EPERM},
    {SYS_inotify_add_watch, EPERM},
    {SYS_fanotify_init, EPERM},
    {SYS_fanotify_mark, EPERM},
    {SYS_linkat, EPERM},
    {SYS_symlinkat, EPERM},
    {SYS_mknodat, EPERM},
    // Mounts, namespaces, users.
    {SYS_mount, EPERM},
    {SYS_umount2, EPERM},
    {SYS_pivot_root, EPERM},
    {SYS_chroot, EPERM},
    {SYS_open_tree, EPERM},
    {SYS_move_mount, EPERM},
    {SYS_fsopen, EPERM},
    {SYS_fsconfig, EPERM},
    {SYS_fsmount, EPERM},
    {SYS_fspick, EPERM},
    {SYS_mount_setattr, EPERM},
    {SYS_unshare, EPERM},
    {SYS_setns, EPERM},
    {SYS_setuid, EPERM},
    {SYS_setgid, EPERM},
    {SYS_setreuid, EPERM},
    {SYS_setregid, EPERM},
    {SYS_setresuid, EPERM},
    {SYS_setresgid, EPERM},
    {SYS_setfsuid, EPERM},
    {SYS_setfsgid, EPERM},
    {SYS_setgroups, EPERM},
    {SYS_capset, EPERM},
    {SYS_personality, EPERM},
    // The kernel.
    {SYS_bpf, EPERM},
    {SYS_perf_event_open, EPERM},
    {SYS_seccomp, EPERM},
    {SYS_add_key, EPERM},
    {SYS_request_key, EPERM},
    {SYS_keyctl, EPERM},
    // Memory that no limit counts: it need not be mapped.
    {SYS_memfd_create, EPERM},
    {SYS_memfd_secret, EPERM},
    {SYS_init_module, EPERM},
    {SYS_finit_module, EPERM},
    {SYS_delete_module, EPERM},
    {SYS_kexec_load, EPERM},
    {SYS_reboot, EPERM},
    {SYS_swapon, EPERM},
    {SYS_swapoff, EPERM},
    {SYS_acct, EPERM},
    {SYS_quotactl, EPERM},
    {SYS_quotactl_fd, EPERM},
    {SYS_syslog, EPERM},
    {SYS_vhangup, EPERM},
    {SYS_sethostname, EPERM},
    {SYS_setdomainname, EPERM},
    {SYS_settimeofday, EPERM},
    {SYS_clock_settime, EPERM},
    {SYS_clock_adjtime, EPERM},
    {SYS_adjtimex, EPERM},
#if defined(__x86_64__)
    // Older forms of the above.
    {SYS_fork, EPERM},
    {SYS_vfork, EPERM},
    {SYS_chmod, EPERM},
    {SYS_chown, EPERM},
    {SYS_lchown, EPERM},
    {SYS_utime, EPERM},
    {SYS_utimes, EPERM},
    {SYS_futimesat, EPERM},
    {SYS_link, EPERM},
    {SYS_symlink, EPERM},
    {SYS_mknod, EPERM},
    {SYS_uselib, EPERM},
    {SYS_iopl, EPERM},
    {SYS_ioperm, EPERM},
    {SYS_modify_ldt, EPERM},
    {SYS_kexec_file_load, EPERM},
#endif
};

namespace {
/// The program that the kernel runs before each system call.
class Filter {
public:
  Filter() {
    load(offsetof(seccomp_data, arch));
    returnUnless(kArchitecture, SECCOMP_RET_KILL_PROCESS);
    load(offsetof(seccomp_data, nr));
    code.push_back(BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, kX32, 0, 1));
    end(SECCOMP_RET_KILL_PROCESS);
    code.push_back(BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, kNewestKnown, 0, 1));
    end(refusal(ENOSYS));
  }

  void refuse(Refusal call) {
    code.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, uint32_t(call.number), 0, 1));
    end(refusal(call.error));
  }
  /// Of the call, only such whose argument, an int, has one of these values in the bits of `mask`, or no such
  /// where they are `refused`.
  void compare(int number, int argument, uint32_t mask, std::initializer_list<uint32_t> values, bool refused,
               int error = EPERM) {
    const uint8_t length = uint8_t(values.size() + 4);
    code.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, uint32_t(number), 0, length));
    loadArgument(argument, mask);
    uint8_t left = uint8_t(values.size());
    for (uint32_t value : values)
      code.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, left--, 0));
    end(refused ? SECCOMP_RET_ALLOW : refusal(error));
    end(refused ? refusal(error) : SECCOMP_RET_ALLOW);
  }
  /// Of files that are opened, `flags` being the number of that argument: what may be read is not emptied, as
  /// Landlock before Linux 6.2 allows, and no new file gives its maker's rights to whoever runs it.
  void checkOpening(int number, int flags) {
    constexpr uint32_t kHow = O_ACCMODE | O_TRUNC, kSpecialModes = S_ISUID | S_ISGID | S_ISVTX;
    code.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, uint32_t(number), 0, 12));
    loadArgument(flags, kHow);
    code.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, O_RDONLY | O_TRUNC, 8, 0));
    code.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, O_ACCMODE | O_TRUNC, 7, 0));
    // A file without a name has a mode, too.
    loadArgument(flags, O_CREAT | (O_TMPFILE & ~O_DIRECTORY));
    code.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 3, 0));
    loadArgument(flags + 1, kSpecialModes);
    code.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 1));
    end(SECCOMP_RET_ALLOW);
    end(refusal(EPERM));
  }
  /// For all threads. \returns 0 or the errno.
  int install() {
    end(SECCOMP_RET_ALLOW);
    const sock_fprog program{uint16_t(code.size()), code.data()};
    const long result = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program);
    return result == 0 ? 0 : result < 0 ? errno : EBUSY;
  }

private:
  static uint32_t refusal(int error) { return SECCOMP_RET_ERRNO | uint32_t(error); }
  void load(size_t offset) { code.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, uint32_t(offset))); }
  /// Its lower half, which both architectures have first: these bits of it.
  void loadArgument(int argument, uint32_t mask) {
    load(offsetof(seccomp_data, args) + argument * sizeof(uint64_t));
    code.push_back(BPF_STMT(BPF_ALU | BPF_AND | BPF_K, mask));
  }
  void end(uint32_t result) { code.push_back(BPF_STMT(BPF_RET | BPF_K, result)); }
  void returnUnless(uint32_t value, uint32_t result) {
    code.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 1, 0));
    end(result);
  }

  std::vector<sock_filter> code;
};
} // namespace

/// Whether whoever started this process wants OpenMP to bind threads to cores, which takes calls about each.
static bool bindsThreads() {
  for (const char *name : {"OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY", "KMP_AFFINITY"})
    if (std::getenv(name))
      return true;
  return false;
}

int blockIoUringCalls() {
  Filter filter;
  filter.refuse({SYS_io_uring_setup, ENOSYS});
  return filter.install();
}

int blockSystemCalls() {
  constexpr uint32_t kAll = ~0u, kNotATerminal = ENOTTY;
  const uint32_t self = uint32_t(getpid());
  Filter filter;
  for (Refusal call : kRefused)
    filter.refuse(call);
  // Threads, in the namespaces that they have.
  constexpr uint32_t kNamespaces = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC |
                                   CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET;
  filter.compare(SYS_clone, 0, CLONE_THREAD | kNamespaces, {CLONE_THREAD}, /*refused=*/false);
  // Signals to itself, as abort and raise send them.
  filter.compare(SYS_kill, 0, kAll, {self}, false);
  filter.compare(SYS_tgkill, 0, kAll, {self}, false);
  // Signals that the kernel sends to others on its behalf, and leases that hold others up.
  filter.compare(SYS_fcntl, 1, kAll, {F_SETOWN, F_SETOWN_EX, F_SETSIG, F_SETLEASE, F_NOTIFY},
                 /*refused=*/true);
  // Of a terminal, what it is: not TIOCSTI, which types into it.
  filter.compare(SYS_ioctl, 1, kAll, {TCGETS, TIOCGWINSZ, TIOCGPGRP, FIONREAD, FIONBIO, FIOCLEX, FIONCLEX},
                 false, kNotATerminal);
  filter.checkOpening(SYS_openat, 2);
#if defined(__x86_64__)
  filter.checkOpening(SYS_open, 1);
  filter.refuse({SYS_creat, EPERM});
#endif
  filter.compare(SYS_prlimit64, 0, kAll, {0, self}, false);
  // Of another thread only where OpenMP is told to bind its own: a filter cannot tell whose a thread is.
  if (!bindsThreads())
    filter.compare(SYS_sched_setaffinity, 0, kAll, {0, self}, false);
  filter.compare(SYS_prctl, 0, kAll, {PR_SET_NAME, PR_GET_NAME, PR_SET_VMA}, false, EINVAL);
  return filter.install();
}

} // namespace cleave::sandbox
