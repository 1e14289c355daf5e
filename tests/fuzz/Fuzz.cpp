//===- Fuzz.cpp - What the fuzz targets share -----------------------------===//
#include "tests/fuzz/Fuzz.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/DJB.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Support/xxhash.h"
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <optional>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

namespace cleave::fuzz {

#ifdef __SANITIZE_ADDRESS__
/// Instrumented code is several times as slow, and its shadow memory counts as memory.
static constexpr bool kIsSanitized = true;
#else
static constexpr bool kIsSanitized = false;
#endif
static constexpr time_t kMaxSeconds = kIsSanitized ? 5 : 1;
/// Exit statuses of children, which a sanitizer does not use.
static constexpr int kUseless = 40, kUseful = 41;
static constexpr rlim_t kMaxBytes = rlim_t(2) << 30;

//===- Coverage -----------------------------------------------------------===//
// libFuzzer watches these counters: the first half counts locations in the program, the other half outcomes.
// Children share them. The linker places them, so their addresses are the same in every run.

static constexpr size_t kCounters = 1 << 17;
alignas(4096) __attribute__((section("__libfuzzer_extra_counters"))) static uint8_t counters[kCounters];

extern "C" char __executable_start;

/// Called by code that GCC instruments with -fsanitize-coverage=trace-pc; libFuzzer itself supports only
/// Clang's instrumentation (linked with --wrap).
extern "C" __attribute__((no_sanitize_coverage, no_sanitize("address", "undefined"))) void
__wrap___sanitizer_cov_trace_pc() {
  auto place = static_cast<char *>(__builtin_return_address(0)) - &__executable_start;
  ++counters[size_t(place) % (kCounters / 2)];
}
/// Comparisons of floating-point numbers, which libFuzzer does not use.
extern "C" void __sanitizer_cov_trace_cmpf(float, float) {}
extern "C" void __sanitizer_cov_trace_cmpd(double, double) {}

void noteOutcome(llvm::StringRef message) {
  std::string shape;
  bool isQuoted = false;
  for (char c : message) {
    isQuoted ^= c == '\'' || c == '"';
    if (!isQuoted && !llvm::isDigit(c))
      shape += c;
  }
  counters[kCounters / 2 + llvm::djbHash(shape) % (kCounters / 2)] = 1;
}

//===- Cases --------------------------------------------------------------===//

void promise(bool holds, const llvm::Twine &what) {
  if (holds)
    return;
  llvm::errs() << "broken promise: " << what << "\n";
  std::abort();
}

static void limitSeconds(time_t seconds) {
  itimerval timer = {{0, 0}, {seconds, 0}};
  setitimer(ITIMER_PROF, &timer, nullptr);
}

static void beTooSlow(int) {
  static const char message[] = "broken promise: a case takes too much CPU time\n";
  (void)!write(STDERR_FILENO, message, sizeof(message) - 1);
  std::abort();
}

//===- Children -----------------------------------------------------------===//

namespace {
/// A process that runs cases of its parent, until it has run enough, it crashes or its parent is gone.
class Child {
public:
  explicit Child(bool (*work)(llvm::ArrayRef<uint8_t>));
  ~Child();
  bool run(llvm::ArrayRef<uint8_t> bytes);
  bool isSpent() const { return hasEnded || cases == kMaxCases; }

private:
  [[noreturn]] void serve(bool (*work)(llvm::ArrayRef<uint8_t>));
  int wait();

  static constexpr int kMaxCases = 200;
  /// The bytes of a case go through shared memory, their number and the answer through pipes.
  static constexpr size_t kMaxCaseBytes = 1 << 20;
  static uint8_t *const shared;
  int requests[2], answers[2];
  pid_t process;
  int cases = 0;
  bool hasEnded = false;
};
} // namespace

uint8_t *const Child::shared = static_cast<uint8_t *>(
    mmap(nullptr, kMaxCaseBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));

/// All of an object, or nothing at the end of the pipe.
template <typename T> static bool readWhole(int pipe, T &value) {
  ssize_t count;
  // libFuzzer's clock interrupts it.
  while ((count = read(pipe, &value, sizeof(T))) < 0 && errno == EINTR)
    ;
  return count == sizeof(T);
}

template <typename T> static bool writeWhole(int pipe, T value) {
  return write(pipe, &value, sizeof(T)) == sizeof(T);
}

Child::Child(bool (*work)(llvm::ArrayRef<uint8_t>)) {
  promise(shared != MAP_FAILED && pipe2(requests, O_CLOEXEC) == 0 && pipe2(answers, O_CLOEXEC) == 0, "pipes");
  llvm::errs().flush();
  process = fork();
  promise(process >= 0, "fork");
  if (process == 0)
    serve(work);
  close(requests[0]);
  close(answers[1]);
}

Child::~Child() {
  close(requests[1]);
  close(answers[0]);
  if (!hasEnded)
    wait();
}

void Child::serve(bool (*work)(llvm::ArrayRef<uint8_t>)) {
  close(requests[1]);
  close(answers[0]);
  // libFuzzer's handlers would write the case, which is for the parent to do.
  for (int signal : {SIGSEGV, SIGBUS, SIGABRT, SIGILL, SIGFPE, SIGALRM, SIGPROF})
    if (!kIsSanitized || signal == SIGPROF || signal == SIGALRM)
      std::signal(signal, SIG_DFL);
  rlimit memory = {kMaxBytes, kMaxBytes};
  if (!kIsSanitized)
    setrlimit(RLIMIT_DATA, &memory);
  size_t size;
  while (readWhole(requests[0], size)) {
    limitSeconds(kMaxSeconds);
    const bool isUseful = work(llvm::ArrayRef(shared, size));
    limitSeconds(0);
    if (!writeWhole(answers[1], isUseful))
      break;
  }
  _exit(0);
}

bool Child::run(llvm::ArrayRef<uint8_t> bytes) {
  promise(bytes.size() <= kMaxCaseBytes, "a case that fits");
  llvm::copy(bytes, shared);
  ++cases;
  promise(writeWhole(requests[1], bytes.size()), "a child process that listens");
  bool isUseful;
  if (readWhole(answers[0], isUseful))
    return isUseful;
  const int status = wait();
  const std::string which = "a child process, at its case " + std::to_string(cases) + ", ";
  promise(!WIFSIGNALED(status), which + "dies of signal " + llvm::Twine(WTERMSIG(status)));
  promise(WEXITSTATUS(status) == kUseful || WEXITSTATUS(status) == kUseless,
          which + "ends with status " + llvm::Twine(WEXITSTATUS(status)));
  return WEXITSTATUS(status) == kUseful;
}

int Child::wait() {
  int status;
  while (waitpid(process, &status, 0) != process)
    promise(errno == EINTR, "waitpid");
  hasEnded = true;
  return status;
}

bool inChild(llvm::ArrayRef<uint8_t> bytes, bool (*work)(llvm::ArrayRef<uint8_t>)) {
  static std::optional<Child> child;
  if (!child || child->isSpent())
    child.emplace(work);
  return child->run(bytes);
}

void endChild(bool isUseful) { _exit(isUseful ? kUseful : kUseless); }

//===- Files --------------------------------------------------------------===//

MemoryFile::MemoryFile(int file) : path("/proc/self/fd/" + std::to_string(file)), file(file) {}

MemoryFile::MemoryFile(llvm::ArrayRef<uint8_t> bytes) : MemoryFile(memfd_create("case", MFD_CLOEXEC)) {
  promise(write(file, bytes.data(), bytes.size()) == ssize_t(bytes.size()), "write to a file in memory");
}

MemoryFile::~MemoryFile() { close(file); }

/// Writes the seeds to files, whose names libFuzzer takes.
static std::string writeSeeds() {
  std::string names;
  llvm::sys::fs::create_directory("seeds");
  for (const std::string &seed : seeds()) {
    std::string name = "seeds/" + llvm::utohexstr(llvm::xxh3_64bits(seed));
    std::error_code error;
    llvm::raw_fd_ostream(name, error) << seed;
    promise(!error, name + ": " + error.message());
    names += (names.empty() ? "" : ",") + name;
  }
  return names;
}

} // namespace cleave::fuzz

//===- What libFuzzer calls -----------------------------------------------===//

using namespace cleave::fuzz;

extern "C" int LLVMFuzzerInitialize(int *count, char ***arguments) {
  mmap(counters, kCounters, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  std::signal(SIGPROF, beTooSlow);
  static std::string option = "-seed_inputs=" + writeSeeds();
  static std::vector<char *> extended(*arguments, *arguments + *count);
  // First, so that the user's options override it.
  extended.insert(extended.begin() + 1, option.data());
  *count = int(extended.size());
  extended.push_back(nullptr);
  *arguments = extended.data();
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  limitSeconds(kMaxSeconds);
  const bool isOfUse = test({data, size});
  limitSeconds(0);
  return isOfUse ? 0 : -1;
}
