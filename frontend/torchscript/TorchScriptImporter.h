//===- TorchScriptImporter.h - Graphs to IR, node by node -------*- C++ -*-===//
//
// Private to frontend/. Modules are known objects at compile time, so a call of a submodule's method is
// inlined on the spot, its path kept as the location of everything inside, and attributes are looked up. No
// pass of TorchScript's own runs: its inliner forgets paths.
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

/// `encoder.layer`; one of them may be empty.
std::string joinPath(const std::string &path, const std::string &name);
/// `QInt8`, `Float (Sparse)`.
std::string describeDType(const at::Tensor &tensor);
/// `; leave this module out of quantization, …` where the value is a library's object, which is no weight;
/// else empty.
llvm::StringRef remedyForPacked(const c10::IValue &value);
/// The module that has an attribute.
llvm::StringRef ownerPath(llvm::StringRef attribute);

/// Attributes that the program sets, by path: what they hold when it is saved, and what they may hold.
struct SetAttribute {
  c10::IValue initial;
  c10::TypePtr type;
};
using SetAttributes = llvm::MapVector<std::string, SetAttribute, std::map<std::string, unsigned>>;

class TorchScriptImporter {
public:
  /// `attributes` are those that the program is known to set. Others that it turns out to set are added, and
  /// what was imported is then wrong: they were taken for constants.
  TorchScriptImporter(mlir::OpBuilder &builder, WeightTable &weights, SetAttributes &attributes)
      : b(builder), weights(weights), attributes(attributes) {}

  /// Enters every tensor of `module` into the weight table, in the order of its modules.
  void collectWeights(const c10::IValue &module, const std::string &path);

  /// Imports a method of the top module at the builder's insertion point. Its values, or failure with
  /// diagnostics.
  mlir::FailureOr<llvm::SmallVector<mlir::Value>>
  importMethod(const c10::IValue &module, const std::string &method, llvm::ArrayRef<mlir::Value> arguments);

private:
  /// A module or other object that exists at compile time only.
  struct Object {
    c10::IValue value;
    /// Where it hangs in the model, which names its weights.
    std::string path;
  };
  using Binding = std::variant<mlir::Value, Object>;
  using Scope = std::unordered_map<const torch::jit::Value *, Binding>;
  /// One inlined call.
  struct Frame {
    /// Module path of the call, `path#k` from the second call of a module on.
    std::string path;
    /// Where the module hangs.
    std::string objectPath;
    int64_t boundaries = 0;
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
  /// A loop whose number of iterations is known: its body again and again.
  Result unrollLoop(Node *node, int64_t trips, Scope &scope);
  Result importConstruct(Node *node, Scope &scope);
  Result importBoundary(Node *node, Scope &scope);
  Result importOperator(Node *node, Scope &scope);
  Result importListChange(Node *node, Scope &scope);
  /// What each attribute that is set holds, in the order of `attributes`.
  using States = llvm::SmallVector<mlir::Value>;
  /// The name of an attribute as a state: a module that hangs at two places has one.
  std::string statePath(const Object &object, const std::string &name);
  /// The states at the beginning.
  Result makeStates();
  /// What a branch or loop may leave of a state, of which no more is known than the attribute's type.
  mlir::Type stateType(size_t index);
  /// Adds results to `branch` for the states that its regions leave changed; `after` are those of each.
  IfOp addStates(IfOp branch, llvm::ArrayRef<States> after);
  /// Imports a block into `region`, which yields the block's outputs, then what `changed` hold at its end.
  Result importRegion(const torch::jit::Block *block, mlir::Region &region,
                      llvm::ArrayRef<mlir::Value> changed, Scope &scope);
  /// The lists and dicts from outside that the blocks of `node` change.
  mlir::FailureOr<llvm::SmallVector<mlir::Value>> changedLists(Node *node, Scope &scope);
  llvm::SmallVector<mlir::Type> resultTypes(const Node *node);
  mlir::FailureOr<llvm::SmallVector<Binding>> importGraph(const torch::jit::Graph &graph,
                                                          llvm::ArrayRef<Binding> arguments, Frame frame);
  mlir::FailureOr<Binding> bindAttribute(const c10::IValue &value, const std::string &path);
  /// A list, tuple or dict with tensors in it.
  mlir::FailureOr<Binding> bindItems(const c10::IValue &value, mlir::Type type, const std::string &path);

  /// The IR value of a TorchScript value; failure with a diagnostic for objects.
  mlir::FailureOr<mlir::Value> valueOf(const torch::jit::Value *value, Scope &scope, Node *user);
  mlir::FailureOr<llvm::SmallVector<mlir::Value>> operandsOf(Node *node, Scope &scope);
  /// Creates or folds an operation and binds the node's outputs to its results.
  void bindResults(Node *node, Scope &scope, mlir::Operation *op);
  /// The parameter of a weight of the table; null where the IR has no type for it.
  mlir::Value parameter(const std::string &name, const at::Tensor &tensor);
  /// A packed weight, made of parameters at the function's start; null for objects of other kinds.
  mlir::Value importPacked(const Object &object);
  mlir::Value constant(mlir::Attribute value, mlir::Type type);
  mlir::Location location() const;
  mlir::InFlightDiagnostic error();

  mlir::OpBuilder &b;
  WeightTable &weights;
  SetAttributes &attributes;
  States states;
  /// Where each object hangs first.
  llvm::DenseMap<const c10::ivalue::Object *, std::string> objectPaths;
  Lists lists;
  std::vector<Frame> frames;
  llvm::StringMap<unsigned> calls;
  llvm::StringMap<mlir::Value> parameters;
  mlir::Operation *lastParameter = nullptr;
};

} // namespace cleave

#endif // CLEAVE_FRONTEND_TORCHSCRIPT_TORCHSCRIPTIMPORTER_H
