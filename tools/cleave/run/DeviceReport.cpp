//===- DeviceReport.cpp - Measured devices of all processes ---------------===//
#include "tools/cleave/run/DeviceReport.h"
#include "codegen/plan/text/Printable.h"
#include <cmath>

namespace cleave {

using llvm::json::Array;
using llvm::json::Object;
using llvm::json::Value;

int64_t integerOf(const Object &object, llvm::StringRef key) { return object.getInteger(key).value_or(0); }

double numberOf(const Object &object, llvm::StringRef key) {
  const double number = object.getNumber(key).value_or(0);
  return std::isfinite(number) ? number : 0;
}

std::string textOf(const Object &object, llvm::StringRef key) {
  return plan::printable(object.getString(key).value_or(""));
}

std::optional<std::vector<const Object *>> objectsOf(const Value &message, llvm::StringRef key) {
  const Object *object = message.getAsObject();
  const Array *array = object ? object->getArray(key) : nullptr;
  std::vector<const Object *> found;
  for (size_t i = 0; array && i < array->size(); ++i)
    if (const Object *item = (*array)[i].getAsObject())
      found.push_back(item);
  return array && found.size() == array->size() ? std::optional(found) : std::nullopt;
}

Array toJson(llvm::ArrayRef<MeasuredDevice> devices) {
  Array list;
  for (const auto &[statistics, busyAlone] : devices)
    list.push_back(Object{{"name", statistics.name},
                          {"peak_bytes", statistics.peakBytes},
                          {"weight_bytes", statistics.weightBytes},
                          {"state_bytes_written", statistics.stateBytesWritten},
                          {"state_bytes_copied", statistics.stateBytesCopied},
                          {"busy_seconds", statistics.busySeconds},
                          {"busy_alone", busyAlone}});
  return list;
}

std::optional<std::vector<MeasuredDevice>> devicesOf(const Value &message) {
  const auto objects = objectsOf(message, "devices");
  if (!objects)
    return std::nullopt;
  std::vector<MeasuredDevice> devices;
  for (const Object *object : *objects) {
    MeasuredDevice &device = devices.emplace_back();
    device.statistics.name = textOf(*object, "name");
    device.statistics.peakBytes = integerOf(*object, "peak_bytes");
    device.statistics.weightBytes = integerOf(*object, "weight_bytes");
    device.statistics.stateBytesWritten = integerOf(*object, "state_bytes_written");
    device.statistics.stateBytesCopied = integerOf(*object, "state_bytes_copied");
    device.statistics.busySeconds = numberOf(*object, "busy_seconds");
    device.busyAlone = numberOf(*object, "busy_alone");
  }
  return devices;
}

} // namespace cleave
