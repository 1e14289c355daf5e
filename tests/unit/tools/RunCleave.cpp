//===- RunCleave.cpp - The program as a shell would start it --------------===//
#include "tests/unit/tools/RunCleave.h"
#include "tests/unit/plan/PlanBuilder.h"
#include "llvm/Support/Program.h"

namespace cleave {

Outcome runCleave(std::vector<llvm::StringRef> arguments) {
  plan::TestFolder folder;
  std::string out = folder.at("out"), err = folder.at("err");
  arguments.insert(arguments.begin(), CLEAVE_PROGRAM);
  int status = llvm::sys::ExecuteAndWait(CLEAVE_PROGRAM, arguments, /*Env=*/std::nullopt, {"", out, err});
  return {status, plan::readFile(out), plan::readFile(err)};
}

} // namespace cleave
