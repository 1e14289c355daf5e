//===- Precision.h - TF32 on GPUs -------------------------------*- C++ -*-===//
#ifndef CLEAVE_RUNTIME_SESSION_PRECISION_H
#define CLEAVE_RUNTIME_SESSION_PRECISION_H

#include "runtime/device/DeviceWorker.h"
#include "runtime/session/Session.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"

namespace cleave::runtime {

/// Tells libtorch whether GPUs may use TF32, if there is one among `devices`, those of this process. Fails on
/// contradicting options, in all processes alike.
llvm::Error setPrecision(const SessionOptions &options, llvm::ArrayRef<ResolvedDevice> devices);

} // namespace cleave::runtime

#endif // CLEAVE_RUNTIME_SESSION_PRECISION_H
