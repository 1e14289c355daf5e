//===- Float64Program.h - TorchScript in float64 ----------------*- C++ -*-===//
#ifndef CLEAVE_TOOLS_DRIVER_VERIFY_FLOAT64PROGRAM_H
#define CLEAVE_TOOLS_DRIVER_VERIFY_FLOAT64PROGRAM_H

#include <memory>
#include <torch/csrc/jit/api/module.h>

namespace cleave {

/// A copy of the module's forward, calls inlined, in which constants of narrower floating-point types, and
/// arguments called `dtype` that ask for one, are float64. With weights and inputs in float64 it computes in
/// float64. The module is unchanged. Throws c10::Error if it has no forward.
std::shared_ptr<torch::jit::Graph> forwardInFloat64(const torch::jit::Module &module);

} // namespace cleave

#endif // CLEAVE_TOOLS_DRIVER_VERIFY_FLOAT64PROGRAM_H
