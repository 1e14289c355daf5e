//===- InsertReshards.cpp - Reshards where shardings differ ---------------===//
#include "ir/ParkedObserves.h"
#include "ir/autograd/LossAttributes.h"
#include "partitioner/sharding/Sharding.h"
#include "passes/Passes.h"
#include "passes/TensorShardings.h"

using namespace mlir;

namespace cleave {

#define GEN_PASS_DEF_INSERTRESHARDS
#include "passes/Passes.h.inc"

namespace {
/// Gives every operation its operands in the shardings that it needs.
class Resolver {
public:
  explicit Resolver(func::FuncOp function)
      : function(function), block(function.getBody().front()), analyzed(function) {
    for (auto param : block.getOps<ParamOp>())
      weights.try_emplace(param.getName(), param);
    for (const AnalyzedCall &call : analyzed.getCalls())
      calls[call.op] = &call;
  }

  void run() {
    for (Operation &op : llvm::make_early_inc_range(block))
      if (auto known = calls.find(&op); known != calls.end())
        visitCall(*known->second);
      else if (auto boundary = dyn_cast<BoundaryOp>(op))
        visitBoundary(boundary);
      else if (isa<func::ReturnOp>(op))
        visitReturn(&op);
      else if (!isa<ObserveOp>(op) && !isLookedThrough(&op))
        requireWhole(&op);
  }

private:
  static bool takesItems(Operation *op) { return isa<UnpackOp>(op) || isItemAccess(op); }

  /// True if operators see the items of the aggregate separately.
  static bool isLookedThrough(Operation *op) {
    if (takesItems(op))
      return true;
    auto isCall = [&](Operation *user) {
      return user->getBlock() == op->getBlock() && isa<OperatorOp>(user) && !takesItems(user);
    };
    return isa<ListOp, TupleOp>(op) && (AnalyzedFunction::isTakenByItems(op->getResult(0)) ||
                                        (isa<ListOp>(op) && llvm::all_of(op->getUsers(), isCall)));
  }

  void visitCall(const AnalyzedCall &call) {
    SmallVector<ShardingAttr> operands, wanted;
    for (TensorRef tensor : call.operands)
      operands.push_back(shardingOf(tensor));
    for (TensorRef tensor : call.results)
      wanted.push_back(shardingOf(tensor));
    CallSharding split = callShardingOf(analyzed, call, operands, wanted);
    for (auto [use, has, needs] : llvm::zip(call.uses, operands, split.operands))
      if (has != needs)
        use->set(reshard(use->get(), needs));
    for (auto [tensor, sharding] : llvm::zip(call.results, split.results))
      setSharding(tensor, sharding);
  }

  /// What a boundary gives of a value that is split is put together when it is captured.
  void visitBoundary(BoundaryOp boundary) {
    if (shardingOf(AnalyzedFunction::tensorOf(boundary.getValue())))
      observeBoundary(boundary);
  }

  /// The caller takes results whole, but for gradients that are sharded as their weights.
  void visitReturn(Operation *op) {
    for (OpOperand &use : op->getOpOperands()) {
      auto as = function.getResultAttrOfType<StringAttr>(use.getOperandNumber(), kShardedAsAttr);
      const ShardingAttr needs = as ? shardingOf(TensorRef{weights.lookup(as.getValue())}) : ShardingAttr();
      if (isTensorLike(use.get().getType()) && shardingOf(AnalyzedFunction::tensorOf(use.get())) != needs)
        use.set(reshard(use.get(), needs));
    }
  }

  /// Requires whole operands: for control flow, states, results for the caller, and lists with other users.
  void requireWhole(Operation *op) {
    op->walk([&](Operation *inner) {
      for (OpOperand &use : inner->getOpOperands())
        if (use.get().getParentBlock() == &block && isTensorLike(use.get().getType()) &&
            shardingOf(AnalyzedFunction::tensorOf(use.get())))
          use.set(reshard(use.get(), {}));
    });
  }

  /// Makes one reshard for all users, next to the value.
  Value reshard(Value value, ShardingAttr sharding) {
    Value &known = made[{value, sharding}];
    if (!known) {
      OpBuilder b(value.getContext());
      setInsertionPointAfterObserved(b, value);
      auto op = b.create<ReshardOp>(value.getLoc(), value.getType(), value);
      setSharding({op.getResult()}, sharding);
      known = op;
    }
    return known;
  }

  func::FuncOp function;
  Block &block;
  AnalyzedFunction analyzed;
  llvm::StringMap<Value> weights;
  DenseMap<Operation *, const AnalyzedCall *> calls;
  DenseMap<std::pair<Value, Attribute>, Value> made;
};

struct InsertReshards : impl::InsertReshardsBase<InsertReshards> {
  void runOnOperation() override {
    func::FuncOp function = getOperation();
    if (failed(checkShardings(function)))
      return signalPassFailure();
    if (tensorParallelSizeOf(function) < 2)
      return;
    shareNoLists(function);
    Resolver(function).run();
  }

  /// Clones lists so that each operator has its own, since operators may need different shardings.
  static void shareNoLists(func::FuncOp function) {
    for (auto list : llvm::make_early_inc_range(function.getBody().front().getOps<ListOp>())) {
      bool holdsTensors = llvm::any_of(list.getElements().getTypes(), isTensorLike);
      while (holdsTensors && !list->use_empty() && !list->hasOneUse() && isMemoryEffectFree(list)) {
        OpBuilder b(list);
        list->getUses().begin()->set(b.clone(*list)->getResult(0));
      }
    }
  }
};
} // namespace

} // namespace cleave
