//===- Precision.cpp - TF32 on GPUs ---------------------------------------===//
#include "runtime/session/Precision.h"
#include "llvm/ADT/STLExtras.h"
#include <ATen/Context.h>
#include <ATen/Operators.h>
#include <ATen/autocast_mode.h>
#include <torch/library.h>

// Traced models have `_convolution` in place of `conv2d` and its like. libtorch's autocast supports it on
// GPUs but not on CPUs.
TORCH_LIBRARY_IMPL(aten, AutocastCPU, m) { KERNEL_CPU(_convolution, lower_precision_fp) }

namespace cleave::runtime {

llvm::Error setPrecision(const SessionOptions &options, llvm::ArrayRef<ResolvedDevice> devices) {
  if (options.autocast && options.checkTypes)
    return llvm::createStringError(
        "autocast gives values other types than the plan predicts; leave --autocast or --check-types away");
  if (llvm::none_of(options.devices, isGpu) && (options.tf32 || options.cudaGraphs))
    return llvm::createStringError(llvm::Twine(options.tf32 ? "--tf32" : "--cuda-graphs") +
                                   " is of GPUs, and no device is one; name one (--devices cuda:0), or leave "
                                   "it away");
  if (llvm::any_of(devices, [](const ResolvedDevice &device) { return device.plugin; })) {
    at::globalContext().setAllowTF32CuBLAS(options.tf32);
    // libtorch allows it by default.
    at::globalContext().setAllowTF32CuDNN(options.tf32);
  }
  return llvm::Error::success();
}

} // namespace cleave::runtime
