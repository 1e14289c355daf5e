//===- Lists.cpp - Lists and dicts that change ----------------------------===//
#include "frontend/torchscript/Lists.h"
#include "ir/Cleave.h"
#include "ir/OperatorDialect.h"
#include "ir/semantics/OpSemantics.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/SmallPtrSet.h"

using namespace mlir;

namespace cleave {

bool Lists::isChange(const torch::jit::Node *node) {
  const c10::FunctionSchema *schema = node->maybeSchema();
  if (!schema || schema->arguments().empty() || node->inputs().empty())
    return false;
  const c10::AliasInfo *alias = schema->arguments()[0].alias_info();
  auto kind = node->input(0)->type()->kind();
  return alias && alias->isWrite() && (kind == c10::TypeKind::ListType || kind == c10::TypeKind::DictType);
}

static bool isInside(const torch::jit::Value *value, const torch::jit::Node *node) {
  const torch::jit::Block *block = value->node()->owningBlock();
  while (block && block->owningNode() && block->owningNode() != node)
    block = block->owningNode()->owningBlock();
  return block && block->owningNode() == node;
}

llvm::SetVector<const torch::jit::Value *> Lists::changedInside(const torch::jit::Node *node) {
  llvm::SetVector<const torch::jit::Value *> changed;
  std::function<void(const torch::jit::Block *)> visit = [&](const torch::jit::Block *block) {
    for (const torch::jit::Node *inner : block->nodes()) {
      if (isChange(inner) && !isInside(inner->input(0), node))
        changed.insert(inner->input(0));
      for (const torch::jit::Block *nested : inner->blocks())
        visit(nested);
    }
  };
  for (const torch::jit::Block *block : node->blocks())
    visit(block);
  return changed;
}

/// The index that a constant means, up to `limit`; nothing if it is unknown or out of range.
static std::optional<size_t> positionOf(Value index, size_t count, size_t limit) {
  IntegerAttr known;
  if (!matchPattern(index, m_Constant(&known)))
    return std::nullopt;
  int64_t position = known.getInt() < 0 ? known.getInt() + int64_t(count) : known.getInt();
  return position >= 0 && position < int64_t(limit) ? std::optional<size_t>(position) : std::nullopt;
}

/// The items of a list after the operator; nothing if they are not visible.
static std::optional<SmallVector<Value>> changedItems(ListChange change, ListOp list, ValueRange operands,
                                                      Value &item) {
  SmallVector<Value> items(list.getElements());
  switch (change) {
  case ListChange::Append:
    items.push_back(operands[1]);
    break;
  case ListChange::Extend: {
    auto more = operands[1].getDefiningOp<ListOp>();
    if (!more)
      return std::nullopt;
    llvm::append_range(items, more.getElements());
    break;
  }
  case ListChange::Clear:
    items.clear();
    break;
  case ListChange::Reverse:
    std::reverse(items.begin(), items.end());
    break;
  case ListChange::SetItem: {
    auto position = positionOf(operands[1], items.size(), items.size());
    if (!position)
      return std::nullopt;
    items[*position] = operands[2];
    break;
  }
  case ListChange::Insert: {
    auto position = positionOf(operands[1], items.size(), items.size() + 1);
    if (!position)
      return std::nullopt;
    items.insert(items.begin() + *position, operands[2]);
    break;
  }
  case ListChange::Remove: {
    auto position = positionOf(operands[1], items.size(), items.size());
    if (!position)
      return std::nullopt;
    item = items[*position];
    items.erase(items.begin() + *position);
    break;
  }
  case ListChange::None:
    return std::nullopt;
  }
  return items;
}

/// Keys and values of a dict after `dict[key] = value`; nothing if a key is not a constant.
static std::optional<SmallVector<Value>> changedEntries(ListChange change, DictOp dict, ValueRange operands) {
  Attribute key;
  if (change != ListChange::SetItem || !matchPattern(operands[1], m_Constant(&key)))
    return std::nullopt;
  SmallVector<Value> elements(dict.getElements());
  for (size_t i = 0; i + 1 < elements.size(); i += 2) {
    Attribute known;
    if (!matchPattern(elements[i], m_Constant(&known)))
      return std::nullopt;
    if (known == key) {
      elements[i + 1] = operands[2];
      return elements;
    }
  }
  elements.append({operands[1], operands[2]});
  return elements;
}

LogicalResult Lists::change(StringRef irName, Value list, ValueRange operands, OpBuilder &b,
                            Location location, Value &item) {
  const ListChange change = semanticsOf(irName).listChange;
  Value now = operands[0];
  if (auto known = now.getDefiningOp<ListOp>())
    if (auto items = changedItems(change, known, operands, item)) {
      currents[list] = b.create<ListOp>(location, now.getType(), *items);
      return success();
    }
  if (auto known = now.getDefiningOp<DictOp>())
    if (auto elements = changedEntries(change, known, operands)) {
      currents[list] = b.create<DictOp>(location, now.getType(), *elements);
      return success();
    }
  // For a list that is not visible, `list + more` makes a new one.
  const bool isAppend = change == ListChange::Append;
  if (!isAppend && change != ListChange::Extend)
    return failure();
  Value more = isAppend ? b.create<ListOp>(location, now.getType(), operands[1]).getResult() : operands[1];
  currents[list] = OperatorOp::create(b, location, "aten.add.t", {now, more}, now.getType())->getResult(0);
  return success();
}

Value Lists::listEntries(DictEntries entries, Value dict, Type type, OpBuilder &b, Location location) {
  auto made = dict.getDefiningOp<DictOp>();
  auto list = dyn_cast<ListType>(type);
  if (!made || !list)
    return {};
  llvm::SmallPtrSet<Attribute, 8> known;
  SmallVector<Value> items;
  for (size_t i = 0; i + 1 < made.getElements().size(); i += 2) {
    Value key = made.getElements()[i], value = made.getElements()[i + 1];
    // Of two entries with one key, TorchScript keeps the second.
    if (Attribute constant; !matchPattern(key, m_Constant(&constant)) || !known.insert(constant).second)
      return {};
    if (entries == DictEntries::Items)
      items.push_back(b.create<TupleOp>(location, list.getElement(), ValueRange{key, value}));
    else
      items.push_back(entries == DictEntries::Keys ? key : value);
  }
  return b.create<ListOp>(location, type, items);
}

} // namespace cleave
