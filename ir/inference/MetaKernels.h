//===- MetaKernels.h - Families of kernels for the meta device --*- C++ -*-===//
//
// Private to ir/inference/.
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
