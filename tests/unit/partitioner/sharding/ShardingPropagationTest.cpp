// Runs random functions operation by operation on the parts that a class gives to each rank, and compares
// with the whole.
#include "partitioner/sharding/ShardingPropagation.h"
#include "ir/IValueConversion.h"
#include "ir/semantics/Shapes.h"
#include "tests/unit/partitioner/ParseModule.h"
#include "tests/unit/partitioner/RandomFunction.h"
#include <ATen/ATen.h>
#include <gtest/gtest.h>

using namespace mlir;

namespace cleave {
namespace {

/// Of each position of a dimension.
using Labels = std::vector<int32_t>;

/// A function with all that its values hold.
class WholeRun {
public:
  explicit WholeRun(func::FuncOp function) : shapes(function) {
    for (Operation &op : function.getBody().front().without_terminator())
      run(op);
  }
  at::Tensor tensorOf(Value value) const { return values.lookup(value).toTensor(); }
  c10::IValue valueOf(Value value) const { return values.lookup(value); }

  ExampleShapes shapes;

private:
  void run(Operation &op) {
    if (auto param = dyn_cast<ParamOp>(op)) {
      auto shape = cast<RankedTensorType>(param.getType()).getShape();
      values[param] = at::randint(-3, 4, at::IntArrayRef(shape.data(), shape.size()), at::kLong);
    } else if (auto constant = dyn_cast<ConstantOp>(op)) {
      values[constant] = toIValue(constant.getValue(), constant.getType());
    } else if (auto list = dyn_cast<ListOp>(op)) {
      std::vector<at::Tensor> items;
      for (Value element : list.getElements())
        items.push_back(tensorOf(element));
      values[list] = items;
    } else if (auto unpack = dyn_cast<UnpackOp>(op)) {
      std::vector<at::Tensor> items = values[unpack->getOperand(0)].toTensorVector();
      for (auto [result, item] : llvm::zip(unpack->getResults(), items))
        values[result] = item;
    } else {
      torch::jit::Stack stack;
      for (Value operand : op.getOperands())
        stack.push_back(values[operand]);
      findOperator(op.getName().getStringRef())->getOperation()(stack);
      values[op.getResult(0)] = stack[0];
    }
  }
  llvm::DenseMap<Value, c10::IValue> values;
};

/// One class, with its labels dealt out to ranks.
class SplitRun {
public:
  SplitRun(const WholeRun &whole, const ShardingGroup &split, Dice &dice, unsigned ranks)
      : whole(whole), split(split), ranks(ranks) {
    for (int32_t label = 0; label < split.count; ++label)
      rankOf.push_back(dice.below(ranks));
  }

  void check(OperatorOp op);
  void checkReturn(func::ReturnOp op) {
    for (OpOperand &use : op->getOpOperands())
      EXPECT_EQ(labelledDimOf(use.get()) != nullptr, llvm::is_contained(split.outputs, &use));
  }

private:
  struct Operand {
    OpOperand *use;
    /// Null where it is not split, or gathered.
    const LabelledDim *labelledDim;
  };

  const LabelledDim *labelledDimOf(TensorRef tensor) const {
    auto found = split.tensors.find(tensor);
    return found == split.tensors.end() ? nullptr : &found->second;
  }
  const LabelledDim *labelledDimOf(Value value) const {
    return labelledDimOf(AnalyzedFunction::tensorOf(value));
  }

  at::Tensor part(const at::Tensor &tensor, unsigned dim, const Labels &labels, unsigned rank) const {
    EXPECT_EQ(int64_t(labels.size()), tensor.size(dim));
    std::vector<int64_t> kept;
    for (auto [position, label] : llvm::enumerate(labels))
      if (label == LabelledDim::kReplicated || rankOf[label] == rank)
        kept.push_back(position);
    return tensor.index_select(dim, at::tensor(kept, at::kLong));
  }

  std::vector<Operand> operandsOf(OperatorOp op) const;
  std::optional<Labels> factorLabels(const OpShardingRule &rule, ArrayRef<Operand> operands,
                                     unsigned factor) const;
  void checkPositions(OperatorOp op, const IndexMap &rule, ArrayRef<Operand> operands);
  void checkFactor(OperatorOp op, const OpShardingRule &rule, ArrayRef<Operand> operands);
  void checkSplitResult(Operation *op, unsigned item, unsigned dim, const Labels &labels) const;
  std::vector<at::Tensor> run(OperatorOp op, ArrayRef<at::Tensor> operands, ArrayRef<int64_t> sizes) const;
  std::vector<at::Tensor> wholeResults(OperatorOp op) const {
    c10::IValue value = whole.valueOf(op->getResult(0));
    return value.isTensor() ? std::vector<at::Tensor>{value.toTensor()} : value.toTensorVector();
  }

  const WholeRun &whole;
  const ShardingGroup &split;
  unsigned ranks;
  std::vector<unsigned> rankOf;
};

/// Tensor operands alone; they stand first in all operators that the functions have.
std::vector<SplitRun::Operand> SplitRun::operandsOf(OperatorOp op) const {
  std::vector<Operand> operands;
  auto add = [&](OpOperand &use) {
    bool isWhole = llvm::is_contained(split.gathers, &use);
    operands.push_back({&use, isWhole ? nullptr : labelledDimOf(use.get())});
  };
  for (OpOperand &use : op->getOpOperands())
    if (auto list = use.get().getDefiningOp<ListOp>())
      llvm::for_each(list->getOpOperands(), add);
    else if (isTensorLike(use.get().getType()))
      add(use);
  return operands;
}

/// Runs the operator on other tensors, with other sizes where it takes some.
std::vector<at::Tensor> SplitRun::run(OperatorOp op, ArrayRef<at::Tensor> operands,
                                      ArrayRef<int64_t> sizes) const {
  torch::jit::Stack stack;
  for (auto [argument, operand] : llvm::zip(op.getSchema().arguments, op->getOperands()))
    if (isTensorLike(operand.getType())) {
      stack.push_back(operands.front());
      operands = operands.drop_front();
    } else if (operand.getDefiningOp<ListOp>()) {
      stack.push_back(operands.vec());
      operands = {};
    } else if (argument.name == "shape" || argument.name == "split_sizes") {
      stack.push_back(sizes.vec());
    } else {
      stack.push_back(whole.valueOf(operand));
    }
  findOperator(op.getName())->getOperation()(stack);
  return stack[0].isTensor() ? std::vector<at::Tensor>{stack[0].toTensor()} : stack[0].toTensorVector();
}

/// What the operator makes split along `dim` is split so in the class, or said to be moved.
void SplitRun::checkSplitResult(Operation *op, unsigned item, unsigned dim, const Labels &labels) const {
  if (llvm::all_of(labels, [](int32_t label) { return label == LabelledDim::kReplicated; }))
    return;
  auto *own = labelledDimOf(TensorRef{op->getResult(0), item});
  bool isSame = own && own->dim == dim && own->labels == labels;
  bool isUnused = llvm::none_of(op->getResult(0).getUsers(), [&](Operation *user) {
    return !isa<UnpackOp>(user) || !user->getResult(item).use_empty();
  });
  EXPECT_TRUE(isSame || isUnused || llvm::is_contained(split.reshards, op->getResult(0)))
      << "result " << item;
}

/// The labels of a factor's positions, where every split operand is split along it.
std::optional<Labels> SplitRun::factorLabels(const OpShardingRule &rule, ArrayRef<Operand> operands,
                                             unsigned factor) const {
  Labels labels(rule.factors[factor].size, -2);
  for (auto [i, operand] : llvm::enumerate(operands)) {
    if (!operand.labelledDim)
      continue;
    const OpShardingRule::Dim &dim = rule.operands[i][operand.labelledDim->dim];
    if (!llvm::is_contained(dim, factor))
      return std::nullopt;
    int64_t stride = 1;
    for (unsigned inner : llvm::reverse(dim)) {
      if (inner == factor)
        break;
      stride *= rule.factors[inner].size;
    }
    for (auto [position, label] : llvm::enumerate(operand.labelledDim->labels)) {
      int32_t &known = labels[position / stride % labels.size()];
      if (known != -2 && known != label)
        return std::nullopt;
      known = label;
    }
  }
  return labels;
}

/// The dimension that a factor is part of, and the labels of its positions.
std::optional<std::pair<unsigned, Labels>> spread(const OpShardingRule &rule,
                                                  ArrayRef<OpShardingRule::Dim> dims, unsigned factor,
                                                  const Labels &labels) {
  for (auto [d, dim] : llvm::enumerate(dims)) {
    if (!llvm::is_contained(dim, factor))
      continue;
    int64_t size = 1, stride = 1;
    for (unsigned part : llvm::reverse(dim)) {
      stride = part == factor ? size : stride;
      size *= rule.factors[part].size;
    }
    Labels result;
    for (int64_t position = 0; position < size; ++position)
      result.push_back(labels[position / stride % labels.size()]);
    return std::pair<unsigned, Labels>(d, result);
  }
  return std::nullopt;
}

void SplitRun::checkFactor(OperatorOp op, const OpShardingRule &rule, ArrayRef<Operand> operands) {
  std::optional<Labels> labels;
  unsigned factor = 0;
  auto isWanted = [&](unsigned candidate, const Labels &known) {
    auto result = spread(rule, rule.results[0], candidate, known);
    auto *own = labelledDimOf(TensorRef{op->getResult(0)});
    return result && own && own->dim == result->first && own->labels == result->second;
  };
  // Where one label has all positions, several factors fit: the one that the class splits the result by.
  for (unsigned candidate = 0; candidate < rule.factors.size(); ++candidate)
    if (auto known = factorLabels(rule, operands, candidate);
        known && (!labels || isWanted(candidate, *known))) {
      labels = known;
      factor = candidate;
    }
  ASSERT_TRUE(labels.has_value()) << "the split operands have no factor in common";
  std::vector<at::Tensor> wanted = wholeResults(op), sums;
  auto result = spread(rule, rule.results[0], factor, *labels);
  bool isSum = llvm::is_contained(split.partialSums, op->getResult(0));
  for (unsigned rank = 0; rank < ranks; ++rank) {
    std::vector<at::Tensor> local;
    for (auto [i, operand] : llvm::enumerate(operands)) {
      auto own = spread(rule, rule.operands[i], factor, *labels);
      at::Tensor tensor = whole.tensorOf(operand.use->get());
      local.push_back(own ? part(tensor, own->first, own->second, rank) : tensor);
      if (rank > 0 && llvm::is_contained(split.addOnce, operand.use))
        local.back() = at::zeros_like(local.back());
    }
    at::Tensor first = result ? part(wanted[0], result->first, result->second, rank) : wanted[0];
    // Pieces have the same sizes along the dimension that is cut.
    SmallVector<int64_t> sizes = llvm::to_vector(ArrayRef(first.sizes().data(), first.dim()));
    std::vector<at::Tensor> found = run(op, local, constantInts(op, "split_sizes").value_or(sizes));
    for (auto [i, tensor] : llvm::enumerate(found)) {
      if (isSum) {
        sums.push_back(tensor);
        continue;
      }
      EXPECT_TRUE(
          at::equal(tensor, result ? part(wanted[i], result->first, result->second, rank) : wanted[i]));
    }
  }
  if (isSum) {
    EXPECT_TRUE(at::equal(at::stack(sums).sum(0), wanted[0]));
  }
  for (unsigned item = 0; result && item < wanted.size(); ++item)
    checkSplitResult(op, item, result->first, result->second);
}

void SplitRun::checkPositions(OperatorOp op, const IndexMap &rule, ArrayRef<Operand> operands) {
  std::vector<at::Tensor> wanted = wholeResults(op);
  std::vector<Labels> results, from;
  for (const Operand &operand : operands)
    from.push_back(operand.labelledDim
                       ? operand.labelledDim->labels
                       : Labels(whole.tensorOf(operand.use->get()).size(rule.dim), LabelledDim::kReplicated));
  for (unsigned item = 0; item < wanted.size(); ++item) {
    auto *own = labelledDimOf(TensorRef{op->getResult(0), item});
    Labels &labels = results.emplace_back();
    for (auto [position, source] : llvm::enumerate(rule.results[item])) {
      // What was gathered is cut as the result is.
      int32_t &label = from[source.operand][source.position];
      if (!operands[source.operand].labelledDim && own && own->dim == rule.dim)
        label = own->labels[position];
      labels.push_back(label);
    }
  }
  for (unsigned rank = 0; rank < ranks; ++rank) {
    std::vector<at::Tensor> local;
    for (auto [operand, labels] : llvm::zip(operands, from))
      local.push_back(part(whole.tensorOf(operand.use->get()), rule.dim, labels, rank));
    SmallVector<int64_t> sizes;
    for (auto [tensor, labels] : llvm::zip(wanted, results))
      sizes.push_back(part(tensor, rule.dim, labels, rank).size(rule.dim));
    std::vector<at::Tensor> found = run(op, local, sizes);
    for (unsigned item = 0; item < wanted.size(); ++item)
      EXPECT_TRUE(at::equal(found[item], part(wanted[item], rule.dim, results[item], rank)))
          << "item " << item;
  }
  for (unsigned item = 0; item < wanted.size(); ++item)
    checkSplitResult(op, item, rule.dim, results[item]);
}

void SplitRun::check(OperatorOp op) {
  std::vector<Operand> operands = operandsOf(op);
  if (llvm::none_of(operands, [](const Operand &operand) { return operand.labelledDim; }))
    return;
  auto rule = opShardingRuleOf(op, whole.shapes);
  auto positions = indexMapOf(op, whole.shapes);
  auto isAlong = [&](const Operand &operand) {
    return operand.labelledDim && positions && operand.labelledDim->dim == positions->dim;
  };
  if (!llvm::any_of(operands, isAlong)) {
    ASSERT_TRUE(rule.has_value());
    return checkFactor(op, *rule, operands);
  }
  for (const Operand &operand : operands)
    ASSERT_TRUE(!operand.labelledDim || isAlong(operand)) << "a split operand that is not gathered";
  checkPositions(op, *positions, operands);
}

TEST(ShardingPropagationTest, OwesAllThatRandomFunctionsNeed) {
  size_t sums = 0, added = 0, gathers = 0, reshards = 0, outputs = 0, free = 0;
  for (uint32_t seed = 0; seed < 2500; ++seed) {
    Dice dice(seed);
    at::manual_seed(seed);
    std::string text = RandomFunction(dice, 2 + seed % 12).text();
    SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + text);
    auto module = parseModule(text);
    ASSERT_TRUE(module);
    auto function = *module->getOps<func::FuncOp>().begin();
    WholeRun whole(function);
    AnalyzedFunction analyzed(function);
    for (auto param : function.getOps<ParamOp>())
      for (unsigned dim = 0; dim < cast<RankedTensorType>(param.getType()).getRank(); ++dim) {
        SCOPED_TRACE((param.getName() + " dim " + Twine(dim)).str());
        ShardingGroup split = analyzed.propagate({param}, dim);
        SplitRun run(whole, split, dice, 2 + dice.below(2));
        for (auto op : function.getOps<OperatorOp>()) {
          SCOPED_TRACE(op.getName().str());
          ASSERT_NO_THROW(run.check(op));
        }
        run.checkReturn(*function.getOps<func::ReturnOp>().begin());
        ASSERT_FALSE(HasFailure());
        sums += split.partialSums.size(), added += split.addOnce.size(), gathers += split.gathers.size();
        reshards += split.reshards.size(), outputs += split.outputs.size();
        free +=
            split.count > 1 && split.tensors.size() > 2 && split.gathers.empty() && split.reshards.empty();
      }
  }
  // Not by gathering everything.
  for (size_t seen : {sums, added, gathers, outputs, free})
    EXPECT_GT(seen, 50u);
  EXPECT_GT(reshards, 10u);
}

} // namespace
} // namespace cleave
