//===- Precision.cpp - How exactly devices compute ------------------------===//
#include "runtime/Precision.h"
#include "llvm/ADT/STLExtras.h"
#include <ATen/Context.h>

namespace cleave::runtime {

llvm::Error setPrecision(const SessionOptions &options, llvm::ArrayRef<ResolvedDevice> devices) {
  if (options.autocast && options.checkTypes)
    return llvm::createStringError(
        "autocast gives values other types than the plan predicts; leave --autocast or --check-types away");
  const bool isOfGpus =
      llvm::any_of(options.devices, [](llvm::StringRef name) { return name.starts_with("cuda"); });
  if (!isOfGpus && (options.tf32 || options.cudaGraphs))
    return llvm::createStringError(llvm::Twine(options.tf32 ? "--tf32" : "--cuda-graphs") +
                                   " is of GPUs, and no device is one; name one (--devices cuda:0), or leave "
                                   "it away");
  if (llvm::any_of(devices, [](const ResolvedDevice &device) { return device.plugin; })) {
    at::globalContext().setAllowTF32CuBLAS(options.tf32);
    // Where libtorch allows it unless it is told not to.
    at::globalContext().setAllowTF32CuDNN(options.tf32);
  }
  return llvm::Error::success();
}

} // namespace cleave::runtime
