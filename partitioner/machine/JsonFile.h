//===- JsonFile.h - Untrusted JSON files ------------------------*- C++ -*-===//
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

/// A file format: its name and limits.
struct JsonFileKind {
  /// Name in messages: `machine file`.
  const char *name;
  uint64_t mostBytes;
  /// Limit of objects that are not empty; LLVM's tree takes 4 KiB for each.
  uint64_t mostObjects;
};

/// Reads and parses a regular file. Fails on nesting deeper than our formats have; messages begin with
/// `path`.
llvm::Expected<llvm::json::Value> readJsonFile(llvm::StringRef path, const JsonFileKind &kind);
/// Parses text like a file's.
/// \param source  begins every message: a path, or text such as `--shard-file FILE`.
llvm::Expected<llvm::json::Value> readJsonText(llvm::StringRef text, llvm::StringRef source,
                                               const JsonFileKind &kind);

/// The keys of the JSON object `text` in their order. readJsonText must accept it.
std::vector<std::string> keysInOrder(llvm::StringRef text);

/// Text of a value, or of its absence, for a message. It is JSON, so control characters are escaped; long
/// values are only described.
std::string describeJson(const llvm::json::Value *value);

/// Fails unless the keys of `object` are all of `required` and any of `optional`.
llvm::Error checkKeys(const llvm::json::Object &object, llvm::StringRef where,
                      llvm::ArrayRef<llvm::StringRef> required,
                      llvm::ArrayRef<llvm::StringRef> optional = {});

} // namespace cleave

#endif // CLEAVE_PARTITIONER_MACHINE_JSONFILE_H
