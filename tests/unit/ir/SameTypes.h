//===- SameTypes.h - Kernels for the meta device and the CPU's --*- C++ -*-===//
#ifndef CLEAVE_TESTS_UNIT_IR_SAMETYPES_H
#define CLEAVE_TESTS_UNIT_IR_SAMETYPES_H

#include <ATen/ATen.h>
#include <ATen/core/ivalue.h>
#include <gmock/gmock.h>
#include <vector>

namespace cleave {

/// The same values in every layout that models pass on: row-major, transposed, a part of something larger,
/// one value for a whole dimension, channels last, heads split off.
std::vector<at::Tensor> layoutsOf(at::IntArrayRef shape, at::ScalarType dtype = at::kFloat);

/// Runs the operator on the CPU and on the meta device, where tensors, also those of lists, have no data.
void expectSameTypes(const char *name, const std::vector<c10::IValue> &operands);

} // namespace cleave

#endif // CLEAVE_TESTS_UNIT_IR_SAMETYPES_H
