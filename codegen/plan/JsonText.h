//===- JsonText.h - JSON that people read -----------------------*- C++ -*-===//
#ifndef CLEAVE_CODEGEN_PLAN_JSONTEXT_H
#define CLEAVE_CODEGEN_PLAN_JSONTEXT_H

#include "llvm/Support/JSON.h"
#include <string>

namespace cleave::plan {

/// With as many digits of 15 to 17 as it takes to read the number again: `0.9`, where LLVM's JSON has
/// 0.90000000000000002.
/// \param number  finite.
std::string numberText(double number);

/// JSON text with the members of objects sorted by key. Numbers are written by numberText. Characters that a
/// terminal would obey are escaped as `\uNNNN` (printableJson).
/// \param indent  spaces a level; 0: one line.
std::string jsonText(const llvm::json::Value &value, unsigned indent);

} // namespace cleave::plan

#endif // CLEAVE_CODEGEN_PLAN_JSONTEXT_H
