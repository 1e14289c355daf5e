//===- Rolling.h - Checks sharding groups by permuting them -----*- C++ -*-===//
//
// A sharding group (partitioner/sharding/ShardingPropagation) is right if its labels can be permuted: when in
// every tensor of the group the data of the labels are permuted alike, every operator that is sharded by the
// group must return its former results, permuted alike. Labels are rotated by k among those with equally many
// positions in each tensor. Each operator is checked separately, on operands of one unpermuted run; if all
// pass, so does the function, and a failure names the operator. Operators for which the group is gathered are
// skipped.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_TESTS_ROLLING_ROLLING_H
#define CLEAVE_TESTS_ROLLING_ROLLING_H

#include "partitioner/sharding/ShardingPropagation.h"
#include "tests/unit/interpreter/Interpreter.h"
#include <ATen/core/Tensor.h>

namespace cleave {

struct RollingReport {
  /// Sharding groups with two or more labels, those of them that were rolled, and calls that were run on
  /// rolled operands.
  size_t groups = 0, rolled = 0, calls = 0;
  /// Calls by operator.
  std::map<std::string, size_t> operators;
  /// Why sharding groups were not rolled, or calls not run, and how often.
  std::map<std::string, size_t> skipped;
  std::vector<std::string> failures;
};

class Rolling {
public:
  /// \param values  a run of the function.
  Rolling(mlir::func::FuncOp function, const Interpreter &values)
      : function(function), analyzed(function), values(values) {}

  /// Rolls the sharding group of every dimension of every weight and input, by one and by half.
  RollingReport run();
  /// Rolls one sharding group. \param name  what failures call it.
  void roll(const ShardingGroup &group, const std::string &name);

  const AnalyzedFunction &getAnalyzedFunction() const { return analyzed; }
  const RollingReport &getReport() const { return report; }

private:
  using Labels = std::vector<int32_t>;
  /// Permuted operands of a call.
  using Given = llvm::DenseMap<mlir::OpOperand *, at::Tensor>;
  /// How the labels run through a call: along one factor of its sharding rule; no factor: through its index
  /// map.
  struct LabelledFactor {
    std::optional<unsigned> factor;
    /// By position of the factor.
    Labels labels;
  };

  void rollFrom(TensorRef tensor, const std::string &name);
  bool findOrder(int32_t step);
  std::optional<at::Tensor> indexOf(const Labels &labels) const;
  const LabelledDim *labelledDimOf(TensorRef tensor) const;
  bool isIndexMapped(const AnalyzedCall &call, TensorRef tensor) const;
  std::vector<unsigned> rolledOperands(const AnalyzedCall &call) const;
  std::vector<LabelledFactor> factorsOf(const AnalyzedCall &call, llvm::ArrayRef<unsigned> rolled) const;
  Labels spread(const AnalyzedCall &call, const LabelledFactor &labelled, llvm::ArrayRef<unsigned> dim) const;
  at::Tensor rollOperand(const AnalyzedCall &call, const LabelledFactor &labelled, unsigned operand) const;
  std::optional<Labels> labelsOfResult(const AnalyzedCall &call, const LabelledFactor &labelled,
                                       unsigned result, unsigned dim) const;
  at::Tensor rollResult(const AnalyzedCall &call, const LabelledFactor &labelled, unsigned result,
                        const at::Tensor &value, const Given &given) const;
  at::Tensor rollBy(const at::Tensor &tensor, unsigned dim, const Labels &labels) const;
  std::string wrongIn(const AnalyzedCall &call, const LabelledFactor &labelled) const;
  void check(const AnalyzedCall &call);
  void run(const AnalyzedCall &call, const LabelledFactor &labelled);
  void compare(const AnalyzedCall &call, const LabelledFactor &labelled, const Given &given,
               llvm::ArrayRef<c10::IValue> results);
  void fail(const AnalyzedCall &call, const std::string &what);

  mlir::func::FuncOp function;
  const AnalyzedFunction analyzed;
  const Interpreter &values;
  RollingReport report;
  llvm::DenseSet<std::pair<mlir::Value, unsigned>> seen;
  /// The sharding group that is being rolled, what it is called, and which label's data each label takes.
  const ShardingGroup *group = nullptr;
  std::string name;
  Labels order;
};

} // namespace cleave

#endif // CLEAVE_TESTS_ROLLING_ROLLING_H
