//===- MergedSignatures.cpp - The functions of a module as one ---------------===//
#include "partitioner/graph/MergedSignatures.h"
#include "ir/Signature.h"
#include "mlir/IR/AttrTypeSubElements.h"
#include "mlir/IR/Builders.h"
#include "llvm/Support/MathExtras.h"
#include <numeric>

using namespace mlir;

namespace cleave {

/// On an operation of a merged function: index of the function that it comes from; absent for the first.
static constexpr llvm::StringLiteral kSignatureAttr = "cleave.signature";
/// On a merged function: the numbers of results of the functions that it merges.
static constexpr llvm::StringLiteral kSignaturesAttr = "cleave.signatures";

unsigned signatureIndexOf(Operation *op) {
  auto index = op->getAttrOfType<IntegerAttr>(kSignatureAttr);
  return index ? index.getInt() : 0;
}

unsigned signatureCountOf(func::FuncOp function) {
  auto results = function->getAttrOfType<DenseI64ArrayAttr>(kSignaturesAttr);
  return results ? results.size() : 1;
}

OperandRange resultsOf(func::FuncOp function, unsigned signature) {
  const OperandRange all = function.getBody().front().getTerminator()->getOperands();
  auto results = function->getAttrOfType<DenseI64ArrayAttr>(kSignaturesAttr);
  if (!results)
    return all;
  const ArrayRef<int64_t> counts = results.asArrayRef();
  const int64_t before = std::accumulate(counts.begin(), counts.begin() + signature, int64_t(0));
  return all.slice(before, counts[signature]);
}

double frequencyOf(Operation *op) {
  auto frequency =
      isa<func::FuncOp>(op->getParentOp()) ? op->getAttrOfType<FloatAttr>(kFrequencyAttr) : FloatAttr();
  return frequency ? frequency.getValueAsDouble() : 1;
}

/// `2/cell.hidden`: no path of an attribute has a slash.
static std::string nameIn(unsigned signature, StringRef name) {
  return (Twine(signature) + "/" + name).str();
}

StringRef stateName(ReadStateOp state) {
  return signatureIndexOf(state) ? state.getName().split('/').second : state.getName();
}

/// `batch__2`: the dimension of the function with this index.
static std::string dimensionIn(unsigned signature, StringRef name) {
  return signature ? (name + "__" + Twine(signature)).str() : name.str();
}

ExampleShapes partOfBatch(func::FuncOp function, const ExampleShapes &shapes, StringRef batch,
                          uint64_t count) {
  ExampleShapes part = shapes;
  for (unsigned signature = 0; signature < signatureCountOf(function); ++signature) {
    const std::string name = dimensionIn(signature, batch);
    if (auto size = shapes.sizes().find(name); signature == 0 || size != shapes.sizes().end())
      part = part.resized(name, llvm::divideCeil(shapes.sizes().lookup(name), count));
  }
  return part;
}

//===- Names of dimensions ------------------------------------------------===//

static std::string renamed(StringRef text, unsigned signature) {
  auto size = SymbolicDim::parse(text);
  if (!size || size->isUnknown())
    return text.str();
  std::map<SymbolicDim::Monomial, int64_t> terms;
  for (auto [names, coefficient] : size->getTerms()) {
    SymbolicDim::Monomial own;
    for (const std::string &name : names)
      own.push_back(dimensionIn(signature, name));
    llvm::sort(own);
    terms[own] = coefficient;
  }
  return SymbolicDim::make(std::move(terms), size->getDivisor()).str();
}

static DictionaryAttr renamed(DictionaryAttr table, unsigned signature) {
  NamedAttrList entries;
  for (NamedAttribute entry : table)
    entries.set(dimensionIn(signature, entry.getName()), entry.getValue());
  return entries.getDictionary(table.getContext());
}

/// Replaces the names of dimensions in types.
static AttrTypeReplacer renamerOf(unsigned signature) {
  AttrTypeReplacer replacer;
  replacer.addReplacement([=](LayoutAttr layout) {
    auto renameAll = [&](ArrayRef<std::string> sizes) {
      std::vector<std::string> own;
      for (const std::string &size : sizes)
        own.push_back(renamed(size, signature));
      return own;
    };
    return LayoutAttr::get(layout.getContext(), renameAll(layout.getDims()), renameAll(layout.getStrides()));
  });
  return replacer;
}

//===- Merging ------------------------------------------------------------===//

FailureOr<std::optional<MergedSignatures>> MergedSignatures::of(ModuleOp module) {
  MergedSignatures result;
  for (auto function : module.getOps<func::FuncOp>())
    if (!function.isExternal())
      result.functions.push_back(function);
  if (result.functions.empty())
    return std::optional<MergedSignatures>();
  result.merged = result.functions.front();
  if (result.functions.size() == 1)
    return std::optional(std::move(result));
  func::FuncOp first = result.functions.front();
  Builder b(module.getContext());
  result.owned = func::FuncOp::create(first.getLoc(), first.getName(), b.getFunctionType({}, {}));
  result.merged = *result.owned;
  for (NamedAttribute attribute : first->getDiscardableAttrs())
    result.merged->setAttr(attribute.getName(), attribute.getValue());
  result.merged->removeAttr(kFrequencyAttr);
  SmallVector<int64_t> counts;
  for (func::FuncOp function : result.functions)
    counts.push_back(function.getNumResults());
  result.merged->setAttr(kSignaturesAttr, b.getDenseI64ArrayAttr(counts));
  result.merged.addEntryBlock();
  OpBuilder::atBlockEnd(&result.merged.getBody().front()).create<func::ReturnOp>(first.getLoc());
  for (unsigned index = 0; index < result.functions.size(); ++index)
    if (failed(result.append(index)))
      return failure();
  return std::optional(std::move(result));
}

/// Appends one function: arguments, body and results.
LogicalResult MergedSignatures::append(unsigned index) {
  func::FuncOp function = functions[index];
  Block &body = merged.getBody().front();
  AttrTypeReplacer renamer = renamerOf(index);
  IRMapping map;
  SmallVector<DictionaryAttr> argumentAttributes, resultAttributes;
  merged.getAllArgAttrs(argumentAttributes);
  merged.getAllResultAttrs(resultAttributes);
  function.getAllArgAttrs(argumentAttributes);
  function.getAllResultAttrs(resultAttributes);
  for (BlockArgument argument : function.getArguments()) {
    Type type = index ? renamer.replace(argument.getType()) : argument.getType();
    map.map(argument, body.addArgument(type, argument.getLoc()));
  }
  OpBuilder b(body.getTerminator());
  if (failed(appendBody(index, map, b)))
    return failure();
  Operation *end = body.getTerminator();
  SmallVector<Value> results(end->getOperands());
  for (Value result : function.getBody().front().getTerminator()->getOperands())
    results.push_back(map.lookup(result));
  end->setOperands(results);
  merged.setType(b.getFunctionType(body.getArgumentTypes(), end->getOperandTypes()));
  merged.setAllArgAttrs(argumentAttributes);
  merged.setAllResultAttrs(resultAttributes);
  if (index > 0)
    for (StringRef attribute : {kSymbolsAttr, kSizeLimitsAttr})
      if (auto own = function->getAttrOfType<DictionaryAttr>(attribute)) {
        NamedAttrList all(merged->getAttrOfType<DictionaryAttr>(attribute));
        for (NamedAttribute entry : renamed(own, index))
          all.set(entry.getName(), entry.getValue());
        merged->setAttr(attribute, all.getDictionary(b.getContext()));
      }
  return success();
}

/// The merged operation of a weight that an earlier function has, too; null for a new one.
FailureOr<Operation *> MergedSignatures::sharedWeight(Operation *op) {
  auto param = cast<ParamOp>(op);
  auto [known, isNew] = weights.try_emplace(param.getName(), nullptr);
  if (isNew)
    return static_cast<Operation *>(nullptr);
  Operation *first = known->second;
  if (first->getResultTypes() == op->getResultTypes() &&
      first->getAttrDictionary() == op->getAttrDictionary())
    return first;
  return op->emitError() << "found weight \"" << param.getName() << "\" of " << op->getResultTypes()[0]
                         << " with " << op->getAttrDictionary() << ", expected " << first->getResultTypes()[0]
                         << " with " << first->getAttrDictionary()
                         << " as in an earlier function; all functions of a module share its weights";
}

LogicalResult MergedSignatures::appendBody(unsigned index, IRMapping &map, OpBuilder &b) {
  func::FuncOp function = functions[index];
  AttrTypeReplacer renamer = renamerOf(index);
  const auto frequency = function->getAttrOfType<FloatAttr>(kFrequencyAttr);
  for (Operation &op : function.getBody().front().without_terminator()) {
    if (isa<ParamOp>(op)) {
      auto shared = sharedWeight(&op);
      if (failed(shared))
        return failure();
      if (*shared) {
        map.map(op.getResults(), (*shared)->getResults());
        origins.push_back({*shared, &op});
        continue;
      }
    }
    Operation *made = b.clone(op, map);
    auto state = dyn_cast<ReadStateOp>(op);
    if (state)
      if (auto [first, isNew] = states.try_emplace(state.getName(), &op);
          !isNew && first->second->getResultTypes() != op.getResultTypes())
        return op.emitError() << "found state \"" << state.getName() << "\" of " << state.getType()
                              << ", expected " << first->second->getResultTypes()[0]
                              << " as in an earlier function; all functions of a module share its states";
    SmallVector<Operation *> copies, originals;
    made->walk([&](Operation *inner) { copies.push_back(inner); });
    op.walk([&](Operation *inner) { originals.push_back(inner); });
    for (auto [copy, original] : llvm::zip_equal(copies, originals)) {
      origins.push_back({copy, original});
      if (auto size = dyn_cast<SizeOp>(copy); size && index)
        size.setExpression(renamed(size.getExpression(), index));
    }
    if (isa<ParamOp>(op)) {
      weights[cast<ParamOp>(op).getName()] = made;
      continue;
    }
    if (frequency)
      made->setAttr(kFrequencyAttr, frequency);
    if (index == 0)
      continue;
    renamer.recursivelyReplaceElementsIn(made, /*replaceAttrs=*/false, /*replaceLocs=*/false,
                                         /*replaceTypes=*/true);
    made->setAttr(kSignatureAttr, b.getI64IntegerAttr(index));
    if (auto copy = dyn_cast<ReadStateOp>(made))
      copy.setName(nameIn(index, copy.getName()));
    if (auto copy = dyn_cast<WriteStateOp>(made))
      copy.setName(nameIn(index, copy.getName()));
  }
  return success();
}

void MergedSignatures::copyBack() {
  for (auto [made, original] : origins) {
    NamedAttrList decided(made->getDiscardableAttrDictionary());
    decided.erase(kSignatureAttr);
    decided.erase(kFrequencyAttr);
    original->setDiscardableAttrs(decided.getDictionary(original->getContext()));
  }
}

} // namespace cleave
