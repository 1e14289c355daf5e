//===- RunReport.cpp - Report of `cleave run` -----------------------------===//
#include "tools/cleave/run/RunReport.h"
#include "codegen/plan/PlanQueries.h"
#include "runtime/base/DTypes.h"
#include "tools/cleave/run/DeviceReport.h"
#include "tools/cleave/run/RankMessage.h"
#include "tools/cleave/text/TextTable.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

namespace cleave {

using llvm::Expected;
using llvm::json::Array;
using llvm::json::Object;
using llvm::json::Value;
using runtime::NamedTensor;

std::string RunReport::partOf(const Measurement &measurement, llvm::ArrayRef<NamedTensor> named) {
  Array outputs;
  for (const auto &[name, tensor] : named)
    outputs.push_back(Object{{"name", name},
                             {"dtype", plan::nameOf(runtime::dtypeOf(tensor.scalar_type()))},
                             {"shape", Array(tensor.sizes())}});
  return llvm::formatv("{0}", Value(Object{{"devices", cleave::toJson(measurement.devices)},
                                           {"outputs", std::move(outputs)}}));
}

Expected<RunReport> RunReport::merge(const plan::Plan &plan, const Measurement &own,
                                     llvm::ArrayRef<std::string> parts, int64_t microbatches) {
  RunReport report;
  report.secondsPerStep = own.secondsPerStep;
  report.secondsAlone = own.secondsAlone;
  double busyAlone = 0;
  for (auto [rank, words] : llvm::enumerate(parts)) {
    Expected<Value> part = parseMessage(words);
    auto devices = part ? devicesOf(*part) : std::nullopt;
    const auto outputs = part ? objectsOf(*part, "outputs") : std::nullopt;
    llvm::consumeError(part.takeError());
    if (!devices || !outputs)
      return llvm::createStringError("a message of rank %zu: found no report of devices and outputs", rank);
    for (MeasuredDevice &device : *devices) {
      busyAlone += device.busyAlone;
      const double idle = own.secondsPerStep * double(own.steps) - device.statistics.busySeconds;
      report.devices.push_back({std::move(device.statistics), idle});
    }
    for (const Object *output : *outputs) {
      std::vector<int64_t> sizes;
      const Array *shape = output->getArray("shape");
      for (size_t i = 0; shape && i < shape->size(); ++i)
        sizes.push_back((*shape)[i].getAsInteger().value_or(0));
      report.outputs.push_back({textOf(*output, "name"), textOf(*output, "dtype"), std::move(sizes)});
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
  for (const auto &[device, idleSeconds] : devices)
    deviceList.push_back(Object{{"name", device.name},
                                {"peak_bytes", device.peakBytes},
                                {"weight_bytes", device.weightBytes},
                                {"state_bytes_written", device.stateBytesWritten},
                                {"state_bytes_copied", device.stateBytesCopied},
                                {"busy_seconds", device.busySeconds},
                                {"idle_seconds", idleSeconds}});
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
  for (const auto &[device, idleSeconds] : devices)
    table.add({device.name, megabytes(device.peakBytes), megabytes(device.weightBytes),
               llvm::formatv("{0:f2}", device.busySeconds * 1e3),
               llvm::formatv("{0:f2}", idleSeconds * 1e3)});
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
