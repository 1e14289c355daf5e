//===- Precision.h - How exactly devices compute ----------------*- C++ -*-===//
#ifndef CLEAVE_RUNTIME_SESSION_PRECISION_H
#define CLEAVE_RUNTIME_SESSION_PRECISION_H

#include "runtime/device/Device.h"
#include "runtime/session/Session.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"

namespace cleave::runtime {

/// Tells libtorch whether GPUs may use TF32, where there is one among `devices`, those of this process. Fails
/// on options of which one takes another's meaning away, in all processes alike.
llvm::Error setPrecision(const SessionOptions &options, llvm::ArrayRef<ResolvedDevice> devices);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_SESSION_PRECISION_H
