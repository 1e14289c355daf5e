//===- MachineTables.h - Rates from JSON, and back --------------*- C++ -*-===//
//
// Private to MachineFile.cpp: readers of objects and of tables in a machine file.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_PARTITIONER_MACHINE_MACHINETABLES_H
#define CLEAVE_PARTITIONER_MACHINE_MACHINETABLES_H

#include "codegen/plan/text/JsonText.h"
#include "partitioner/machine/JsonFile.h"
#include "partitioner/machine/Machine.h"
#include "partitioner/machine/MakeError.h"
#include "llvm/ADT/ArrayRef.h"

namespace cleave {

/// A number in an object and the member of `Struct` that holds it. The ranges keep products and quotients of
/// the figures finite.
template <typename Struct> struct NumberKey {
  const char *key;
  double least, most;
  double Struct::*member;
};

inline constexpr double kMaxRate = 1e21;
inline constexpr double kMaxSeconds = 1000;

/// `value` as an object; the error says what it should be.
llvm::Expected<const llvm::json::Object *> asObject(const llvm::json::Value &value, llvm::StringRef where,
                                                    llvm::StringRef what);

/// Reads a name that is fit for messages and files.
llvm::Expected<std::string> readName(const llvm::json::Value *value, const llvm::Twine &where);
/// Reads an integer from `least` to `most`.
llvm::Expected<uint32_t> readCount(const llvm::json::Value &value, const llvm::Twine &where, uint32_t least,
                                   uint32_t most);

/// Calls `read` for each of `names` that is a key of `value`, in the order of `names`. Fails on other keys.
/// \param what  for messages: what `value` should be an object with.
/// \param read  gets the name's index, its path in messages, and its value.
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
      return makeError("{0}.{1}: found {2}, expected a number from {3} to {4}", where, key.key,
                       describeJson(value), plan::numberText(key.least), plan::numberText(key.most));
    result.*key.member = *number;
  }
  return llvm::Error::success();
}

/// Keys of a table of rates: its axes and its rate.
struct TableKeys {
  llvm::ArrayRef<llvm::StringRef> axes;
  llvm::StringRef rate;
};
/// Keys of a table of bytes per second by bytes.
extern const TableKeys kByBytes;

/// Reads the table whose keys are in `object`.
llvm::Expected<RateTable> readTable(const llvm::json::Object &object, llvm::StringRef where,
                                    const TableKeys &keys);
void writeTable(llvm::json::Object &object, const RateTable &table, const TableKeys &keys);

/// Keys of a device's tables; each may be left out.
extern const llvm::ArrayRef<llvm::StringRef> kRateKeys;
/// Reads the tables whose keys are in `object`; null if there are none.
/// \param where  prefix of a key's name in messages.
llvm::Expected<std::shared_ptr<const KernelRates>> readRates(const llvm::json::Object &object,
                                                             llvm::StringRef where);
void writeRates(llvm::json::Object &object, const KernelRates &rates);

} // namespace cleave

#endif // CLEAVE_PARTITIONER_MACHINE_MACHINETABLES_H
