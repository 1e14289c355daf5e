//===- DeviceReport.h - Measured devices of all processes -------*- C++ -*-===//
#ifndef CLEAVE_TOOLS_CLEAVE_RUN_DEVICEREPORT_H
#define CLEAVE_TOOLS_CLEAVE_RUN_DEVICEREPORT_H

#include "tools/cleave/run/RunMeasurement.h"
#include "llvm/Support/JSON.h"
#include <optional>

namespace cleave {

/// Integer `key` of a message of another rank; 0 if there is none.
int64_t integerOf(const llvm::json::Object &object, llvm::StringRef key);
/// Number `key`; 0 if there is none that is finite.
double numberOf(const llvm::json::Object &object, llvm::StringRef key);
/// Text `key`, fit to be printed; empty if there is none.
std::string textOf(const llvm::json::Object &object, llvm::StringRef key);
/// The objects of the array `key`; nothing if `message` has no array of objects there.
std::optional<std::vector<const llvm::json::Object *>> objectsOf(const llvm::json::Value &message,
                                                                 llvm::StringRef key);

/// Devices of this process, for another one.
llvm::json::Array toJson(llvm::ArrayRef<MeasuredDevice> devices);
/// Devices of another rank, from its untrusted message; nothing if it has no list `devices`. Only the numbers
/// that toJson writes are set.
std::optional<std::vector<MeasuredDevice>> devicesOf(const llvm::json::Value &message);

} // namespace cleave

#endif // CLEAVE_TOOLS_CLEAVE_RUN_DEVICEREPORT_H
