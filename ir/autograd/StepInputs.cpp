//===- StepInputs.cpp -----------------------------------------------------===//
#include "ir/autograd/StepInputs.h"
#include "ir/Signature.h"

using namespace mlir;

namespace cleave {

Value addStepInput(func::FuncOp function, StringRef role, RankedTensorType type) {
  Builder b(function.getContext());
  std::string name = role.str();
  auto isTaken = [&] {
    for (unsigned i = 0; i < function.getNumArguments(); ++i)
      if (auto other = function.getArgAttrOfType<StringAttr>(i, kNameAttr); other && other.getValue() == name)
        return true;
    return false;
  };
  while (isTaken())
    name = "train." + name;
  const unsigned index = function.getNumArguments();
  function.insertArgument(index, type,
                          b.getDictionaryAttr({b.getNamedAttr(kNameAttr, b.getStringAttr(name)),
                                               b.getNamedAttr(kRoleAttr, b.getStringAttr(role))}),
                          function.getLoc());
  if (Attribute inputs = function->getAttr(kInputTreeAttr))
    function->setAttr(
        kInputTreeAttr,
        nodeTree(b, "dict", {b.getStringAttr("inputs"), inputs, b.getStringAttr(name), leafTree(b, index)}));
  return function.getArgument(index);
}

} // namespace cleave
