//===- TorchScriptImporter.h - TorchScript graphs to IR, node by node -*- C++ -*-===//
//
// Private to frontend/. Modules are known at compile time, so a call of a submodule's method is inlined at
// once, with its path as the location of everything inside, and attributes are looked up. None of
// TorchScript's own passes runs, because its inliner drops paths.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_FRONTEND_TORCHSCRIPT_TORCHSCRIPTIMPORTER_H
#define CLEAVE_FRONTEND_TORCHSCRIPT_TORCHSCRIPTIMPORTER_H

#include "frontend/torchscript/Lists.h"
#include "frontend/torchscript/WeightTable.h"
#include "ir/Cleave.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/MapVector.h"
#include <map>
#include <torch/csrc/jit/api/module.h>
#include <unordered_map>
#include <variant>

namespace cleave {

/// Joins to `encoder.layer`; either part may be empty.
std::string joinPath(const std::string &path, const std::string &name);
/// Of a tensor for which the IR has no type: what it is, and what to do.
std::string describeUntyped(const at::Tensor &tensor);
/// Advice for an error message, `; leave this module out of quantization, …`, if the value is a packed object
/// (custom class) that cannot be imported; else empty.
llvm::StringRef remedyForPacked(const c10::IValue &value);
/// Path of the module that has an attribute.
llvm::StringRef ownerPath(llvm::StringRef attribute);

/// Attributes that the program sets, by path: initial value in the file, and type.
struct MutableAttribute {
  c10::IValue initial;
  c10::TypePtr type;
};
using MutableAttributes = llvm::MapVector<std::string, MutableAttribute, std::map<std::string, unsigned>>;

class TorchScriptImporter {
public:
  /// \param attributes  attributes that the program is known to set. If the import finds others, it adds
  /// them, and must be repeated: it took them for constants.
  TorchScriptImporter(mlir::OpBuilder &builder, WeightTable &weights, MutableAttributes &attributes)
      : b(builder), weights(weights), attributes(attributes) {}

  /// Adds every tensor of `module` to the weight table, in the order of its modules.
  void collectWeights(const c10::IValue &module, const std::string &path);

  /// Imports a method of the top module at the builder's insertion point. Returns its values, or fails with
  /// diagnostics.
  mlir::FailureOr<llvm::SmallVector<mlir::Value>>
  importMethod(const c10::IValue &module, const std::string &method, llvm::ArrayRef<mlir::Value> arguments);

private:
  /// A module or other object that exists only at compile time.
  struct Object {
    c10::IValue value;
    /// Its path in the model, which names its weights.
    std::string path;
  };
  using Binding = std::variant<mlir::Value, Object>;
  using Scope = std::unordered_map<const torch::jit::Value *, Binding>;
  /// One inlined call.
  struct Frame {
    /// Module path of the call; `path#k` from the second call of a module on.
    std::string path;
    /// The module's path in the model.
    std::string objectPath;
    /// Whether a tracer has marked outputs of the module.
    bool isMarked = false;
  };
  using Node = torch::jit::Node;
  using Result = mlir::LogicalResult;

  Result importBlock(const torch::jit::Block *block, Scope &scope);
  Result importNode(Node *node, Scope &scope);
  Result importConstant(Node *node, Scope &scope);
  Result importGetAttr(Node *node, Scope &scope);
  Result importSetAttr(Node *node, Scope &scope);
  Result importCall(Node *node, Scope &scope);
  Result importFunctionCall(Node *node, Scope &scope);
  Result importIf(Node *node, Scope &scope);
  Result importLoop(Node *node, Scope &scope);
  /// Imports a loop with a known number of iterations by repeating its body.
  Result unrollLoop(Node *node, int64_t trips, Scope &scope);
  Result importConstruct(Node *node, Scope &scope);
  Result importBoundary(Node *node, Scope &scope);
  Result importOperator(Node *node, Scope &scope);
  Result importListChange(Node *node, Scope &scope);
  /// By index in `attributes`: the present value of an attribute that the program sets.
  using States = llvm::SmallVector<mlir::Value>;
  /// Name of an attribute's state. A module that is reachable by two paths has one state, named by its first
  /// path.
  std::string statePath(const Object &object, const std::string &name);
  /// Makes the states as they are at the beginning of the function.
  Result makeStates();
  /// Type of a state after a branch or loop, of which only the attribute's type is known.
  mlir::Type stateType(size_t index);
  /// Adds results to `branch` for the states that its regions change; `after` holds the states after each
  /// region.
  IfOp addStates(IfOp branch, llvm::ArrayRef<States> after);
  /// Imports a block into `region`, which yields the block's outputs, then the current values of `changed`.
  Result importRegion(const torch::jit::Block *block, mlir::Region &region,
                      llvm::ArrayRef<mlir::Value> changed, Scope &scope);
  /// Lists and dicts from outside the blocks of `node` that these blocks change.
  mlir::FailureOr<llvm::SmallVector<mlir::Value>> changedLists(Node *node, Scope &scope);
  llvm::SmallVector<mlir::Type> resultTypes(const Node *node);
  mlir::FailureOr<llvm::SmallVector<Binding>> importGraph(const torch::jit::Graph &graph,
                                                          llvm::ArrayRef<Binding> arguments, Frame frame);
  mlir::FailureOr<Binding> bindAttribute(const c10::IValue &value, const std::string &path);
  /// Binds a list, tuple or dict with tensors in it.
  mlir::FailureOr<Binding> bindItems(const c10::IValue &value, mlir::Type type, const std::string &path);

  /// The IR value of a TorchScript value; fails with a diagnostic for objects.
  mlir::FailureOr<mlir::Value> valueOf(const torch::jit::Value *value, Scope &scope, Node *user);
  mlir::FailureOr<llvm::SmallVector<mlir::Value>> operandsOf(Node *node, Scope &scope);
  /// Creates or folds an operation and binds the node's outputs to its results.
  void bindResults(Node *node, Scope &scope, mlir::Operation *op);
  /// The parameter of a weight in the table; null if the IR has no type for it.
  mlir::Value parameter(const std::string &name, const at::Tensor &tensor);
  /// A packed weight, rebuilt from parameters at the function's start; null for objects of other kinds.
  mlir::Value importPacked(const Object &object);
  mlir::Value constant(mlir::Attribute value, mlir::Type type);
  mlir::Location location() const;
  mlir::InFlightDiagnostic error();

  mlir::OpBuilder &b;
  WeightTable &weights;
  MutableAttributes &attributes;
  States states;
  /// By object: its first path.
  llvm::DenseMap<const c10::ivalue::Object *, std::string> objectPaths;
  Lists lists;
  std::vector<Frame> frames;
  llvm::StringMap<unsigned> calls;
  llvm::StringMap<mlir::Value> parameters;
  mlir::Operation *lastParameter = nullptr;
};

} // namespace cleave

#endif // CLEAVE_FRONTEND_TORCHSCRIPT_TORCHSCRIPTIMPORTER_H
