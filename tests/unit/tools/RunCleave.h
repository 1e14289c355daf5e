//===- RunCleave.h - The program as a shell would start it ------*- C++ -*-===//
#ifndef CLEAVE_TESTS_UNIT_TOOLS_RUNCLEAVE_H
#define CLEAVE_TESTS_UNIT_TOOLS_RUNCLEAVE_H

#include "llvm/ADT/StringRef.h"
#include <string>
#include <vector>

namespace cleave {

struct Outcome {
  int status;
  std::string out, err;
};

/// Runs `cleave` with these arguments to its end.
Outcome runCleave(std::vector<llvm::StringRef> arguments);

} // namespace cleave

#endif // CLEAVE_TESTS_UNIT_TOOLS_RUNCLEAVE_H
