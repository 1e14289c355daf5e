//===- Measured.h - What of several measurements counts ---------*- C++ -*-===//
#ifndef CLEAVE_TOOLS_DRIVER_PROFILE_MEASURED_H
#define CLEAVE_TOOLS_DRIVER_PROFILE_MEASURED_H

#include "partitioner/machine/Link.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"
#include <map>
#include <string>
#include <vector>

namespace cleave {

/// Passes that measure the same points in the same order: a pass comes back to a point after others, when
/// what disturbed it has gone by.
class Passes {
public:
  /// Another one begins.
  void restart() {
    point = 0;
    isFirst = samples.empty();
  }
  /// Of the point that is measured: the median of this and of the passes before; of an even number, the lower
  /// one of the two in the middle.
  llvm::Expected<double> median(llvm::Expected<double> seconds);

  /// Whether larger messages of `what` than this are left out, since the first pass has found them to take
  /// too long.
  bool isTooLarge(const std::string &what, double bytes) const {
    auto found = largest.find(what);
    return found != largest.end() && bytes > found->second;
  }
  /// Leaves out what is larger where `next` bytes would take more than `limit` seconds if that grows as bytes
  /// do. Only the first pass does, so that all measure the same.
  void limit(const std::string &what, double bytes, double seconds, double next, double limit) {
    if (isFirst && seconds * next / bytes > limit)
      largest.try_emplace(what, bytes);
  }

private:
  /// By point, in order; and the next one's number.
  std::vector<std::vector<double>> samples;
  size_t point = 0;
  bool isFirst = true;
  std::map<std::string, double> largest;
};

/// A message, and how long it has taken.
struct TimedMessage {
  double bytes, seconds;
};

/// The rate is that of the line that meets all messages best (least squares), of which the largest say most;
/// the latency is what the least one takes beside its bytes. Of two messages, what both took. The latency is
/// 0 at least, the rate 1e12 at most, since differences of measurements may be anything.
/// \param messages  two at least, of sizes that ascend.
Link fitLink(llvm::ArrayRef<TimedMessage> messages);

/// Four digits, which is what measurements are good for.
double rounded(double number);

} // namespace cleave

#endif // CLEAVE_TOOLS_DRIVER_PROFILE_MEASURED_H
