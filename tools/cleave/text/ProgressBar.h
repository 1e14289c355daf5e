//===- ProgressBar.h - Progress on a terminal -------------------*- C++ -*-===//
#ifndef CLEAVE_TOOLS_CLEAVE_TEXT_PROGRESSBAR_H
#define CLEAVE_TOOLS_CLEAVE_TEXT_PROGRESSBAR_H

#include "tools/driver/base/Progress.h"
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace cleave {

/// Shows the current step in the last line of stderr while it lives, then clears the line. Very short steps
/// are not shown. No colours.
class ProgressBar {
public:
  ProgressBar();
  ~ProgressBar();
  ProgressBar(const ProgressBar &) = delete;
  ProgressBar &operator=(const ProgressBar &) = delete;

  /// True if stderr is a terminal that can rewrite a line: TERM is neither `dumb` nor missing.
  static bool canDraw();

  /// Clears the line of a bar whose process has died.
  static void erase();

  /// As Progress.
  void show(const std::string &step, std::optional<double> done);

private:
  using Clock = std::chrono::steady_clock;
  void work();
  std::string line(Clock::time_point now) const;

  std::mutex mutex;
  std::condition_variable ended;
  bool isEnding = false;
  std::string step;
  std::optional<double> done;
  Clock::time_point begun;
  std::thread thread;
};

/// Makes `bar`, and returns a function that draws on it; empty if a bar cannot be drawn.
Progress showOn(std::optional<ProgressBar> &bar);

} // namespace cleave

#endif // CLEAVE_TOOLS_CLEAVE_TEXT_PROGRESSBAR_H
