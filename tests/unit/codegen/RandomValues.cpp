#include "RandomValues.h"
#include "passes/Passes.h"
#include <ATen/ATen.h>

using namespace mlir;

namespace cleave {

MLIRContext &testContext() {
  static MLIRContext instance = [] {
    DialectRegistry registry;
    registerDialects(registry);
    registerPasses();
    return MLIRContext(registry, MLIRContext::Threading::DISABLED);
  }();
  return instance;
}

static at::Tensor randomTensor(Type type) {
  if (type.isInteger(1))
    return at::randint(2, {}, at::kBool);
  auto tensor = cast<RankedTensorType>(type);
  at::IntArrayRef shape(tensor.getShape().data(), tensor.getRank());
  return at::randint(-3, 4, shape, *scalarTypeOf(tensor.getElementType()));
}

std::pair<NamedTensors, Tensors> randomValues(func::FuncOp function) {
  NamedTensors weights;
  Tensors inputs;
  for (auto param : function.getOps<ParamOp>())
    weights[param.getName().str()] = randomTensor(param.getType());
  for (BlockArgument argument : function.getArguments())
    inputs.push_back(randomTensor(argument.getType()));
  for (Operation &op : function.getBody().front())
    if (op.getName().getStringRef() == "aten.embedding")
      inputs[cast<BlockArgument>(op.getOperand(1)).getArgNumber()].abs_().clamp_(0, 2);
  return {weights, inputs};
}

} // namespace cleave
