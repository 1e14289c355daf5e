//===- MetaKernels.h - Families of kernels for the meta device --*- C++ -*-===//
//
// Private to ir/inference/. MetaKernels.cpp has the kernels of operators for which libtorch has none on the
// meta device; families with a file of their own are declared here.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_IR_INFERENCE_METAKERNELS_H
#define CLEAVE_IR_INFERENCE_METAKERNELS_H

namespace torch {
class Library;
}

namespace cleave {

void registerRecurrent(torch::Library &aten);

} // namespace cleave

#endif // CLEAVE_IR_INFERENCE_METAKERNELS_H
