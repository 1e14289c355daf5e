//===- ModelInputs.h - What a user says of a model's inputs -----*- C++ -*-===//
#ifndef CLEAVE_FRONTEND_TORCHSCRIPT_MODELINPUTS_H
#define CLEAVE_FRONTEND_TORCHSCRIPT_MODELINPUTS_H

#include <ATen/core/Tensor.h>
#include <cstdint>
#include <string>
#include <vector>

namespace cleave {

/// Example inputs by path: the argument's name, items of tuples, lists and dicts behind dots (`past.0.key`).
struct ModelInputs {
  struct Tensor {
    std::string name;
    at::ScalarType dtype;
    std::vector<int64_t> shape;
    /// Names of dynamic dimensions (`--dynamic ids=batch,seq`); empty: all static; an empty entry: that one
    /// is.
    std::vector<std::string> dims;
    /// What it means (tokens, attention_mask, positions, labels); empty where nobody said.
    std::string role;
  };
  /// A scalar fixed at compile time: `--input sr=16000`.
  struct Scalar {
    std::string name, text;
  };
  std::vector<Tensor> tensors;
  std::vector<Scalar> scalars;
  /// The dimension that micro-batches need open and that no user named; empty: none.
  std::string opened;
};

} // namespace cleave

#endif // CLEAVE_FRONTEND_TORCHSCRIPT_MODELINPUTS_H
