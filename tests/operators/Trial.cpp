//===- Trial.cpp - Hostile calls of one operator --------------------------===//
#include "tests/operators/Trial.h"
#include "runtime/base/Exceptions.h"
#include "tests/operators/GuardedMemory.h"
#include "tests/operators/Materialize.h"
#include "tests/operators/Mutator.h"
#include "tests/operators/SystemCalls.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/Support/xxhash.h"
#include <ATen/ATen.h>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <new>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

namespace cleave::operators {

/// CPU time of one call; whoever runs a plan has a limit of his own.
static constexpr timeval kMaxTime = {0, 300'000};
static constexpr rlim_t kMaxHeapBytes = rlim_t(3) << 30;
/// Harmful calls after which no more are made, and slow ones after which large sizes are left out.
static constexpr uint64_t kMaxHarmful = 5, kMaxSlow = 6;

uint64_t Tally::calls() const {
  uint64_t sum = 0;
  for (uint64_t count : counts)
    sum += count;
  return sum;
}

static bool isHarmful(Outcome outcome) {
  return outcome != Outcome::Result && outcome != Outcome::Error && outcome != Outcome::Slow;
}

bool Tally::isHarmless() const {
  for (size_t i = 0; i < size_t(Outcome::Count); ++i)
    if (isHarmful(Outcome(i)) && counts[i])
      return false;
  return true;
}

llvm::StringRef nameOf(Outcome outcome) {
  static const char *const names[] = {"results",       "errors",  "crashes", "guards", "outside",
                                      "uninitialized", "effects", "writes",  "slow"};
  return names[size_t(outcome)];
}

//===- What parent and child share ----------------------------------------===//

namespace {
/// In memory of both: what the child was doing when it ended.
struct Shared {
  std::atomic<uint64_t> next;
  /// What the signal handler found; Count: nothing.
  std::atomic<Outcome> outcome;
  std::atomic<uint64_t> counts[size_t(Outcome::Count)];
  std::atomic<uint32_t> foundBytes;
  char example[1 << 14];
  /// What the last call threw.
  char message[1 << 10];
  char found[1 << 18];
};
} // namespace

static Shared *shared = nullptr;

static void makeShared() {
  if (!shared) {
    void *memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
      std::abort();
    shared = static_cast<Shared *>(memory);
  }
  new (shared) Shared{};
}

static void handle(int signal, siginfo_t *info, void *context) {
  if (signal == SIGSYS && answerTrap(*info, context))
    return;
  if (signal == SIGSYS)
    shared->outcome = Outcome::Effect;
  else if (signal == SIGPROF || signal == SIGALRM)
    shared->outcome = Outcome::Slow;
  else if ((signal == SIGSEGV || signal == SIGBUS) && info->si_addr && isGuard(info->si_addr))
    shared->outcome = Outcome::Guard;
  else
    shared->outcome = Outcome::Crash;
  _exit(1);
}

/// In the child: nothing that it does is seen outside, and every way to end is told.
static void prepareChild() {
  const int nothing = open("/dev/null", O_RDWR);
  dup2(nothing, STDOUT_FILENO);
  dup2(nothing, STDERR_FILENO);
  static char stack[1 << 16];
  stack_t alternate = {stack, 0, sizeof(stack)};
  sigaltstack(&alternate, nullptr);
  struct sigaction action = {};
  action.sa_sigaction = handle;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  for (int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGSYS, SIGPROF, SIGALRM})
    sigaction(signal, &action, nullptr);
  const rlimit heap = {kMaxHeapBytes, kMaxHeapBytes}, core = {0, 0};
  setrlimit(RLIMIT_DATA, &heap);
  setrlimit(RLIMIT_CORE, &core);
  guardTensors();
  trapSystemCalls();
}

static void limitTime() {
  const itimerval processor = {{0, 0}, kMaxTime};
  setitimer(ITIMER_PROF, &processor, nullptr);
  // For what waits instead of computing.
  alarm(60);
}

/// Runs `work` from call `shared->next` on, in children, until one ends by itself or says that enough is
/// known.
static void inChildren(llvm::function_ref<void()> work, llvm::function_ref<bool(Outcome)> ended) {
  while (true) {
    shared->outcome = Outcome::Count;
    const pid_t child = fork();
    if (child == 0) {
      prepareChild();
      work();
      _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
      return;
    Outcome outcome = shared->outcome;
    if (!ended(outcome == Outcome::Count ? Outcome::Crash : outcome))
      return;
    ++shared->next;
  }
}

//===- One call -----------------------------------------------------------===//

namespace {
/// What one making of a call gave: a digest of its results, or nothing where it threw.
struct Attempt {
  bool isResult = false, isOutside = false, isWrite = false;
  std::string digest;
};
} // namespace

/// Of arguments; of those that are no tensors of plans nothing.
static std::string digestOf(const torch::jit::Stack &arguments) {
  std::string text;
  for (const c10::IValue &argument : arguments)
    try {
      text += digest(argument) + "|";
    } catch (const std::exception &) {
      text += "?|";
    }
  return text;
}

static Attempt attempt(runtime::ResolvedOperator &op, const Call &call, uint64_t seed, Side side,
                       uint8_t poison) {
  Attempt made;
  setGuards(side, poison);
  try {
    torch::jit::Stack stack;
    for (size_t i = 0; i < call.arguments.size(); ++i)
      stack.push_back(materialize(call.arguments[i], seed + i));
    if (op.schema.is_vararg())
      stack.emplace_back(int64_t(call.arguments.size()));
    at::manual_seed(seed);
    const torch::jit::Stack arguments = stack;
    const std::string before = digestOf(arguments);
    op.onCpu(stack);
    made.isWrite = digestOf(arguments) != before;
    for (const c10::IValue &value : stack)
      made.digest += digest(value) + "|";
    made.isResult = true;
  } catch (const std::exception &error) {
    const std::string message = runtime::messageOf(error);
    made.isOutside = llvm::StringRef(message).starts_with("OUTSIDE");
    std::strncpy(shared->message, message.c_str(), sizeof(shared->message) - 1);
  }
  return made;
}

/// At both ends of the pages; where that gave something, also whether it depends on what memory held.
static Outcome attemptAll(runtime::ResolvedOperator &op, const Call &call, uint64_t seed) {
  Attempt first = attempt(op, call, seed, Side::Begin, 0xa5);
  Attempt second = attempt(op, call, seed, Side::End, 0xa5);
  if (first.isOutside || second.isOutside)
    return Outcome::Outside;
  if (first.isWrite || second.isWrite)
    return Outcome::Write;
  if (!second.isResult)
    return first.isResult ? Outcome::Result : Outcome::Error;
  Attempt third = attempt(op, call, seed, Side::End, 0x5a);
  return third.isResult && third.digest != second.digest ? Outcome::Uninitialized : Outcome::Result;
}

static void keepExample(const Call &call) {
  std::string text = toText(call);
  text.resize(std::min(text.size(), sizeof(shared->example) - 1));
  std::memcpy(shared->example, text.c_str(), text.size() + 1);
}

//===- Trials -------------------------------------------------------------===//

llvm::Expected<Trial> Trial::of(const std::string &op) {
  Trial trial(op);
  runtime::ResolvedOperator *resolved = resolveOperator(op);
  if (!resolved || !isCallable(resolved->schema))
    return llvm::createStringError(op + ": no plan can call it");
  trial.found = &resolved->schema;
  return trial;
}

std::vector<Call> Trial::find(size_t wanted, uint64_t tries) const {
  makeShared();
  size_t found = 0;
  inChildren(
      [&] {
        runtime::ResolvedOperator *resolved = resolveOperator(op);
        for (; shared->next < tries && found < wanted; ++shared->next) {
          Random random(llvm::xxh3_64bits(op) + shared->next * 0x9e3779b97f4a7c15u);
          std::optional<Call> call = randomCall(op, *this->found, random);
          if (!call)
            return;
          limitTime();
          if (!attempt(*resolved, *call, shared->next, Side::End, 0).isResult)
            continue;
          std::string text = toText(*call) + "\n";
          if (text.size() < 1000 && shared->foundBytes + text.size() < sizeof(shared->found)) {
            std::memcpy(shared->found + shared->foundBytes, text.data(), text.size());
            shared->foundBytes += text.size();
            ++found;
          }
        }
      },
      [&](Outcome) { return ++shared->counts[0] < 20; });
  std::vector<Call> calls;
  llvm::SmallVector<llvm::StringRef> lines;
  llvm::StringRef(shared->found, shared->foundBytes).split(lines, '\n', -1, /*KeepEmpty=*/false);
  for (llvm::StringRef line : lines)
    if (auto call = parseCall(line))
      calls.push_back(std::move(*call));
    else
      llvm::consumeError(call.takeError());
  return calls;
}

/// Makes calls, each from `makeCall`, and counts what comes of them.
static Tally tally(const std::string &op, uint64_t first, uint64_t last,
                   llvm::function_ref<Call(uint64_t)> makeCall) {
  makeShared();
  shared->next = first;
  Tally tally;
  auto note = [&](Outcome outcome) {
    ++shared->counts[size_t(outcome)];
    if (isHarmful(outcome) || outcome == Outcome::Slow)
      tally.examples.push_back((nameOf(outcome) + " " + shared->example).str());
    uint64_t harmful = 0;
    for (size_t i = 0; i < size_t(Outcome::Count); ++i)
      harmful += isHarmful(Outcome(i)) ? shared->counts[i].load() : 0;
    return harmful < kMaxHarmful;
  };
  inChildren(
      [&] {
        runtime::ResolvedOperator *resolved = resolveOperator(op);
        for (; shared->next < last; ++shared->next) {
          Call call = makeCall(shared->next);
          keepExample(call);
          limitTime();
          Outcome outcome = attemptAll(*resolved, call, shared->next);
          if (isHarmful(outcome)) {
            shared->outcome = outcome;
            _exit(1);
          }
          ++shared->counts[size_t(outcome)];
        }
      },
      note);
  for (size_t i = 0; i < size_t(Outcome::Count); ++i)
    tally.counts[i] = shared->counts[i];
  tally.message = shared->message;
  return tally;
}

Tally Trial::run(const std::vector<Call> &good, uint64_t first, uint64_t last) const {
  return tally(op, first, last, [&](uint64_t number) {
    Random random(llvm::xxh3_64bits(op) ^ (number * 0x9e3779b97f4a7c15u));
    Call call = good[below(random, good.size())];
    // Half of them change contents alone, so that kernels run to their end.
    const bool mayBeLarge = shared->counts[size_t(Outcome::Slow)] < kMaxSlow;
    mutate(call, {.gently = number % 2 == 1, .mayBeLarge = mayBeLarge}, random);
    return call;
  });
}

Tally Trial::run(const Call &call) const {
  return tally(op, 0, 1, [&](uint64_t) { return call; });
}

} // namespace cleave::operators
