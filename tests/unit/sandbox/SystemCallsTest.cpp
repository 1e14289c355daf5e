//===- SystemCallsTest.cpp ------------------------------------------------===//
#include "tests/unit/sandbox/InSandbox.h"
#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/bpf.h>
#include <linux/perf_event.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <thread>

namespace cleave::sandbox {

namespace {
struct Attack {
  const char *name;
  int error;
  long (*attempt)();
};
} // namespace

static const Attack kAttacks[] = {
    {"clone_of_a_process", EPERM, [] { return syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0); }},
    {"clone_into_a_namespace", EPERM, [] { return syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0); }},
    {"clone3", ENOSYS, [] { return syscall(SYS_clone3, nullptr, 0); }},
#ifdef SYS_fork
    {"fork", EPERM, [] { return syscall(SYS_fork); }},
    {"vfork", EPERM, [] { return syscall(SYS_vfork); }},
    {"chmod", EPERM, [] { return syscall(SYS_chmod, "/dev/null", 0666); }},
    {"utimes", EPERM, [] { return syscall(SYS_utimes, "/dev/null", nullptr); }},
    {"symlink", EPERM, [] { return syscall(SYS_symlink, "/etc/passwd", "link"); }},
#endif
    {"execve", EPERM,
     [] {
       char *const arguments[] = {const_cast<char *>("/bin/true"), nullptr};
       return long(execve("/bin/true", arguments, nullptr));
     }},
    {"execveat", EPERM, [] { return syscall(SYS_execveat, AT_FDCWD, "/bin/true", nullptr, nullptr, 0); }},
    {"signal_to_the_parent", EPERM, [] { return long(kill(getppid(), 0)); }},
    {"signal_to_all", EPERM, [] { return long(kill(-1, 0)); }},
    {"signal_to_the_group", EPERM, [] { return long(kill(0, 0)); }},
    {"signal_to_a_thread_of_the_parent", EPERM, [] { return syscall(SYS_tgkill, getppid(), getppid(), 0); }},
    {"tkill", EPERM, [] { return syscall(SYS_tkill, getppid(), 0); }},
    {"signal_with_a_value", EPERM,
     [] {
       siginfo_t info{};
       info.si_code = SI_QUEUE;
       return syscall(SYS_rt_sigqueueinfo, getppid(), SIGURG, &info);
     }},
    {"pidfd_of_the_parent", EPERM, [] { return syscall(SYS_pidfd_open, getppid(), 0); }},
    {"owner_of_a_descriptor", EPERM, [] { return long(fcntl(0, F_SETOWN, getppid())); }},
    {"ptrace", EPERM, [] { return ptrace(PTRACE_TRACEME, 0, nullptr, nullptr); }},
    {"memory_of_the_parent", EPERM,
     [] { return syscall(SYS_process_vm_readv, getppid(), nullptr, 0, nullptr, 0, 0); }},
    {"limits_of_the_parent", EPERM,
     [] {
       rlimit limit;
       return long(prlimit(getppid(), RLIMIT_CORE, nullptr, &limit));
     }},
    {"priority_of_the_parent", EPERM, [] { return long(setpriority(PRIO_PROCESS, getppid(), 10)); }},
    {"cores_of_the_parent", EPERM,
     [] {
       cpu_set_t cores;
       CPU_ZERO(&cores);
       CPU_SET(0, &cores);
       return long(sched_setaffinity(getppid(), sizeof(cores), &cores));
     }},
    {"disk_priority_of_the_parent", EPERM, [] { return syscall(SYS_ioprio_set, 1, getppid(), 3 << 13); }},
    {"scheduler_of_the_parent", EPERM,
     [] {
       const sched_param parameters{};
       return long(sched_setscheduler(getppid(), SCHED_BATCH, &parameters));
     }},
    {"scheduler_attributes_of_the_parent", EPERM,
     [] {
       uint32_t attributes[12] = {sizeof(attributes), SCHED_BATCH};
       return syscall(SYS_sched_setattr, getppid(), attributes, 0);
     }},
    {"socket_of_ipv4", EPERM, [] { return long(socket(AF_INET, SOCK_STREAM, 0)); }},
    {"socket_of_ipv6", EPERM, [] { return long(socket(AF_INET6, SOCK_DGRAM, 0)); }},
    {"socket_of_unix", EPERM, [] { return long(socket(AF_UNIX, SOCK_STREAM, 0)); }},
    {"socket_of_netlink", EPERM, [] { return long(socket(AF_NETLINK, SOCK_RAW, 0)); }},
    {"socketpair", EPERM,
     [] {
       int pair[2];
       return long(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
     }},
    {"io_uring", ENOSYS, [] { return syscall(SYS_io_uring_setup, 0, nullptr); }},
    {"shared_memory", EPERM, [] { return syscall(SYS_shmget, 0, 4096, 0600); }},
    {"memory_of_no_name", EPERM, [] { return long(memfd_create("x", 0)); }},
    {"secret_memory", EPERM, [] { return syscall(SYS_memfd_secret, 0); }},
    {"message_queue", EPERM, [] { return syscall(SYS_mq_open, "x", O_CREAT | O_RDWR, 0600, nullptr); }},
    {"fchmodat", EPERM, [] { return syscall(SYS_fchmodat, AT_FDCWD, "/dev/null", 0666); }},
    {"fchmodat2", ENOSYS, [] { return syscall(452, AT_FDCWD, "/dev/null", 0666, 0); }},
    {"fchown", EPERM, [] { return long(fchown(0, getuid(), getgid())); }},
    {"utimensat", EPERM, [] { return long(utimensat(AT_FDCWD, "/dev/null", nullptr, 0)); }},
    {"getxattr", EPERM, [] { return syscall(SYS_getxattr, "/dev/null", "user.x", nullptr, 0); }},
    {"listxattr", EPERM, [] { return syscall(SYS_llistxattr, "/dev/null", nullptr, 0); }},
    {"setxattr", EPERM, [] { return syscall(SYS_setxattr, "/dev/null", "user.x", "y", 1, 0); }},
    {"truncate", EPERM, [] { return syscall(SYS_truncate, "/dev/null", 0); }},
    {"emptying_what_is_read", EPERM, [] { return long(open("/dev/null", O_RDONLY | O_TRUNC)); }},
    {"a_file_with_its_makers_rights", EPERM, [] { return long(open("new", O_WRONLY | O_CREAT, 04755)); }},
    {"a_file_of_no_name_with_its_makers_rights", EPERM,
     [] { return long(open(".", O_WRONLY | O_TMPFILE, 04755)); }},
    {"openat2", ENOSYS, [] { return syscall(437, AT_FDCWD, "/dev/null", nullptr, 0); }},
    {"file_handle", EPERM,
     [] { return syscall(SYS_name_to_handle_at, AT_FDCWD, "/dev/null", nullptr, nullptr, 0); }},
    {"open_by_handle", EPERM, [] { return syscall(SYS_open_by_handle_at, AT_FDCWD, nullptr, 0); }},
    {"linkat", EPERM, [] { return long(linkat(AT_FDCWD, "/etc/passwd", AT_FDCWD, "link", 0)); }},
    {"mknodat", EPERM, [] { return long(mknodat(AT_FDCWD, "fifo", S_IFIFO | 0600, 0)); }},
    {"inotify", EPERM, [] { return syscall(SYS_inotify_add_watch, 0, "/", 0); }},
    {"mount", EPERM, [] { return syscall(SYS_mount, "x", "/", "tmpfs", 0, nullptr); }},
    {"unshare", EPERM, [] { return long(unshare(CLONE_NEWUSER)); }},
    {"chroot", EPERM, [] { return long(chroot("/")); }},
    {"setuid", EPERM, [] { return syscall(SYS_setuid, getuid()); }},
    {"bpf", EPERM, [] { return syscall(SYS_bpf, BPF_MAP_CREATE, nullptr, 0); }},
    {"perf_event_open", EPERM, [] { return syscall(SYS_perf_event_open, nullptr, 0, -1, -1, 0); }},
    {"userfaultfd", EPERM, [] { return syscall(SYS_userfaultfd, 0); }},
    {"keyctl", EPERM, [] { return syscall(SYS_keyctl, 0, -3, 1); }},
    {"add_key", EPERM, [] { return syscall(SYS_add_key, "user", "x", "y", 1, -3); }},
    {"personality", EPERM, [] { return syscall(SYS_personality, 0xffffffff); }},
    {"typing_into_the_terminal", ENOTTY, [] { return long(ioctl(0, TIOCSTI, "x")); }},
    {"outliving_the_parent", EINVAL, [] { return long(prctl(PR_SET_PDEATHSIG, 0)); }},
    {"dumpable", EINVAL, [] { return long(prctl(PR_SET_DUMPABLE, 1)); }},
    {"another_filter", EPERM, [] { return syscall(SYS_seccomp, 0, 0, nullptr); }},
    {"calls_of_later_kernels", ENOSYS, [] { return syscall(470); }},
};

class SystemCalls : public testing::TestWithParam<Attack> {};

TEST_P(SystemCalls, IsRefused) {
  const Attack &attack = GetParam();
  EXPECT_EQ(inSandbox({},
                      [&] {
                        errno = 0;
                        return attack.attempt() == -1 ? errno : 0;
                      }),
            attack.error);
}

INSTANTIATE_TEST_SUITE_P(All, SystemCalls, testing::ValuesIn(kAttacks),
                         [](const auto &info) { return std::string(info.param.name); });

TEST(SystemCallsAllowed, WhatLibrariesNeed) {
  EXPECT_EQ(inSandbox({},
                      [] {
                        int sum = 0;
                        std::thread([&] { sum += prctl(PR_SET_NAME, "worker") == 0; }).join();
                        sum += kill(getpid(), 0) == 0;
                        sum += syscall(SYS_tgkill, getpid(), gettid(), 0) == 0;
                        int ends[2];
                        sum += pipe(ends) == 0 && write(ends[1], "x", 1) == 1;
                        cpu_set_t cores;
                        sum += sched_getaffinity(0, sizeof(cores), &cores) == 0 &&
                               sched_setaffinity(0, sizeof(cores), &cores) == 0;
                        rlimit limit;
                        sum += getrlimit(RLIMIT_STACK, &limit) == 0;
                        void *code = mmap(nullptr, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
                                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
                        return sum + (code != MAP_FAILED);
                      }),
            7);
}

TEST(SystemCallsAllowed, AbortIsSeenAsSuch) {
  EXPECT_EQ(inSandbox({},
                      [] {
                        abort();
                        return 0;
                      }),
            -SIGABRT);
}

/// Threads that were there before are held back as well.
TEST(SystemCallsAllowed, LimitsAllThreads) {
  int go[2], done[2];
  ASSERT_EQ(pipe(go) | pipe(done), 0);
  const pid_t child = fork();
  if (child == 0) {
    std::thread other([&] {
      char byte;
      (void)!read(go[0], &byte, 1);
      _exit(socket(AF_INET, SOCK_STREAM, 0) == -1 ? errno : 0);
    });
    enter({});
    (void)!write(go[1], "x", 1);
    other.join();
  }
  int status;
  waitpid(child, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), EPERM);
}

#ifdef __x86_64__
/// The numbers of another architecture mean other calls.
TEST(SystemCallsAllowed, OtherArchitecturesKill) {
  EXPECT_EQ(inSandbox({}, [] { return int(syscall(0x40000000 | SYS_getpid)); }), -SIGSYS);
  EXPECT_EQ(inSandbox({},
                      [] {
                        long result;
                        asm volatile("int $0x80" : "=a"(result) : "a"(20) : "memory"); // getpid of i386
                        return int(result);
                      }),
            -SIGSYS);
}
#endif

} // namespace cleave::sandbox
