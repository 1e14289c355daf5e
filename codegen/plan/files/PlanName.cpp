//===- PlanName.cpp - Names of a plan's files -----------------------------===//
#include "codegen/plan/files/PlanName.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"

namespace cleave::plan {

using llvm::StringRef;

std::string shardFileName(uint32_t rank) {
  std::string name;
  llvm::raw_string_ostream(name) << llvm::format("rank-%03u.safetensors", rank);
  return name;
}

bool isPlanFileName(StringRef name) {
  if (name == kPlanFileName)
    return true;
  return name.consume_front("rank-") && name.consume_back(".safetensors") && name.size() >= 3 &&
         llvm::all_of(name, llvm::isDigit);
}

bool beginsLikePlan(StringRef path) {
  auto beginning = llvm::MemoryBuffer::getFileSlice(path, sizeof(kPlanMagic), /*Offset=*/0);
  return beginning && llvm::equal((*beginning)->getBuffer().bytes(), kPlanMagic);
}

} // namespace cleave::plan
