// Rolls every sharding group of a model: rollModel MODEL.pt INPUTS.safetensors prints what came of it as one
// line of JSON.
#include "ir/Signature.h"
#include "runtime/base/TensorFile.h"
#include "tests/rolling/Rolling.h"
#include "tools/driver/base/ModelSource.h"
#include "tools/driver/base/PassPipeline.h"
#include "llvm/Support/JSON.h"
#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

using namespace mlir;
using namespace cleave;

static std::string take(llvm::Error error) { return llvm::toString(std::move(error)); }
template <typename T> static T orThrow(llvm::Expected<T> value) {
  if (!value)
    throw std::runtime_error(take(value.takeError()));
  return std::move(*value);
}

/// The passes of a compilation before those that split.
static void runPasses(ModuleOp module, const CompileOptions &options) {
  for (const std::string &passes : shardingSteps(options, {}))
    if (auto error = runPassPipeline(module, passes, {}, [](StringRef) {}))
      throw std::runtime_error(take(std::move(error)));
}

static Tensors inputsOf(func::FuncOp function, const std::string &path) {
  NamedTensors given;
  for (auto &input : orThrow(runtime::readTensors(path)))
    given[input.name] = input.tensor;
  Tensors inputs;
  for (unsigned i = 0; i < function.getNumArguments(); ++i)
    inputs.push_back(given.at(function.getArgAttrOfType<StringAttr>(i, kNameAttr).str()));
  return inputs;
}

static RollingReport roll(const CompileOptions &options) {
  MLIRContext context(MLIRContext::Threading::DISABLED);
  ImportedModel model = orThrow(readModel(options, context)).model;
  runPasses(*model.module, options);
  auto function = *(*model.module).getOps<func::FuncOp>().begin();
  NamedTensors weights;
  for (auto &entry : model.weights.entries())
    weights[entry.name] = entry.tensor;
  const Tensors inputs = inputsOf(function, options.inputsFiles.front());
  at::manual_seed(0);
  at::InferenceMode mode;
  Interpreter values(weights, inputs);
  values.run(function);
  return Rolling(function, values).run();
}

static llvm::json::Object counts(const std::map<std::string, size_t> &counts) {
  llvm::json::Object object;
  for (auto &[what, count] : counts)
    object[what] = count;
  return object;
}

int main(int argc, char **argv) {
  if (argc < 3) {
    llvm::errs() << "usage: rollModel MODEL.pt INPUTS.safetensors [LIBRARY.so]\n";
    return 2;
  }
  CompileOptions options;
  options.model = argv[1], options.inputsFiles = {argv[2]};
  options.libraries.assign(argv + 3, argv + argc);
  options.microbatches = 1;
  try {
    RollingReport report = roll(options);
    llvm::outs() << llvm::json::Value(llvm::json::Object{{"groups", report.groups},
                                                         {"rolled", report.rolled},
                                                         {"calls", report.calls},
                                                         {"operators", counts(report.operators)},
                                                         {"kept", counts(report.skipped)},
                                                         {"failures", llvm::json::Array(report.failures)}})
                 << "\n";
    return !report.failures.empty();
  } catch (const std::exception &error) {
    llvm::errs() << "error: " << StringRef(error.what()).split('\n').first << "\n";
    return 1;
  }
}
