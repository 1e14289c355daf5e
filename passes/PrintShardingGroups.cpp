//===- PrintShardingGroups.cpp - Prints sharding groups -------------------===//
#include "partitioner/sharding/ShardingPropagation.h"
#include "passes/Passes.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace cleave {

#define GEN_PASS_DEF_PRINTSHARDINGGROUPS
#include "passes/Passes.h.inc"

namespace {
struct PrintShardingGroups : impl::PrintShardingGroupsBase<PrintShardingGroups> {
  // A pass on the module, so that functions are printed in order.
  void runOnOperation() override {
    for (auto function : getOperation().getOps<func::FuncOp>())
      print(function);
    markAllAnalysesPreserved();
  }

  static void print(func::FuncOp function) {
    AnalyzedFunction analyzed(function);
    llvm::DenseSet<std::pair<Value, unsigned>> seen;
    for (auto param : function.getBody().getOps<ParamOp>()) {
      auto type = dyn_cast<RankedTensorType>(param.getType());
      for (unsigned dim = 0; type && dim < type.getRank(); ++dim) {
        if (type.getDimSize(dim) < 2 || seen.contains({param, dim}))
          continue;
        ShardingGroup found = analyzed.propagate({param}, dim);
        for (auto &[tensor, labelled] : found.tensors)
          seen.insert({tensor.value, labelled.dim});
        print(param, dim, found);
      }
    }
  }

  /// The ranges of indices that the first of two ranks has.
  static std::string firstHalf(const LabelledDim &labelled, const ShardingGroup &found) {
    std::string text;
    size_t begin = 0, size = labelled.labels.size();
    auto hasLabel = [&](int32_t label) { return label < found.count / 2; };
    auto isFirst = [&](size_t i) { return i < size && found.isOnRank(labelled.labels[i], hasLabel); };
    for (size_t i = 0; i <= size; ++i) {
      if (isFirst(i) && (i == 0 || !isFirst(i - 1)))
        begin = i;
      if (!isFirst(i) && i > 0 && isFirst(i - 1))
        text += " " + std::to_string(begin) + ":" + std::to_string(i);
    }
    return text;
  }

  static void print(StringRef what, OpOperand &use) {
    llvm::outs() << "  " << what << " operand " << use.getOperandNumber() << " of "
                 << use.getOwner()->getName() << " at " << modulePath(use.getOwner()) << "\n";
  }

  static void print(ParamOp seed, unsigned dim, const ShardingGroup &found) {
    llvm::outs() << "sharding group of " << seed.getName() << " dim " << dim << ": " << found.count
                 << " parts, " << found.tensors.size() << " tensors, " << found.partialSums.size()
                 << " all-reduces, " << found.gathers.size() << " all-gathers, " << found.reshards.size()
                 << " reshards, " << found.outputs.size() << " outputs\n";
    for (auto &[tensor, labelled] : found.tensors)
      if (auto param = tensor.value.getDefiningOp<ParamOp>())
        llvm::outs() << "  weight " << param.getName() << " dim " << labelled.dim << ", first half"
                     << firstHalf(labelled, found) << "\n";
    for (OpResult sum : found.partialSums)
      llvm::outs() << "  all-reduce " << sum.getOwner()->getName() << " at " << modulePath(sum.getOwner())
                   << "\n";
    for (OpOperand *use : found.addOnce)
      print("add once", *use);
    for (OpOperand *use : found.gathers)
      print("gather", *use);
    for (OpResult result : found.reshards)
      llvm::outs() << "  reshard result " << result.getResultNumber() << " of "
                   << result.getOwner()->getName() << " at " << modulePath(result.getOwner()) << "\n";
    for (OpOperand *use : found.outputs)
      llvm::outs() << "  output " << use->getOperandNumber() << "\n";
  }
};
} // namespace

} // namespace cleave
