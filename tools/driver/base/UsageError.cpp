//===- UsageError.cpp - Options that nothing could make right -------------===//
#include "tools/driver/base/UsageError.h"

namespace cleave {

char UsageError::ID = 0;

} // namespace cleave
