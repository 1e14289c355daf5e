//===- JsonText.h - JSON text for people ------------------------*- C++ -*-===//
#ifndef CLEAVE_CODEGEN_PLAN_TEXT_JSONTEXT_H
#define CLEAVE_CODEGEN_PLAN_TEXT_JSONTEXT_H

#include "llvm/Support/JSON.h"
#include <string>

namespace cleave::plan {

/// The number with the fewest digits, 15 to 17, that read back as the same number: `0.9`, where LLVM's JSON
/// writes 0.90000000000000002.
/// \param number  finite.
std::string numberText(double number);

/// JSON text with the members of objects sorted by key, and numbers written by numberText. Control characters
/// that terminals obey are escaped as `\uNNNN` (printableJson).
/// \param indent  spaces per level; 0 for one line.
std::string jsonText(const llvm::json::Value &value, unsigned indent);

} // namespace cleave::plan

#endif // CLEAVE_CODEGEN_PLAN_TEXT_JSONTEXT_H
