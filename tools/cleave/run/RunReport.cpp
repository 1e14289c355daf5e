//===- RunReport.cpp - Report of `cleave run` -----------------------------===//
#include "tools/cleave/run/RunReport.h"
#include "codegen/plan/PlanQueries.h"
#include "codegen/plan/text/Printable.h"
#include "runtime/base/DTypes.h"
#include "tools/cleave/run/RankMessage.h"
#include "tools/cleave/text/TextTable.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <cmath>

namespace cleave {

using llvm::Expected;
using llvm::json::Array;
using llvm::json::Object;
using llvm::json::Value;
using runtime::DeviceStatistics;
using runtime::NamedTensor;

std::string RunReport::partOf(const Measurement &measurement, llvm::ArrayRef<NamedTensor> named) {
  Array devices, outputs;
  for (const MeasuredDevice &device : measurement.devices)
    devices.push_back(Object{{"name", device.statistics.name},
                             {"peak_bytes", device.statistics.peakBytes},
                             {"weight_bytes", device.statistics.weightBytes},
                             {"state_bytes_written", device.statistics.stateBytesWritten},
                             {"state_bytes_copied", device.statistics.stateBytesCopied},
                             {"busy_seconds", device.statistics.busySeconds},
                             {"busy_alone", device.busyAlone}});
  for (const auto &[name, tensor] : named)
    outputs.push_back(Object{{"name", name},
                             {"dtype", plan::nameOf(runtime::dtypeOf(tensor.scalar_type()))},
                             {"shape", Array(tensor.sizes())}});
  return llvm::formatv("{0}",
                       Value(Object{{"devices", std::move(devices)}, {"outputs", std::move(outputs)}}));
}

static int64_t integer(const Object &object, llvm::StringRef key) {
  return object.getInteger(key).value_or(0);
}
static double real(const Object &object, llvm::StringRef key) {
  const double number = object.getNumber(key).value_or(0);
  return std::isfinite(number) ? number : 0;
}
static std::string text(const Object &object, llvm::StringRef key) {
  return plan::printable(object.getString(key).value_or(""));
}

/// The objects of the array under `key`; nothing if there is no array of objects.
static std::optional<std::vector<const Object *>> objects(const Value &part, llvm::StringRef key) {
  const Object *object = part.getAsObject();
  const Array *array = object ? object->getArray(key) : nullptr;
  std::vector<const Object *> found;
  for (size_t i = 0; array && i < array->size(); ++i)
    if (const Object *item = (*array)[i].getAsObject())
      found.push_back(item);
  return array && found.size() == array->size() ? std::optional(found) : std::nullopt;
}

Expected<RunReport> RunReport::merge(const plan::Plan &plan, const Measurement &own,
                                     llvm::ArrayRef<std::string> parts, int64_t microbatches) {
  RunReport report;
  report.secondsPerStep = own.secondsPerStep;
  report.secondsAlone = own.secondsAlone;
  double busyAlone = 0;
  for (auto [rank, words] : llvm::enumerate(parts)) {
    Expected<Value> part = parseMessage(words);
    const auto devices = part ? objects(*part, "devices") : std::nullopt;
    const auto outputs = part ? objects(*part, "outputs") : std::nullopt;
    llvm::consumeError(part.takeError());
    if (!devices || !outputs)
      return llvm::createStringError("a message of rank %zu: found no report of devices and outputs", rank);
    for (const Object *device : *devices) {
      const double busy = real(*device, "busy_seconds");
      report.devices.push_back({text(*device, "name"), integer(*device, "peak_bytes"),
                                integer(*device, "weight_bytes"), integer(*device, "state_bytes_written"),
                                integer(*device, "state_bytes_copied"), busy,
                                own.secondsPerStep * double(own.steps) - busy});
      busyAlone += real(*device, "busy_alone");
    }
    for (const Object *output : *outputs) {
      std::vector<int64_t> sizes;
      const Array *shape = output->getArray("shape");
      for (size_t i = 0; shape && i < shape->size(); ++i)
        sizes.push_back((*shape)[i].getAsInteger().value_or(0));
      report.outputs.push_back({text(*output, "name"), text(*output, "dtype"), std::move(sizes)});
    }
  }
  if (report.devices.size() > 1) {
    report.bubble = 1 - busyAlone / (own.secondsAlone * double(report.devices.size()));
    report.bubbleByFormula = cleave::bubbleByFormula(plan, microbatches);
  }
  return report;
}

Object RunReport::toJson() const {
  Array deviceList, outputList;
  for (const Device &device : devices)
    deviceList.push_back(Object{{"name", device.name},
                                {"peak_bytes", device.peakBytes},
                                {"weight_bytes", device.weightBytes},
                                {"state_bytes_written", device.stateBytesWritten},
                                {"state_bytes_copied", device.stateBytesCopied},
                                {"busy_seconds", device.busySeconds},
                                {"idle_seconds", device.idleSeconds}});
  for (const Output &output : outputs)
    outputList.push_back(
        Object{{"name", output.name}, {"dtype", output.dtype}, {"shape", Array(output.sizes)}});
  Object result{{"seconds", secondsPerStep},
                {"seconds_alone", secondsAlone},
                {"devices", std::move(deviceList)},
                {"outputs", std::move(outputList)}};
  if (bubble)
    result["bubble"] = Object{{"measured", *bubble}, {"formula", *bubbleByFormula}};
  return result;
}

static std::string megabytes(int64_t bytes) { return llvm::formatv("{0:f2}", double(bytes) / 1e6); }

void RunReport::printText(llvm::raw_ostream &out) const {
  out << llvm::formatv("{0:f2} ms a step\n", secondsPerStep * 1e3);
  if (bubble)
    out << llvm::formatv("{0:f2} ms for one step by itself; bubble {1:f1} %, {2:f1} % by formula\n",
                         secondsAlone * 1e3, *bubble * 100, *bubbleByFormula * 100);
  out << "\n";
  TextTable table({Align::Left, Align::Right, Align::Right, Align::Right, Align::Right});
  table.add({"device", "peak MB", "weights MB", "busy ms", "idle ms"});
  for (const Device &device : devices)
    table.add({device.name, megabytes(device.peakBytes), megabytes(device.weightBytes),
               llvm::formatv("{0:f2}", device.busySeconds * 1e3),
               llvm::formatv("{0:f2}", device.idleSeconds * 1e3)});
  table.print(out);
  out << "\n";
  TextTable types({Align::Left, Align::Left});
  types.add({"output", "type"});
  for (const Output &output : outputs) {
    auto sizes = llvm::map_range(output.sizes, [](int64_t size) { return std::to_string(size); });
    types.add({output.name, output.dtype + "[" + llvm::join(sizes, ", ") + "]"});
  }
  types.print(out);
}

} // namespace cleave
