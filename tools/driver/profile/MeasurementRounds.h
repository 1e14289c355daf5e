//===- MeasurementRounds.h - Statistics of measurements ---------*- C++ -*-===//
#ifndef CLEAVE_TOOLS_DRIVER_PROFILE_MEASUREMENTROUNDS_H
#define CLEAVE_TOOLS_DRIVER_PROFILE_MEASUREMENTROUNDS_H

#include "partitioner/machine/Link.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"
#include <map>
#include <string>
#include <vector>

namespace cleave {

/// Repeated measurements of the same points in the same order. Each round visits all points before the next
/// one begins, so that a disturbance does not hit all samples of one point.
class MeasurementRounds {
public:
  /// Begins another round.
  void restart() {
    point = 0;
    isFirst = samples.empty();
  }
  /// Adds a sample of the current point, and goes on to the next point. Returns the median of the samples so
  /// far; the lower middle one for an even number.
  llvm::Expected<double> addSample(llvm::Expected<double> seconds);

  /// True if messages of `what` are left out at this size, since the first round found them to take too long.
  bool isTooLarge(const std::string &what, double bytes) const {
    auto found = largest.find(what);
    return found != largest.end() && bytes > found->second;
  }
  /// Leaves out sizes of `what` above `bytes` if `next` bytes would take more than `limit` seconds, in
  /// proportion to bytes. Only the first round decides, so that all rounds measure the same points.
  void limit(const std::string &what, double bytes, double seconds, double next, double limit) {
    if (isFirst && seconds * next / bytes > limit)
      largest.try_emplace(what, bytes);
  }

private:
  /// Samples by point, and the index of the current point.
  std::vector<std::vector<double>> samples;
  size_t point = 0;
  bool isFirst = true;
  std::map<std::string, double> largest;
};

/// A message and its time.
struct TimedMessage {
  double bytes, seconds;
};

/// Fits latency and bandwidth. Bandwidth is the slope of a least-squares line, which the largest messages
/// dominate; latency is the time of the smallest message without its bytes. Latency is at least 0 and
/// bandwidth at most 1e12 bytes per second, since differences of measurements may be anything.
/// \param messages  at least two, by ascending size.
Link fitLink(llvm::ArrayRef<TimedMessage> messages);

/// Rounds to four significant digits, the precision of measurements.
double rounded(double number);

} // namespace cleave

#endif // CLEAVE_TOOLS_DRIVER_PROFILE_MEASUREMENTROUNDS_H
