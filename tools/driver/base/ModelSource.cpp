//===- ModelSource.cpp - The input model ----------------------------------===//
#include "tools/driver/base/ModelSource.h"
#include "codegen/plan/files/InputFile.h"
#include "frontend/archive/TorchScriptFile.h"
#include "ir/Cleave.h"
#include "ir/ExampleShapes.h"
#include "ir/Schemas.h"
#include "ir/Signature.h"
#include "ir/TensorSizes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"
#include "partitioner/sharding/Sharding.h"
#include "passes/Passes.h"
#include "passes/TensorShardings.h"
#include "tools/cleave-opt/ParseCheck.h"
#include "tools/driver/base/DiagnosticCollector.h"
#include "tools/driver/base/InputOptions.h"
#include "tools/driver/base/UsageError.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace cleave {

using llvm::Error;
using llvm::Expected;
using llvm::StringRef;

bool isIrText(StringRef path) { return path.ends_with(".mlir"); }

static void tell(const CompileOptions &options, const Twine &step,
                 std::optional<double> done = std::nullopt) {
  if (options.progress)
    options.progress(step.str(), done);
}

static Expected<ModelSource> readTorchScript(const CompileOptions &options, MLIRContext &context) {
  auto inputs = readInputOptions(options);
  if (!inputs)
    return inputs.takeError();
  ModelSource source;
  if (options.microbatches != 1)
    if (auto error = nameBatch(*inputs).moveInto(source.batch))
      return error;
  auto file = TorchScriptFile::open(
      options.model, [&](double done) { tell(options, "reading " + options.model, done); },
      options.requireListedOperators);
  if (!file)
    return file.takeError();
  tell(options, "importing " + options.model);
  DiagnosticCollector diagnostics(context);
  auto imported = importTorchScript(*file, *inputs, &context);
  if (failed(imported))
    return diagnostics.takeError(options.model);
  source.model = std::move(*imported);
  source.fingerprint = file->fingerprint;
  source.serializationId = file->serializationId;
  source.inputs = std::move(*inputs);
  source.isInTrainingMode = file->module.is_training();
  source.release = std::move(file->release);
  return source;
}

//===- IR -----------------------------------------------------------------===//

/// Gives arguments and results the names and nesting of a plan's signature, if the text leaves them out.
static void completeSignature(func::FuncOp function) {
  Builder b(function.getContext());
  auto nameAll = [&](StringRef kind, unsigned count, auto get, auto set) {
    SmallVector<Attribute> leaves;
    for (unsigned i = 0; i < count; ++i) {
      if (!get(i))
        set(i, b.getStringAttr(kind + Twine(i)));
      leaves.push_back(leafTree(b, i));
    }
    return leaves;
  };
  auto inputs = nameAll(
      "input", function.getNumArguments(),
      [&](unsigned i) { return function.getArgAttrOfType<StringAttr>(i, kNameAttr); },
      [&](unsigned i, StringAttr name) { function.setArgAttr(i, kNameAttr, name); });
  auto outputs = nameAll(
      "output", function.getNumResults(),
      [&](unsigned i) { return function.getResultAttrOfType<StringAttr>(i, kNameAttr); },
      [&](unsigned i, StringAttr name) { function.setResultAttr(i, kNameAttr, name); });
  if (!function->hasAttr(kInputTreeAttr))
    function->setAttr(kInputTreeAttr, nodeTree(b, "tuple", inputs));
  if (!function->hasAttr(kOutputTreeAttr))
    function->setAttr(kOutputTreeAttr, outputs.size() == 1 ? outputs.front() : nodeTree(b, "tuple", outputs));
}

/// True if passes have begun to split the function: their attributes would be mistaken for decisions made
/// here.
static bool isSplit(func::FuncOp function) {
  auto hasAnyOf = [](Operation *op, llvm::ArrayRef<StringRef> names) {
    return llvm::any_of(names, [&](StringRef name) { return op->hasAttr(name); });
  };
  if (hasAnyOf(function, {CutAttr::name, kTensorParallelSizeAttr, ShardingDecisionAttr::name}))
    return true;
  WalkResult walk = function.walk([&](Operation *op) {
    return isa<StageOp>(op) || hasAnyOf(op, {kStageIndexAttr, kShardingsAttr, WeightShardingAttr::name})
               ? WalkResult::interrupt()
               : WalkResult::advance();
  });
  return walk.wasInterrupted();
}

/// The functions of a model, which must not be split yet.
static Expected<std::vector<func::FuncOp>> findFunctions(ModuleOp module, StringRef path) {
  auto refuse = [&](const Twine &found) -> Error {
    return llvm::createStringError(path + ": found " + found +
                                   ", expected a function, as --emit-ir writes it before it is split");
  };
  std::vector<func::FuncOp> functions;
  for (auto function : module.getOps<func::FuncOp>()) {
    if (function.isDeclaration())
      return refuse("a function without a body");
    if (isSplit(function))
      return refuse("one that is split already");
    functions.push_back(function);
    if (auto symbols = function->getAttrOfType<DictionaryAttr>(kSymbolsAttr))
      for (NamedAttribute symbol : symbols) {
        auto size = dyn_cast<IntegerAttr>(symbol.getValue());
        if (!size || !size.getType().isInteger(64) || size.getInt() < 1 || size.getInt() > kMaxExampleSize)
          return llvm::createStringError(path + ": " + kSymbolsAttr + ": found another size of " +
                                         symbol.getName().getValue() + " than expected, an i64 from 1 to " +
                                         Twine(kMaxExampleSize));
      }
  }
  if (functions.empty())
    return refuse("no function");
  return functions;
}

/// Checks that each name stands for one weight, or for one input of a function.
static LogicalResult checkNames(func::FuncOp function, llvm::StringMap<ParamOp> &weights) {
  WalkResult walk = function.walk([&](ParamOp param) {
    auto [first, isNew] = weights.try_emplace(param.getName(), param);
    if (isNew || first->second.getType() == param.getType())
      return WalkResult::advance();
    param.emitError() << "found weight \"" << param.getName() << "\" of " << param.getType() << ", expected "
                      << first->second.getType()
                      << " as where it is named first; give each weight a name of its own";
    return WalkResult::interrupt();
  });
  if (walk.wasInterrupted())
    return failure();
  llvm::StringMap<unsigned> inputs;
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    StringRef name = function.getArgAttrOfType<StringAttr>(i, kNameAttr).getValue();
    if (auto [first, isNew] = inputs.try_emplace(name, i); !isNew)
      return function.emitError() << "arguments " << first->second << " and " << i << " are both called \""
                                  << name << "\"; give each input a name of its own";
  }
  return success();
}

/// Checks that the text parses before it is used.
static void checkText(StringRef text, const CompileOptions &options, MLIRContext &context) {
  auto source = std::make_shared<llvm::SourceMgr>();
  source->AddNewSourceBuffer(llvm::MemoryBuffer::getMemBuffer(text, options.model), llvm::SMLoc());
  checkParses(source, context, [&](Diagnostic &diagnostic) {
    options.onParseError(options.model + ": " + DiagnosticCollector::describe(diagnostic));
  });
}

static Expected<ModelSource> readIr(const CompileOptions &options, MLIRContext &context) {
  for (auto [name, isGiven] : {std::pair("--inputs", !options.inputsFiles.empty()),
                               {"--input", !options.inputs.empty()},
                               {"--dynamic", !options.dynamic.empty()},
                               {"--role", !options.roles.empty()},
                               {"--frequency", !options.frequencies.empty()},
                               {"--verify", options.verify}})
    if (isGiven)
      return wrongUsage(name + Twine(": says what a TorchScript file leaves open, and ") + options.model +
                        " is IR");
  if (options.writePlan)
    return wrongUsage(options.model +
                      ": found IR, which has no weights, expected a TorchScript file; IR can be simulated");
  auto file = plan::InputFile::open(options.model);
  auto text = file ? file->read() : file.getError();
  if (!text)
    return llvm::createStringError(options.model +
                                   ": cannot be read: " + plan::describeInputError(text.getError()) +
                                   "; give IR, as --emit-ir writes it");
  tell(options, "importing " + options.model);
  if (Error error = checkIrText((*text)->getBuffer()))
    return llvm::createStringError(options.model + ": " + llvm::toString(std::move(error)));
  if (options.onParseError)
    checkText((*text)->getBuffer(), options, context);
  DiagnosticCollector diagnostics(context);
  ModelSource source;
  source.model.module =
      parseSourceString<ModuleOp>((*text)->getBuffer(), ParserConfig(&context), options.model);
  if (!source.model.module)
    return diagnostics.takeError(options.model);
  auto functions = findFunctions(*source.model.module, options.model);
  if (!functions)
    return functions.takeError();
  llvm::StringMap<ParamOp> weights;
  for (func::FuncOp function : *functions) {
    completeSignature(function);
    if (failed(checkNames(function, weights)) || failed(checkTensorSizes(function)))
      return diagnostics.takeError(options.model);
  }
  source.fingerprint = plan::checksum(llvm::arrayRefFromStringRef((*text)->getBuffer()));
  auto hasBatch = [](func::FuncOp function) {
    auto symbols = function->getAttrOfType<DictionaryAttr>(kSymbolsAttr);
    return symbols && symbols.contains("batch");
  };
  if (options.microbatches != 1 && llvm::all_of(*functions, hasBatch))
    source.batch = "batch";
  return source;
}

Expected<ModelSource> readModel(const CompileOptions &options, MLIRContext &context) {
  // First: a dialect gets the operators that exist when it is created.
  for (const std::string &library : options.libraries)
    if (auto message = loadOperatorLibrary(library))
      return llvm::createStringError("--library " + library + ": cannot be loaded: " + *message);
  DialectRegistry registry;
  registerDialects(registry);
  context.appendDialectRegistry(registry);
  context.loadAllAvailableDialects();
  return isIrText(options.model) ? readIr(options, context) : readTorchScript(options, context);
}

} // namespace cleave
