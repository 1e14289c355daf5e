//===- TrainReport.cpp - Report of `cleave train` -------------------------===//
#include "tools/cleave/train/TrainReport.h"
#include "tools/cleave/run/DeviceReport.h"
#include "tools/cleave/run/RankMessage.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <cmath>

namespace cleave {

using llvm::Error;
using llvm::json::Array;
using llvm::json::Object;
using llvm::json::Value;
using runtime::StepResult;

Error TrainReport::gatherDevices(runtime::Session &session) {
  std::vector<MeasuredDevice> own;
  for (runtime::DeviceStatistics &statistics : session.statistics())
    own.push_back({std::move(statistics)});
  auto parts = session.gather(llvm::formatv("{0}", Value(Object{{"devices", cleave::toJson(own)}})).str(),
                              /*root=*/0);
  if (!parts)
    return parts.takeError();
  for (auto [rank, text] : llvm::enumerate(*parts)) {
    llvm::Expected<Value> part = parseMessage(text);
    auto found = part ? devicesOf(*part) : std::nullopt;
    llvm::consumeError(part.takeError());
    if (!found)
      return llvm::createStringError("a message of rank %zu: found no report of devices", rank);
    llvm::append_range(devices, std::move(*found));
  }
  return Error::success();
}

/// JSON has no numbers that are not finite.
static Value number(double value) { return std::isfinite(value) ? Value(value) : Value(nullptr); }

Object TrainReport::toJson(const TrainingData &data) const {
  Array losses, norms, rates, skipped, deviceList;
  for (const StepResult &step : steps) {
    losses.push_back(number(step.loss));
    norms.push_back(number(step.gradientNorm));
    rates.push_back(number(step.learningRate));
    if (step.isSkipped)
      skipped.push_back(int64_t(step.number));
  }
  for (const auto &[device, busyAlone] : devices)
    deviceList.push_back(Object{{"name", device.name},
                                {"weight_bytes", device.weightBytes},
                                {"peak_bytes", device.peakBytes},
                                {"busy_seconds", device.busySeconds}});
  const double count = std::max<size_t>(steps.size(), 1);
  const double unitsPerSecond = steps.empty() ? 0 : data.unitsPerBatch() * count / std::max(seconds, 1e-9);
  return Object{{"steps", int64_t(completedSteps)},    {"losses", std::move(losses)},
                {"gradient_norms", std::move(norms)},  {"learning_rates", std::move(rates)},
                {"skipped_steps", std::move(skipped)}, {"seconds", seconds / count},
                {"step_seconds", Array(stepSeconds)},  {(data.unit() + "_per_second").str(), unitsPerSecond},
                {"devices", std::move(deviceList)}};
}

void TrainReport::printText(llvm::raw_ostream &out, const TrainingData &data) const {
  if (steps.empty()) {
    out << "nothing to do: the checkpoint is at step " << completedSteps << "\n";
    return;
  }
  const double count = steps.size();
  out << llvm::formatv("{0} steps: loss {1:f4} to {2:f4}, {3:f2} ms a step, {4:f0} {5}/s\n", steps.size(),
                       steps.front().loss, steps.back().loss, seconds / count * 1e3,
                       data.unitsPerBatch() * count / std::max(seconds, 1e-9), data.unit());
  if (const size_t skipped = llvm::count_if(steps, [](const StepResult &step) { return step.isSkipped; }))
    out << skipped << " steps were skipped, as their loss or gradients were not finite\n";
  for (const auto &[device, busyAlone] : devices)
    out << llvm::formatv("{0}: weights {1:f2} MB, peak {2:f2} MB\n", device.name, device.weightBytes / 1e6,
                         device.peakBytes / 1e6);
}

} // namespace cleave
