//===- MeasurementRounds.cpp - Statistics of measurements -----------------===//
#include "tools/driver/profile/MeasurementRounds.h"
#include "llvm/ADT/STLExtras.h"
#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace cleave {

llvm::Expected<double> MeasurementRounds::addSample(llvm::Expected<double> seconds) {
  if (!seconds)
    return seconds;
  if (point == samples.size())
    samples.emplace_back();
  std::vector<double> &all = samples[point++];
  all.insert(llvm::upper_bound(all, *seconds), *seconds);
  return all[(all.size() - 1) / 2];
}

Link fitLink(llvm::ArrayRef<TimedMessage> messages) {
  constexpr double kMaxRate = 1e12;
  double bytes = 0, seconds = 0;
  for (const TimedMessage &message : messages) {
    bytes += message.bytes / double(messages.size());
    seconds += message.seconds / double(messages.size());
  }
  double both = 0, square = 0;
  for (const TimedMessage &message : messages) {
    both += (message.bytes - bytes) * (message.seconds - seconds);
    square += (message.bytes - bytes) * (message.bytes - bytes);
  }
  const double secondsPerByte = both / square;
  const TimedMessage &least = messages.front();
  return {std::max(least.seconds - least.bytes * secondsPerByte, 0.0),
          1 / std::max(secondsPerByte, 1 / kMaxRate)};
}

double rounded(double number) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.4g", number);
  return std::strtod(text, nullptr);
}

} // namespace cleave
