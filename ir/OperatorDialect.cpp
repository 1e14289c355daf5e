//===- OperatorDialect.cpp - PyTorch's operators as MLIR operations -------===//
#include "ir/OperatorDialect.h"
#include "ir/Aggregates.h"
#include "ir/Cleave.h"
#include "ir/ConstantFolding.h"
#include "ir/semantics/OpSemantics.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;

namespace cleave {

/// The type id of all OperatorDialects' marker: a dialect is one of ours when its id is in this table.
static llvm::StringMap<TypeID> &dialectIds() {
  static llvm::StringMap<TypeID> ids;
  return ids;
}

static ParseResult parseOperator(OpAsmParser &parser, OperationState &state) {
  SmallVector<OpAsmParser::UnresolvedOperand> operands;
  FunctionType type;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseOperandList(operands, OpAsmParser::Delimiter::Paren) ||
      parser.parseOptionalAttrDict(state.attributes) || parser.parseColonType(type) ||
      parser.resolveOperands(operands, type.getInputs(), loc, state.operands))
    return failure();
  state.addTypes(type.getResults());
  return success();
}

static LogicalResult verifyOperator(Operation *op) {
  const OperatorSchema &schema = OperatorOp(op).getSchema();
  if (schema.isVariadic)
    return success();
  if (op->getNumOperands() != schema.arguments.size()) {
    std::string names;
    for (auto &argument : schema.arguments)
      names += (names.empty() ? "" : ", ") + argument.name;
    return op->emitOpError("found ") << op->getNumOperands() << " operands, expected "
                                     << schema.arguments.size() << " (" << names << ")";
  }
  if (op->getNumResults() != schema.results.size())
    return op->emitOpError("found ") << op->getNumResults() << " results, expected " << schema.results.size();
  return success();
}

namespace {
/// Operation hooks shared by all operators; none has properties, regions or inherent attributes.
struct OperatorModel : OperationName::Impl {
  OperatorModel(StringRef name, Dialect *dialect, TypeID id)
      : Impl(name, dialect, id, mlir::detail::InterfaceMap()) {}
  LogicalResult foldHook(Operation *op, ArrayRef<Attribute> operands,
                         SmallVectorImpl<OpFoldResult> &results) final {
    return foldOperator(OperatorOp(op), operands, results);
  }
  void getCanonicalizationPatterns(RewritePatternSet &, MLIRContext *) final {}
  bool hasTrait(TypeID id) final { return false; }
  OperationName::ParseAssemblyFn getParseAssemblyFn() final { return parseOperator; }
  void populateDefaultAttrs(const OperationName &, NamedAttrList &) final {}
  void printAssembly(Operation *op, OpAsmPrinter &printer, StringRef) final {
    printer << op->getName() << '(';
    printer.printOperands(op->getOperands());
    printer << ')';
    printer.printOptionalAttrDict(op->getAttrs());
    printer << " : ";
    printer.printFunctionalType(op);
  }
  LogicalResult verifyInvariants(Operation *op) final { return verifyOperator(op); }
  LogicalResult verifyRegionInvariants(Operation *) final { return success(); }
  std::optional<Attribute> getInherentAttr(Operation *, StringRef) final { return std::nullopt; }
  void setInherentAttr(Operation *, StringAttr, Attribute) final {}
  void populateInherentAttrs(Operation *, NamedAttrList &) final {}
  LogicalResult verifyInherentAttrs(OperationName, NamedAttrList &,
                                    function_ref<InFlightDiagnostic()>) final {
    return success();
  }
  int getOpPropertyByteSize() final { return 0; }
  void initProperties(OperationName, OpaqueProperties, OpaqueProperties) final {}
  void deleteProperties(OpaqueProperties) final {}
  void populateDefaultProperties(OperationName, OpaqueProperties) final {}
  LogicalResult setPropertiesFromAttr(OperationName, OpaqueProperties, Attribute,
                                      function_ref<InFlightDiagnostic()>) final {
    return failure();
  }
  Attribute getPropertiesAsAttr(Operation *) final { return {}; }
  void copyProperties(OpaqueProperties, OpaqueProperties) final {}
  // MLIR's own dynamic operations answer false here, which keeps CSE from ever merging two of them.
  bool compareProperties(OpaqueProperties, OpaqueProperties) final { return true; }
  llvm::hash_code hashProperties(OpaqueProperties) final { return {}; }
};

/// Operators have no effects, except on lists that are changed, for which the order of reads and writes
/// matters.
struct PureEffects : MemoryEffectOpInterface::FallbackModel<PureEffects> {
  void getEffects(Operation *op, SmallVectorImpl<MemoryEffects::EffectInstance> &effects) const {
    if (llvm::any_of(op->getOperands(), mayChange))
      effects.emplace_back(MemoryEffects::Read::get());
    for (OpResult result : op->getResults())
      if (mayChange(result))
        effects.emplace_back(MemoryEffects::Allocate::get(), result);
  }
};

/// Type ids of one dialect's operators; kept for the life of the process, which may have several contexts.
struct NamespaceOperators {
  std::vector<const OperatorSchema *> schemas;
  std::unique_ptr<SelfOwningTypeID[]> ids;
};
} // namespace

static const llvm::StringMap<NamespaceOperators> &operatorsByNamespace() {
  static const auto table = [] {
    llvm::StringMap<NamespaceOperators> result;
    for (const OperatorSchema *schema : allSchemas())
      result[StringRef(schema->irName).split('.').first].schemas.push_back(schema);
    for (auto &entry : result)
      entry.second.ids = std::make_unique<SelfOwningTypeID[]>(entry.second.schemas.size() + 1);
    return result;
  }();
  return table;
}

/// True if equal calls may be merged and unused ones dropped.
static bool isPure(const OperatorSchema &schema) {
  return !schema.writesAnyArgument() && !schema.isRandom && !semanticsOf(schema.irName).hasSideEffects;
}

OperatorDialect::OperatorDialect(StringRef ns, TypeID id, MLIRContext *context) : Dialect(ns, context, id) {
  context->getOrLoadDialect<CleaveDialect>();
  const NamespaceOperators &operators = operatorsByNamespace().find(ns)->second;
  for (size_t i = 0; i < operators.schemas.size(); ++i) {
    const OperatorSchema &schema = *operators.schemas[i];
    RegisteredOperationName::insert(
        std::make_unique<OperatorModel>(schema.irName, this, operators.ids[i].getTypeID()), {});
    if (isPure(schema))
      RegisteredOperationName::lookup(schema.irName, context)->attachInterface<PureEffects>();
  }
}

Operation *OperatorDialect::materializeConstant(OpBuilder &builder, Attribute value, Type type,
                                                Location loc) {
  return builder.create<ConstantOp>(loc, type, value);
}

void registerOperatorDialects(DialectRegistry &registry) {
  for (auto &entry : operatorsByNamespace()) {
    std::string ns = entry.first().str();
    TypeID id = entry.second.ids[entry.second.schemas.size()].getTypeID();
    dialectIds().try_emplace(ns, id);
    registry.insert(id, ns, [ns, id](MLIRContext *context) -> Dialect * {
      return context->getOrLoadDialect(ns, id,
                                       [&] { return std::make_unique<OperatorDialect>(ns, id, context); });
    });
  }
}

bool OperatorOp::classof(Operation *op) {
  Dialect *dialect = op->getDialect();
  if (!dialect)
    return false;
  auto known = dialectIds().find(dialect->getNamespace());
  return known != dialectIds().end() && known->second == dialect->getTypeID();
}

Operation *OperatorOp::create(OpBuilder &builder, Location loc, StringRef irName, ValueRange operands,
                              TypeRange results) {
  OperationState state(loc, irName);
  state.addOperands(operands);
  state.addTypes(results);
  return builder.create(state);
}

const OperatorSchema &OperatorOp::getSchema() {
  const OperatorSchema *schema = findSchema(getName());
  assert(schema && "operators are registered from their schemas");
  return *schema;
}

StringRef OperatorOp::getBaseName() {
  StringRef name = getName();
  size_t overload = name.find('.', name.find('.') + 1);
  return name.substr(0, overload);
}

Value OperatorOp::getArgument(StringRef name) {
  for (auto [argument, operand] : llvm::zip(getSchema().arguments, getOperation()->getOperands()))
    if (!name.empty() && argument.name == name)
      return operand;
  return {};
}

StringRef OperatorOp::getArgumentName(unsigned operand) {
  const auto &arguments = getSchema().arguments;
  return operand < arguments.size() ? StringRef(arguments[operand].name) : StringRef();
}

Attribute OperatorOp::getConstantArgument(StringRef name) {
  Attribute value;
  if (Value operand = getArgument(name))
    matchPattern(operand, m_Constant(&value));
  return value;
}

} // namespace cleave
