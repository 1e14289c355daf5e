//===- Signature.cpp - Names and nesting of inputs and outputs ------------===//
#include "ir/Signature.h"

using namespace mlir;

namespace cleave {

Attribute leafTree(Builder &builder, unsigned leaf) { return builder.getI64IntegerAttr(leaf); }

Attribute nodeTree(Builder &builder, StringRef kind, ArrayRef<Attribute> children) {
  SmallVector<Attribute> items{builder.getStringAttr(kind)};
  llvm::append_range(items, children);
  return builder.getArrayAttr(items);
}

} // namespace cleave
