//===- ModelInputs.h - Example inputs of a model ----------------*- C++ -*-===//
#ifndef CLEAVE_FRONTEND_TORCHSCRIPT_MODELINPUTS_H
#define CLEAVE_FRONTEND_TORCHSCRIPT_MODELINPUTS_H

#include <c10/core/ScalarType.h>
#include <cstdint>
#include <string>
#include <vector>

namespace cleave {

/// Example inputs of one signature by path: the argument's name, then the items of tuples, lists and dicts
/// after dots (`past.0.key`).
struct ModelInputs {
  struct Tensor {
    std::string name;
    at::ScalarType dtype;
    std::vector<int64_t> shape;
    /// By dimension: name of a dynamic dimension (`--dynamic ids=batch,seq`), or empty for a static one. An
    /// empty vector: all dimensions are static.
    std::vector<std::string> dims;
    /// Meaning (tokens, attention_mask, positions, labels); empty if the user did not say.
    std::string role;
  };
  /// A scalar fixed at compile time: `--input sr=16000`.
  struct Scalar {
    std::string name, text;
  };
  std::vector<Tensor> tensors;
  std::vector<Scalar> scalars;
  /// The batch dimension that was made dynamic for micro-batches because the user named none; empty if there
  /// is none.
  std::string autoDynamic;
  /// Name of the signature, which is the function's.
  std::string signature = "forward";
  /// How often it is requested, relative to the other signatures.
  double frequency = 1;
};

} // namespace cleave

#endif // CLEAVE_FRONTEND_TORCHSCRIPT_MODELINPUTS_H
