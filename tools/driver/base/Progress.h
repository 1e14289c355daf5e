//===- Progress.h - What a long call is doing -------------------*- C++ -*-===//
#ifndef CLEAVE_TOOLS_DRIVER_BASE_PROGRESS_H
#define CLEAVE_TOOLS_DRIVER_BASE_PROGRESS_H

#include <functional>
#include <optional>
#include <string>

namespace cleave {

/// Told of each step when it begins, and again while it goes on: `done` is the share of it that is done, 0 to
/// 1, where that is known. What follows `: ` in `step` may change while it goes on. Called by the thread that
/// made the long call, which waits for it; may be empty.
using Progress = std::function<void(const std::string &step, std::optional<double> done)>;

} // namespace cleave

#endif // CLEAVE_TOOLS_DRIVER_BASE_PROGRESS_H
