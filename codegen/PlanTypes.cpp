//===- PlanTypes.cpp - Types, constants and trees of the plan -------------===//
#include "codegen/PlanTypes.h"
#include "ir/Cleave.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;

namespace cleave {

plan::DType dtypeOf(Type element) {
  using plan::DType;
  if (auto complex = dyn_cast<ComplexType>(element))
    return complex.getElementType().isF64() ? DType::ComplexDouble : DType::ComplexFloat;
  if (auto integer = dyn_cast<IntegerType>(element)) {
    switch (integer.getWidth()) {
    case 1:
      return DType::Bool;
    case 8:
      return integer.isUnsigned() ? DType::UInt8 : DType::Int8;
    case 16:
      return DType::Int16;
    case 32:
      return DType::Int32;
    case 64:
      return DType::Int64;
    }
  }
  if (element.isF16())
    return DType::Half;
  if (element.isBF16())
    return DType::BFloat16;
  if (element.isF32())
    return DType::Float;
  if (element.isF64())
    return DType::Double;
  if (element.isFloat8E4M3FN())
    return DType::Float8E4M3;
  return element.isFloat8E5M2() ? DType::Float8E5M2 : DType::Unknown;
}

std::unique_ptr<plan::DimRanges> rangesOf(ShardingAttr sharding, uint32_t tpRank) {
  auto result = std::make_unique<plan::DimRanges>();
  result->dim = sharding.getDim();
  ArrayRef<int64_t> ranges = sharding.getRanks()[tpRank];
  for (size_t i = 0; i < ranges.size(); i += 2) {
    result->offsets.push_back(ranges[i]);
    result->sizes.push_back(ranges[i + 1]);
  }
  return result;
}

std::unique_ptr<plan::DimExpr> dimOf(const SymbolicDim &dim, const SymbolIndices &symbols) {
  auto result = std::make_unique<plan::DimExpr>();
  result->divisor = dim.getDivisor();
  for (auto &[monomial, coefficient] : dim.getTerms()) {
    auto term = std::make_unique<plan::Term>();
    term->coefficient = coefficient;
    for (const std::string &name : monomial) {
      auto found = symbols.find(name);
      assert(found != symbols.end() && "a type has a dimension that the signature does not name");
      term->symbols.push_back(found == symbols.end() ? UINT32_MAX : found->second);
    }
    result->terms.push_back(std::move(term));
  }
  return result;
}

/// Row-major strides: products of the later sizes. Unknown sizes make unknown strides.
static std::vector<SymbolicDim> rowMajorStrides(ArrayRef<SymbolicDim> sizes) {
  std::vector<SymbolicDim> strides(sizes.size(), SymbolicDim::constant(1));
  for (size_t i = sizes.size(); i-- > 1;) {
    const SymbolicDim &size = sizes[i], &inner = strides[i];
    if (size.isUnknown() || inner.isUnknown() || size.getDivisor() != 1) {
      strides[i - 1] = SymbolicDim::unknown();
      continue;
    }
    std::map<SymbolicDim::Monomial, int64_t> product;
    for (auto &[left, a] : size.getTerms())
      for (auto &[right, b] : inner.getTerms()) {
        SymbolicDim::Monomial both(left);
        both.insert(both.end(), right.begin(), right.end());
        llvm::sort(both);
        product[both] += a * b;
      }
    strides[i - 1] = SymbolicDim::make(std::move(product), inner.getDivisor());
  }
  return strides;
}

std::unique_ptr<plan::TensorType> tensorTypeOf(Type type, const SymbolIndices &symbols) {
  auto result = std::make_unique<plan::TensorType>();
  auto ranked = dyn_cast<RankedTensorType>(type);
  if (!ranked)
    return result;
  result->dtype = dtypeOf(ranked.getElementType());
  result->ranked = true;
  auto layout = dyn_cast_or_null<LayoutAttr>(ranked.getEncoding());
  std::vector<SymbolicDim> sizes, strides;
  for (int64_t i = 0; i < ranked.getRank(); ++i)
    sizes.push_back(layout && !layout.getDims().empty() ? *SymbolicDim::parse(layout.getDims()[i])
                    : ranked.isDynamicDim(i)            ? SymbolicDim::unknown()
                                                        : SymbolicDim::constant(ranked.getDimSize(i)));
  if (layout && !layout.getStrides().empty())
    for (const std::string &text : layout.getStrides())
      strides.push_back(*SymbolicDim::parse(text));
  else
    strides = rowMajorStrides(sizes);
  for (const SymbolicDim &size : sizes)
    result->dims.push_back(dimOf(size, symbols));
  for (const SymbolicDim &stride : strides)
    result->strides.push_back(dimOf(stride, symbols));
  return result;
}

static void fillItems(plan::Constant &constant, ArrayAttr items, Type type) {
  auto list = dyn_cast<ListType>(type);
  auto tuple = dyn_cast<TupleType>(type);
  constant.kind = tuple ? plan::ConstantKind::Tuple : plan::ConstantKind::List;
  Type any = AnyType::get(type.getContext());
  if (!tuple)
    constant.element = schemaTypeName(list ? list.getElement() : any);
  for (auto [i, item] : llvm::enumerate(items))
    constant.items.push_back(constantOf(item, list ? list.getElement() : tuple ? tuple.getType(i) : any));
}

std::unique_ptr<plan::Constant> constantOf(Attribute value, Type type) {
  using plan::ConstantKind;
  if (auto optional = dyn_cast<OptionalType>(type))
    type = optional.getElement();
  auto constant = std::make_unique<plan::Constant>();
  if (auto number = dyn_cast<IntegerAttr>(value)) {
    bool isBool = number.getType().isInteger(1);
    constant->kind = isBool ? ConstantKind::Bool : ConstantKind::Int;
    constant->integer = isBool ? !number.getValue().isZero() : number.getInt();
  } else if (auto real = dyn_cast<FloatAttr>(value)) {
    constant->kind = ConstantKind::Float;
    constant->real = real.getValueAsDouble();
  } else if (auto text = dyn_cast<StringAttr>(value)) {
    constant->kind = isa<DeviceType>(type) ? ConstantKind::Device : ConstantKind::String;
    constant->text = text.str();
  } else if (auto items = dyn_cast<ArrayAttr>(value)) {
    fillItems(*constant, items, type);
  }
  return constant;
}

std::unique_ptr<plan::Tree> treeOf(Attribute tree) {
  using plan::TreeKind;
  auto result = std::make_unique<plan::Tree>();
  if (auto leaf = dyn_cast<IntegerAttr>(tree)) {
    result->kind = TreeKind::Leaf;
    result->leaf = leaf.getInt();
    return result;
  }
  auto parts = cast<ArrayAttr>(tree);
  result->kind = llvm::StringSwitch<TreeKind>(cast<StringAttr>(parts[0]).getValue())
                     .Case("tuple", TreeKind::Tuple)
                     .Case("list", TreeKind::List)
                     .Case("dict", TreeKind::Dict)
                     .Case("fixed", TreeKind::Fixed)
                     .Default(TreeKind::None);
  ArrayRef<Attribute> rest = parts.getValue().drop_front();
  if (result->kind == TreeKind::Fixed) {
    result->constant = constantOf(rest[0], AnyType::get(tree.getContext()));
    return result;
  }
  if (result->kind == TreeKind::Dict) {
    for (size_t i = 0; i + 1 < rest.size(); i += 2) {
      result->keys.push_back(cast<StringAttr>(rest[i]).str());
      result->children.push_back(treeOf(rest[i + 1]));
    }
    return result;
  }
  for (Attribute child : rest)
    result->children.push_back(treeOf(child));
  return result;
}

void setBatch(func::FuncOp function, StringAttr split, const SymbolIndices &symbols,
              plan::Signature &signature) {
  if (split)
    signature.batch = int32_t(symbols.lookup(split));
  function.walk([&](ReadStateOp state) {
    auto dim = state.getBatchDim();
    if (!dim)
      return;
    auto layout = cast<LayoutAttr>(cast<RankedTensorType>(state.getType()).getEncoding());
    signature.batch = int32_t(symbols.lookup(layout.getDims()[*dim]));
    const int64_t rows = cast<RankedTensorType>(state.getInitial().getType()).getDimSize(*dim);
    plan::Symbol &batch = *signature.symbols[signature.batch];
    if (rows > 1)
      batch.min = batch.max = rows;
  });
}

} // namespace cleave
