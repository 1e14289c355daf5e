#include "tests/unit/interpreter/Interpreter.h"
#include "collectives/Collectives.h"
#include <ATen/ATen.h>

using namespace mlir;

namespace cleave {

std::vector<c10::IValue> callOperator(OperatorOp op, std::vector<c10::IValue> operands) {
  findOperator(op.getName())->getOperation()(operands);
  return operands;
}

c10::IValue makeList(ListOp list, ArrayRef<c10::IValue> items) {
  c10::impl::GenericList made(torchTypeOf(cast<ListType>(list.getType()).getElement()));
  for (const c10::IValue &item : items)
    made.push_back(item);
  return made;
}

RunResults Interpreter::run(func::FuncOp function) {
  for (auto [argument, input] : llvm::zip(function.getArguments(), inputs)) {
    values[argument] = argument.getType().isInteger(1) ? c10::IValue(input.item<bool>()) : input;
    auto type = dyn_cast<RankedTensorType>(argument.getType());
    auto layout = type ? dyn_cast_or_null<LayoutAttr>(type.getEncoding()) : LayoutAttr();
    for (auto [i, name] : llvm::enumerate(layout ? layout.getDims() : ArrayRef<std::string>()))
      sizes[name] = input.size(i);
  }
  for (Value operand : run(function.getBody().front()))
    found.results.push_back(values[operand].toTensor());
  return std::move(found);
}

OperandRange Interpreter::run(Block &block) {
  for (Operation &op : block.without_terminator())
    run(op);
  return block.getTerminator()->getOperands();
}

void Interpreter::call(OperatorOp op) {
  std::vector<c10::IValue> operands;
  for (Value operand : op->getOperands())
    operands.push_back(values[operand]);
  for (auto [result, value] : llvm::zip(op->getResults(), callOf(op, std::move(operands))))
    values[result] = value;
}

c10::IValue Interpreter::partOf(ParamOp param) const {
  at::Tensor whole = weights.at(param.getName().str());
  if (param.getWrapped()) {
    whole = whole.clone();
    whole.unsafeGetTensorImpl()->set_wrapped_number(true);
  }
  auto sharding = param.getShard();
  ArrayRef<int64_t> ranges = sharding ? sharding->getRanks()[rank].asArrayRef() : ArrayRef<int64_t>();
  return sharding ? shard(whole, sharding->getDim(), {ranges.data(), ranges.size()}) : whole;
}

void Interpreter::run(LoopOp loop) {
  std::vector<c10::IValue> carried;
  for (Value init : loop.getInits())
    carried.push_back(values[init]);
  Block &body = loop.getBody().front();
  bool goesOn = values[loop.getCondition()].toBool();
  for (int64_t trip = 0, trips = values[loop.getTrips()].toInt(); goesOn && trip < trips; ++trip) {
    values[body.getArgument(0)] = trip;
    for (auto [argument, value] : llvm::zip(llvm::drop_begin(body.getArguments()), carried))
      values[argument] = value;
    OperandRange yielded = run(body);
    goesOn = values[yielded.front()].toBool();
    for (auto [value, operand] : llvm::zip(carried, llvm::drop_begin(yielded)))
      value = values[operand];
  }
  for (auto [result, value] : llvm::zip(loop->getResults(), carried))
    values[result] = value;
}

void Interpreter::run(Operation &op) {
  std::vector<c10::IValue> operands;
  for (Value operand : op.getOperands())
    operands.push_back(values[operand]);
  if (auto param = dyn_cast<ParamOp>(op)) {
    values[param] = partOf(param);
  } else if (auto constant = dyn_cast<ConstantOp>(op)) {
    values[constant] = toIValue(constant.getValue(), constant.getType());
  } else if (auto size = dyn_cast<SizeOp>(op)) {
    values[size] = SymbolicDim::parse(size.getExpression())->evaluate(sizes).value();
  } else if (auto list = dyn_cast<ListOp>(op)) {
    values[list] = makeList(list, operands);
  } else if (auto tuple = dyn_cast<TupleOp>(op)) {
    values[tuple] = c10::ivalue::Tuple::create(operands);
  } else if (auto unpack = dyn_cast<UnpackOp>(op)) {
    const bool isTuple = operands[0].isTuple();
    c10::ArrayRef<c10::IValue> items =
        isTuple ? operands[0].toTupleRef().elements().asArrayRef() : operands[0].toListRef();
    for (auto [result, item] : llvm::zip(unpack->getResults(), items))
      values[result] = item;
  } else if (auto branch = dyn_cast<IfOp>(op)) {
    Region &taken = operands[0].toBool() ? branch.getThenRegion() : branch.getElseRegion();
    for (auto [result, value] : llvm::zip(branch->getResults(), run(taken.front())))
      values[result] = c10::IValue(values[value]);
  } else if (auto loop = dyn_cast<LoopOp>(op)) {
    run(loop);
  } else if (auto boundary = dyn_cast<BoundaryOp>(op)) {
    found.captured[boundary.getPath().str()] = operands[0].toTensor();
    values[boundary] = operands[0];
  } else if (auto observe = dyn_cast<ObserveOp>(op)) {
    found.observed[observe.getPath().str()] = operands[0].toTensor();
    if (edit)
      values[observe.getValue()] = edit(observe, operands[0].toTensor());
  } else if (auto state = dyn_cast<ReadStateOp>(op)) {
    values[state] = operands[0];
  } else if (auto update = dyn_cast<WriteStateOp>(op)) {
    found.states[update.getName().str()] = operands[0].toTensor();
  } else if (isa<OperatorOp>(op)) {
    call(OperatorOp(&op));
  } else {
    throw std::runtime_error("no way to run " + op.getName().getStringRef().str());
  }
}

} // namespace cleave
