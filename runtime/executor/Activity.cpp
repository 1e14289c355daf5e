//===- Activity.cpp - What each thread of this process runs ---------------===//
#include "runtime/executor/Activity.h"
#include "runtime/executor/Executor.h"
#include <algorithm>
#include <atomic>
#include <cstring>

namespace cleave::runtime {

namespace {
struct ActivityEntry {
  std::atomic<bool> isTaken{false};
  std::atomic<const Executor *> executor{nullptr};
  std::atomic<uint32_t> rank{0};
};
} // namespace

/// Number of threads that are tracked; further ones are not.
static constexpr size_t kEntries = 1024, kNone = kEntries;
static ActivityEntry entries[kEntries];
/// In the initial TLS block, so that signal handlers access it without an allocation.
static thread_local size_t own __attribute__((tls_model("initial-exec"))) = kNone;

ActivityScope::ActivityScope(uint32_t rank, const Executor &executor) : outerEntry(own) {
  // Ranks start at different entries, so the first one is mostly free.
  for (size_t i = 0; i < kEntries; ++i) {
    const size_t index = (rank + i) % kEntries;
    bool isFree = false;
    if (!entries[index].isTaken.compare_exchange_strong(isFree, true))
      continue;
    entries[index].rank = rank;
    entries[index].executor.store(&executor, std::memory_order_release);
    own = index;
    return;
  }
}

ActivityScope::~ActivityScope() {
  if (own != outerEntry) {
    entries[own].executor = nullptr;
    entries[own].isTaken = false;
  }
  own = outerEntry;
}

namespace {
/// Text in a fixed buffer; truncates.
class Text {
public:
  Text(char *begin, size_t size) : at(begin), end(begin + size - 1) { *at = '\0'; }
  Text &operator<<(const char *text) {
    while (*text && at < end)
      *at++ = *text++;
    *at = '\0';
    return *this;
  }
  Text &operator<<(uint32_t number) {
    char digits[11], *first = digits + 10;
    *first = '\0';
    do
      *--first = char('0' + number % 10);
    while (number /= 10);
    return *this << first;
  }

private:
  char *at, *const end;
};
} // namespace

static void describe(uint32_t rank, const Executor &executor, Text &text) {
  text << "rank " << rank << " (stage " << executor.stage() << ")";
  if (const plan::Instruction *instruction = executor.instruction()) {
    const char *path = executor.pathOf(*instruction), *name = executor.nameOf(*instruction);
    text << ": " << path << (*path ? ": " : "") << name;
  }
}

static bool describe(const ActivityEntry &entry, Text &text, const char *before) {
  const Executor *executor = entry.executor.load(std::memory_order_acquire);
  if (!executor)
    return false;
  describe(entry.rank, *executor, text << before);
  return true;
}

void describeActivity(char *buffer, size_t size) {
  Text text(buffer, size);
  if (own != kNone && describe(entries[own], text, ""))
    return;
  bool isFirst = true;
  for (const ActivityEntry &entry : entries)
    if (describe(entry, text, isFirst ? "" : " or "))
      isFirst = false;
}

std::string describeProgram(uint32_t rank, const Executor &executor) {
  char buffer[4096];
  Text text(buffer, sizeof(buffer));
  describe(rank, executor, text);
  return buffer;
}

} // namespace cleave::runtime
