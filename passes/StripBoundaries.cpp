//===- StripBoundaries.cpp - Boundaries nobody captures to observes -------===//
#include "codegen/plan/PlanQueries.h"
#include "ir/ParkedObserves.h"
#include "ir/autograd/Differentiate.h"
#include "passes/NamePatterns.h"
#include "passes/Passes.h"
#include <map>

using namespace mlir;

namespace cleave {

#define GEN_PASS_DEF_STRIPBOUNDARIES
#include "passes/Passes.h.inc"

namespace {
/// Makes an observe of each boundary of the function's own block that is not kept.
class Observer {
public:
  explicit Observer(func::FuncOp function) : block(function.getBody().front()) {}

  void run(llvm::function_ref<bool(BoundaryOp)> isKept) {
    block.getParentOp()->walk([&](BoundaryOp boundary) {
      if (isKept(boundary))
        return;
      stripped.insert(boundary);
      if (boundary->getBlock() == &block && isTensorLike(boundary.getType()))
        found.push_back(boundary);
    });
    // Before any is replaced, since what users read tells which of them an edit reaches.
    SmallVector<bool> isReadOnly;
    for (BoundaryOp boundary : found)
      isReadOnly.push_back(reachesOthers(boundary));
    for (auto [boundary, readOnly] : llvm::zip(found, isReadOnly))
      observe(boundary, readOnly);
  }

private:
  Value originOf(Value value) const {
    while (auto boundary = value.getDefiningOp<BoundaryOp>()) {
      if (!stripped.contains(boundary))
        break;
      value = boundary.getValue();
    }
    return value;
  }

  /// True if `value`, or what stripped boundaries make of it, but for those of `except`, is read after
  /// `after`.
  bool isReadAfter(Value value, Operation *after, BoundaryOp except) const {
    return llvm::any_of(value.getUsers(), [&](Operation *user) {
      auto boundary = dyn_cast<BoundaryOp>(user);
      if (boundary && stripped.contains(user))
        // A sibling's capture would have the edit.
        return boundary != except && (isReadAfter(boundary, after, except) ||
                                      (!isAncestor(boundary, except) && isAfter(user, after)));
      return isAfter(user, after);
    });
  }

  bool isAfter(Operation *user, Operation *after) const {
    Operation *here = block.findAncestorOpInBlock(*user);
    return !here || after->isBeforeInBlock(here);
  }

  static bool isAncestor(BoundaryOp one, BoundaryOp of) {
    while (of && of != one)
      of = of.getValue().getDefiningOp<BoundaryOp>();
    return of == one;
  }

  /// True if a new value of the boundary's operand would reach others than the boundary's users.
  bool reachesOthers(BoundaryOp boundary) const {
    return boundary.getReadOnly() || isReadAfter(originOf(boundary.getValue()), boundary, boundary);
  }

  void observe(BoundaryOp boundary, bool readOnly) {
    const Value value = originOf(boundary.getValue());
    Operation *maker = value.getDefiningOp();
    // Inputs and weights are no results of modules.
    if (!maker || isa<ParamOp>(maker) || maker->hasTrait<OpTrait::ConstantLike>())
      return;
    OpBuilder b(boundary);
    auto op = b.create<ObserveOp>(boundary.getLoc(), value, withoutCalls(boundary.getPath()),
                                  boundary.getIndex(), boundary.getCall());
    op.setReadOnly(readOnly);
  }

  Block &block;
  SmallVector<BoundaryOp> found;
  llvm::SmallPtrSet<Operation *, 16> stripped;
};

/// Numbers the calls of each module.
static void numberCalls(func::FuncOp function) {
  std::map<std::pair<std::string, uint64_t>, uint64_t> calls;
  function.walk([&](BoundaryOp boundary) {
    boundary.setCall(calls[{withoutCalls(boundary.getPath()), boundary.getIndex()}]++);
  });
}

struct StripBoundaries : impl::StripBoundariesBase<StripBoundaries> {
  using StripBoundariesBase::StripBoundariesBase;

  void runOnOperation() override {
    auto patterns = NamePatterns::parse(getOperation(), keep);
    if (failed(patterns))
      return signalPassFailure();
    numberCalls(getOperation());
    // A path names all calls of its modules.
    auto isKept = [&](BoundaryOp boundary) {
      return patterns->match(boundary.getPath()) || patterns->match(withoutCalls(boundary.getPath()));
    };
    // First, since values that become one are then seen to.
    if (!keepGradientStops)
      removeGradientStops(getOperation());
    if (!observe)
      eraseObserves(getOperation());
    else
      Observer(getOperation()).run(isKept);
    getOperation().walk([&](BoundaryOp boundary) {
      if (isKept(boundary))
        return;
      boundary.replaceAllUsesWith(boundary.getValue());
      boundary.erase();
    });
  }
};
} // namespace

} // namespace cleave
