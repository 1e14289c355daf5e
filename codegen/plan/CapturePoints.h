//===- CapturePoints.h - Names of capture points ----------------*- C++ -*-===//
#ifndef CLEAVE_CODEGEN_PLAN_CAPTUREPOINTS_H
#define CLEAVE_CODEGEN_PLAN_CAPTUREPOINTS_H

#include "codegen/plan/Plan.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <cstdint>
#include <string>
#include <vector>

namespace cleave::plan {

/// A capture point of one signature: its index in Plan.capture_points, and its name there. The name is the
/// module path, `transformer.h.3.attn`; for its second call, `transformer.h.3.attn#2`. For all tensors that a
/// module returns but the first, their number follows: `transformer.h.3.attn[1]` is the second one.
struct NamedCapturePoint {
  uint32_t index;
  std::string name;
};

/// The capture points of a signature, in the order in which a request reaches them.
std::vector<NamedCapturePoint> capturePointsOf(const Plan &plan, uint32_t signature);

/// Those whose name one of the globs is or matches, in that order. Fails where a text is no glob, or
/// matches none; the message begins with `where`.
llvm::Expected<std::vector<NamedCapturePoint>> matchCapturePoints(const Plan &plan, uint32_t signature,
                                                                  llvm::ArrayRef<std::string> globs,
                                                                  llvm::StringRef where);

/// The one with this name. Fails as matchCapturePoints does.
llvm::Expected<NamedCapturePoint> capturePointNamed(const Plan &plan, uint32_t signature,
                                                    llvm::StringRef name, llvm::StringRef where);

} // namespace cleave::plan

#endif // CLEAVE_CODEGEN_PLAN_CAPTUREPOINTS_H
