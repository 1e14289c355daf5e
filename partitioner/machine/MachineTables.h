//===- MachineTables.h - Rates from JSON, and back --------------*- C++ -*-===//
//
// Private to MachineFile.cpp: what it needs to read objects, and the tables among them.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_PARTITIONER_MACHINE_MACHINETABLES_H
#define CLEAVE_PARTITIONER_MACHINE_MACHINETABLES_H

#include "codegen/plan/JsonText.h"
#include "partitioner/machine/Failure.h"
#include "partitioner/machine/JsonFile.h"
#include "partitioner/machine/Machine.h"
#include "llvm/ADT/ArrayRef.h"

namespace cleave {

/// A key of an object that becomes a member of a `Struct`. The ranges leave room for products and quotients
/// of the figures to stay finite.
template <typename Struct> struct NumberKey {
  const char *key;
  double least, most;
  double Struct::*member;
};

inline constexpr double kMostRate = 1e21;
inline constexpr double kMostSeconds = 1000;

/// The object of a key, or an error that says what it should be.
llvm::Expected<const llvm::json::Object *> asObject(const llvm::json::Value &value, llvm::StringRef where,
                                                    llvm::StringRef what);

/// Calls `read` for each of `names` that is among the keys of `value`, in their order, with its place there
/// and in messages, and its value. There may be no other keys.
/// \param what  that `value` should be an object with.
llvm::Error readByName(
    const llvm::json::Value &value, llvm::StringRef where, llvm::StringRef what,
    llvm::ArrayRef<llvm::StringLiteral> names,
    llvm::function_ref<llvm::Error(size_t index, const std::string &here, const llvm::json::Value &found)>
        read);

template <typename Struct, size_t N>
llvm::Error readNumbers(const llvm::json::Object &object, llvm::StringRef where,
                        const NumberKey<Struct> (&keys)[N], Struct &result) {
  for (const NumberKey<Struct> &key : keys) {
    const llvm::json::Value *value = object.get(key.key);
    const std::optional<double> number = value->getAsNumber();
    // Written so that NaN fails.
    if (!number || !(*number >= key.least && *number <= key.most))
      return failure("{0}.{1}: found {2}, expected a number from {3} to {4}", where, key.key,
                     describeJson(value), plan::numberText(key.least), plan::numberText(key.most));
    result.*key.member = *number;
  }
  return llvm::Error::success();
}

/// What a table of rates is called, and its axes.
struct TableKeys {
  llvm::ArrayRef<llvm::StringRef> axes;
  llvm::StringRef rate;
};
/// A table of bytes a second by bytes.
extern const TableKeys kByBytes;

/// A table among the keys of `object`.
llvm::Expected<RateTable> readTable(const llvm::json::Object &object, llvm::StringRef where,
                                    const TableKeys &keys);
void writeTable(llvm::json::Object &object, const RateTable &table, const TableKeys &keys);

/// The keys of a device's tables, each of which may be left out.
extern const llvm::ArrayRef<llvm::StringRef> kRateKeys;
/// The tables among the keys of `object`; null where there are none.
/// \param where  what a key's name is put behind, in messages.
llvm::Expected<std::shared_ptr<const KernelRates>> readRates(const llvm::json::Object &object,
                                                             llvm::StringRef where);
void writeRates(llvm::json::Object &object, const KernelRates &rates);

} // namespace cleave

#endif // CLEAVE_PARTITIONER_MACHINE_MACHINETABLES_H
