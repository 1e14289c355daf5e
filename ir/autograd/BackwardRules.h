//===- BackwardRules.h - The backward pass of one operation -----*- C++ -*-===//
//
// Private to ir/autograd/.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_IR_AUTOGRAD_BACKWARDRULES_H
#define CLEAVE_IR_AUTOGRAD_BACKWARDRULES_H

#include "ir/autograd/RecordBackward.h"
#include "ir/inference/Samples.h"
#include "llvm/Support/Error.h"
#include <map>

namespace cleave {

/// A tensor in a rule.
struct RuleTensor {
  enum class Source {
    Absent,   ///< none, or a gradient that is zero
    Operand,  ///< tensor `index` among the operands of the operation
    Result,   ///< tensor `index` among its results
    Gradient, ///< the gradient of result `index`
    Call      ///< tensor `index` among the results of call `call`
  };
  Source source = Source::Absent;
  unsigned index = 0, call = 0;
};

/// A size: an expression or, where there is none, the size of dimension `dim` of a tensor.
struct RuleSize {
  SymbolicDim expression;
  RuleTensor tensor;
  unsigned dim = 0;
};

/// An operand of a call.
struct RuleOperand {
  enum class Kind {
    Tensor,  ///< tensors[0]
    Tensors, ///< a list of tensors
    Size,    ///< sizes[0]
    Sizes,   ///< a list of integers
    Ratio,   ///< the float `constant` / sizes[0]
    Constant ///< `constant`
  };
  Kind kind = Kind::Constant;
  std::vector<RuleTensor> tensors;
  std::vector<RuleSize> sizes;
  c10::IValue constant;
  /// A number (Size, Ratio or Constant) is wanted as 0-d tensor of this dtype.
  std::optional<at::ScalarType> asTensor;
};

/// A call of an operator.
struct RuleCall {
  std::string irName;
  std::vector<RuleOperand> operands;
  /// Per result: its length if it is a list of tensors, nothing if it is a tensor.
  std::vector<std::optional<unsigned>> listLengths;
};

/// How to compute gradients of an operation's operands.
struct BackwardRule {
  /// The forward calls first. Without any, the operation stays, since gradients need only its operands and
  /// results. Otherwise they replace it.
  std::vector<RuleCall> calls;
  size_t numForwardCalls = 0;
  /// By tensor among the results: what replaces it; empty if the operation stays.
  std::vector<RuleTensor> results;
  /// By tensor among the operands: its gradient.
  std::vector<RuleTensor> gradInputs;
};

/// PyTorch has no derivative of the operator.
class MissingDerivative : public llvm::ErrorInfo<MissingDerivative, llvm::StringError> {
public:
  using ErrorInfo::ErrorInfo;
  static char ID;
};

/// Makes rules of recordings; a rule holds for all sizes of the dynamic dimensions. Equal calls, as those of
/// equal layers, are recorded once.
class BackwardRules {
public:
  explicit BackwardRules(Samples &samples) : samples(samples) {}

  /// \param gradients  by tensor among the results of `op`: its gradient, or null.
  /// \param needsInputGrad  by tensor among its operands.
  /// Fails with MissingDerivative, or if the formula depends on data or differs between sizes.
  llvm::Expected<const BackwardRule &> find(OperatorOp op, llvm::ArrayRef<mlir::Value> gradients,
                                            const std::vector<bool> &needsInputGrad);

private:
  llvm::Expected<BackwardRule> make(OperatorOp op, llvm::ArrayRef<mlir::Value> gradients,
                                    const std::vector<bool> &needsInputGrad);

  Samples &samples;
  std::map<std::string, BackwardRule> known;
};

} // namespace cleave

#endif // CLEAVE_IR_AUTOGRAD_BACKWARDRULES_H
