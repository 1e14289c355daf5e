//===- UsageError.cpp - Errors in the use of options ----------------------===//
#include "tools/driver/base/UsageError.h"

namespace cleave {

char UsageError::ID = 0;

} // namespace cleave
