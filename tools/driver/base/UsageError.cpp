//===- UsageError.cpp - Errors in the use of options ----------------------===//
#include "tools/driver/base/UsageError.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

namespace cleave {

char UsageError::ID = 0;

llvm::Error checkPatterns(llvm::StringRef option, llvm::ArrayRef<std::string> patterns) {
  for (llvm::StringRef pattern : patterns)
    if (pattern.empty() || !llvm::all_of(pattern, [](char c) {
          return llvm::isAlnum(c) || llvm::StringRef("_.-#/*?").contains(c);
        }))
      return wrongUsage(option + ": found \"" + pattern + "\", expected a name with * and ?");
  return llvm::Error::success();
}

} // namespace cleave
