//===- Exceptions.cpp -----------------------------------------------------===//
#include "runtime/Exceptions.h"
#include "llvm/ADT/StringRef.h"
#include <c10/util/Exception.h>

namespace cleave::runtime {

std::string messageOf(const std::exception &exception) {
  const auto *ofTorch = dynamic_cast<const c10::Error *>(&exception);
  return llvm::StringRef(ofTorch ? ofTorch->what_without_backtrace() : exception.what()).trim().str();
}

} // namespace cleave::runtime
