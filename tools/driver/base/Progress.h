//===- Progress.h - Progress of a long call ---------------------*- C++ -*-===//
#ifndef CLEAVE_TOOLS_DRIVER_BASE_PROGRESS_H
#define CLEAVE_TOOLS_DRIVER_BASE_PROGRESS_H

#include <functional>
#include <optional>
#include <string>

namespace cleave {

/// Called when a phase begins, and again while it goes on. `done` is the finished share, 0 to 1, if known.
/// The part of `phase` after `: ` may change while the phase goes on. Called on the thread of the long call,
/// which waits for it; may be empty.
using Progress = std::function<void(const std::string &phase, std::optional<double> done)>;

} // namespace cleave

#endif // CLEAVE_TOOLS_DRIVER_BASE_PROGRESS_H
