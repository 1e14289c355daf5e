//===- Rolling.h - An oracle for what splitting entails ---------*- C++ -*-===//
//
// A sharding group (partitioner/sharding/ShardingPropagation) is right if its parts can change places:
// when the labels of all its tensors are rolled by some, so that positions with label l hold what those with
// label l + k held, every operator that takes the sharding group as it is gives what it gave, with its labels
// rolled likewise. Each operator is held to that alone, on the values of one plain run, from which it follows
// for the function, and failures have a name. Operators that need the sharding group whole are not asked:
// their operands are gathered.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_TESTS_ROLLING_ROLLING_H
#define CLEAVE_TESTS_ROLLING_ROLLING_H

#include "partitioner/sharding/ShardingPropagation.h"
#include "tests/unit/interpreter/Interpreter.h"
#include <ATen/core/Tensor.h>

namespace cleave {

struct RollingReport {
  /// Sharding groups of two labels or more, those of them that were rolled, and calls that were run on rolled
  /// operands.
  size_t groups = 0, rolled = 0, calls = 0;
  /// Calls by operator.
  std::map<std::string, size_t> operators;
  /// Why sharding groups were not rolled, or calls not run, and how often.
  std::map<std::string, size_t> kept;
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
  /// What the call is run on.
  using Given = llvm::DenseMap<mlir::OpOperand *, at::Tensor>;
  /// What a call does with the sharding group: one factor, or its positions.
  struct Way {
    std::optional<unsigned> factor;
    /// Of the factor.
    Labels labels;
  };

  void rollFrom(TensorRef tensor, const std::string &name);
  bool findOrder(int32_t step);
  std::optional<at::Tensor> indexOf(const Labels &labels) const;
  const LabelledDim *labelledDimOf(TensorRef tensor) const;
  bool isIndexMapped(const AnalyzedCall &call, TensorRef tensor) const;
  std::vector<unsigned> rolledOperands(const AnalyzedCall &call) const;
  std::vector<Way> waysOf(const AnalyzedCall &call, llvm::ArrayRef<unsigned> rolled) const;
  Labels spread(const AnalyzedCall &call, const Way &way, llvm::ArrayRef<unsigned> dim) const;
  at::Tensor rollOperand(const AnalyzedCall &call, const Way &way, unsigned operand) const;
  std::optional<Labels> labelsOfResult(const AnalyzedCall &call, const Way &way, unsigned result,
                                       unsigned dim) const;
  at::Tensor rollResult(const AnalyzedCall &call, const Way &way, unsigned result, const at::Tensor &value,
                        const Given &given) const;
  at::Tensor rollBy(const at::Tensor &tensor, unsigned dim, const Labels &labels) const;
  std::string wrongIn(const AnalyzedCall &call, const Way &way) const;
  void check(const AnalyzedCall &call);
  void run(const AnalyzedCall &call, const Way &way);
  void compare(const AnalyzedCall &call, const Way &way, const Given &given,
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
