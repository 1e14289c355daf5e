//===- ProgressBar.h - A line on a terminal that says how far it is -*- C++ -*-===//
#ifndef CLEAVE_TOOLS_CLEAVE_TEXT_PROGRESSBAR_H
#define CLEAVE_TOOLS_CLEAVE_TEXT_PROGRESSBAR_H

#include "tools/driver/base/Progress.h"
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace cleave {

/// Shows steps in the last line of stderr, one at a time, while it lives, and leaves the line empty. Steps
/// that are over in the blink of an eye are not shown. No colours.
class ProgressBar {
public:
  ProgressBar();
  ~ProgressBar();
  ProgressBar(const ProgressBar &) = delete;
  ProgressBar &operator=(const ProgressBar &) = delete;

  /// Whether stderr is a terminal on which a line can be written anew: not where TERM is `dumb` or missing.
  static bool canDraw();

  /// Empties the line in which a bar may stand whose process has ended before it.
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

/// Draws on `bar`, which it makes; empty where a bar cannot be drawn.
Progress showOn(std::optional<ProgressBar> &bar);

} // namespace cleave

#endif // CLEAVE_TOOLS_CLEAVE_TEXT_PROGRESSBAR_H
