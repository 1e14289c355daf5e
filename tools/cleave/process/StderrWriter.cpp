//===- StderrWriter.cpp - Last output of a process ------------------------===//
#include "tools/cleave/process/StderrWriter.h"
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <climits>
#include <poll.h>
#include <unistd.h>

namespace cleave {

void writeStderr(llvm::StringRef text) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point end = Clock::now() + std::chrono::seconds(1);
  while (!text.empty()) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now());
    pollfd polled{STDERR_FILENO, POLLOUT, 0};
    const int ready = poll(&polled, 1, int(std::max<int64_t>(left.count(), 0)));
    if (ready < 0 && errno == EINTR)
      continue;
    // A pipe that is writable has room for this many bytes.
    const ssize_t count =
        ready == 1 ? write(STDERR_FILENO, text.data(), std::min<size_t>(text.size(), PIPE_BUF)) : 0;
    if (count <= 0)
      return;
    text = text.drop_front(size_t(count));
  }
}

} // namespace cleave
