//===- JsonFile.h - JSON from anyone ----------------------------*- C++ -*-===//
#ifndef CLEAVE_PARTITIONER_MACHINE_JSONFILE_H
#define CLEAVE_PARTITIONER_MACHINE_JSONFILE_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/JSON.h"
#include <cstdint>
#include <string>
#include <vector>

namespace cleave {

/// What a file should be, and how large it may get.
struct JsonFileKind {
  /// For messages: `machine file`.
  const char *name;
  uint64_t mostBytes;
  /// LLVM's tree has 4 KiB for each that is not empty.
  uint64_t mostObjects;
};

/// Parses a regular file that nests no deeper than our formats do; the error begins with `path`.
llvm::Expected<llvm::json::Value> readJsonFile(llvm::StringRef path, const JsonFileKind &kind);
/// The same of text that `path` is said to have, or a message.
llvm::Expected<llvm::json::Value> readJsonText(llvm::StringRef text, llvm::StringRef path,
                                               const JsonFileKind &kind);

/// The keys of the object that `text` is, in the order of the text. readJsonText has accepted it.
std::vector<std::string> keysInOrder(llvm::StringRef text);

/// A value, or its absence, for a message: as JSON, so that control characters are escaped; long ones are
/// only described.
std::string describeJson(const llvm::json::Value *value);

/// The keys of `object` are `required` and perhaps some of `optional`.
llvm::Error checkKeys(const llvm::json::Object &object, llvm::StringRef where,
                      llvm::ArrayRef<llvm::StringRef> required,
                      llvm::ArrayRef<llvm::StringRef> optional = {});

} // namespace cleave

#endif // CLEAVE_PARTITIONER_MACHINE_JSONFILE_H
