//===- CallBuilder.h - Calls of a backward rule as operations ---*- C++ -*-===//
//
// Private to ir/autograd/.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_IR_AUTOGRAD_CALLBUILDER_H
#define CLEAVE_IR_AUTOGRAD_CALLBUILDER_H

#include "ir/autograd/BackwardRules.h"
#include "mlir/IR/Builders.h"
#include <optional>

namespace cleave {

/// A tensor: a value, or item `item` of a value that is a list or tuple.
struct TensorRef {
  mlir::Value value;
  std::optional<unsigned> item;
};

/// Items of a list or tuple.
c10::ArrayRef<c10::IValue> itemsOf(const c10::IValue &aggregate);

/// True for a tensor that may have a gradient: of floating-point or complex numbers.
bool isDifferentiable(const c10::IValue &value);

/// Builds operations and runs each at all samples, so that the types of what it gives are known.
class CallBuilder {
public:
  explicit CallBuilder(Samples &samples, mlir::MLIRContext *context) : samples(samples), b(context) {}

  mlir::OpBuilder &opBuilder() { return b; }
  /// The value in the run at the example sizes; null if it depends on data.
  const c10::IValue *exampleOf(mlir::Value value) const;
  /// The tensor as a value, which must have an example. Unpacks the list or tuple that has it.
  mlir::Value materialize(TensorRef tensor);
  void setLocation(mlir::Location now) { location = now; }

  mlir::Value constant(mlir::Type type, mlir::Attribute value);
  /// A call with one result, a tensor.
  mlir::Value call(llvm::StringRef irName, mlir::ValueRange operands);
  /// The elements of a tuple, or of a list of tensors.
  mlir::ValueRange unpack(mlir::Value aggregate, unsigned length);
  mlir::Value sum(mlir::Value left, mlir::Value right);
  /// A 0-d tensor that holds 1.
  mlir::Value one(at::ScalarType dtype);
  mlir::Value list(mlir::Type element, mlir::ValueRange items);

  /// Builds calls [first, last) of the rule. `valueOf` gives operands, results and gradients of the
  /// operation; `made` has the tensors of the calls built so far.
  void build(const BackwardRule &rule, size_t first, size_t last,
             llvm::function_ref<mlir::Value(RuleTensor)> valueOf,
             std::vector<llvm::SmallVector<mlir::Value>> &made);

  /// Runs an operation at all samples.
  template <typename Op> Op run(Op op) {
    for (MetaInterpreter &each : samples.runs)
      each.run(op);
    return op;
  }

private:
  using ValueOf = llvm::function_ref<mlir::Value(RuleTensor)>;
  mlir::Value number(const RuleOperand &operand, ValueOf valueOf);
  mlir::Value size(const RuleSize &size, ValueOf valueOf);
  /// Zeros, one for each channel (dimension 1) of the tensor.
  mlir::Value zerosOfChannels(mlir::Value tensor);
  mlir::Value asTensor(mlir::Value number, at::ScalarType dtype);
  void build(const RuleCall &call, llvm::function_ref<mlir::Value(RuleTensor)> valueOf,
             llvm::SmallVector<mlir::Value> &results);

  Samples &samples;
  mlir::OpBuilder b;
  mlir::Location location = b.getUnknownLoc();
};

} // namespace cleave

#endif // CLEAVE_IR_AUTOGRAD_CALLBUILDER_H
