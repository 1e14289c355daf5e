//===- Verify.cpp - Compares a plan with its model ------------------------===//
#include "tools/driver/Verify.h"
#include "codegen/plan/DimExpr.h"
#include "frontend/archive/TorchScriptFile.h"
#include "runtime/base/DTypes.h"
#include "runtime/base/TensorFile.h"
#include "runtime/exchange/Inputs.h"
#include "runtime/exchange/SignatureInputs.h"
#include "runtime/session/Session.h"
#include "tools/driver/Comparison.h"
#include "tools/driver/OriginalModel.h"
#include "tools/driver/base/InputOptions.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FileSystem.h"
#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

namespace cleave {

static llvm::Error fail(const llvm::Twine &message) {
  return llvm::createStringError(llvm::inconvertibleErrorCode(), message);
}

std::string VerifyReport::Output::describe() const {
  return (signature.empty() ? "" : signature + ": ") + name + (sizes.empty() ? "" : " at " + sizes) +
         (call ? ", call " + std::to_string(call) : "");
}

bool VerifyReport::ok() const {
  return llvm::all_of(outputs, [](const Output &output) { return output.ok; });
}
double VerifyReport::maxAbsError() const {
  double most = 0;
  for (const Output &output : outputs)
    most = std::max(most, output.maxAbsError);
  return most;
}
double VerifyReport::maxRelError() const {
  double most = 0;
  for (const Output &output : outputs)
    most = std::max(most, output.maxRelError);
  return most;
}

std::string inputsBeside(llvm::StringRef model) {
  model.consume_back(".pt");
  const std::string path = (model + ".inputs.safetensors").str();
  llvm::sys::fs::file_status status;
  const bool isThere = !llvm::sys::fs::status(path, status, /*Follow=*/false) &&
                       status.type() == llvm::sys::fs::file_type::regular_file;
  return isThere ? path : "";
}

static llvm::Expected<std::vector<at::Tensor>> readInputs(const plan::Signature &signature,
                                                          const std::string &path) {
  auto tensors = runtime::readTensors(path);
  if (!tensors)
    return tensors.takeError();
  return runtime::matchInputs(signature, *tensors, path);
}

/// Numbers in [0, 1); zeros and ones for integers, which are valid indices of any table.
static std::vector<at::Tensor> makeInputs(const plan::Signature &signature) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(uint64_t{0});
  std::vector<int64_t> traced;
  for (auto &symbol : signature.symbols)
    traced.push_back(symbol->traced);
  std::vector<at::Tensor> inputs;
  for (auto &input : signature.inputs) {
    std::vector<int64_t> shape;
    for (auto &dim : input->type->dims)
      shape.push_back(plan::evaluate(*dim, traced).value_or(1));
    auto dtype = *runtime::scalarTypeOf(input->type->dtype);
    inputs.push_back(at::isFloatingType(dtype) ? at::rand(shape, generator, at::kFloat).to(dtype)
                                               : at::randint(0, 2, shape, generator, at::kLong).to(dtype));
  }
  return inputs;
}

/// The inputs with each dynamic dimension cut or repeated to `sizes`, so that values stay in range.
static std::vector<at::Tensor> resized(const plan::Signature &signature, llvm::ArrayRef<at::Tensor> inputs,
                                       llvm::ArrayRef<int64_t> sizes) {
  std::vector<at::Tensor> result;
  for (auto [input, tensor] : llvm::zip(signature.inputs, inputs)) {
    at::Tensor changed = tensor;
    for (int64_t dim = 0; dim < tensor.dim(); ++dim) {
      int64_t size = plan::evaluate(*input->type->dims[dim], sizes).value_or(tensor.size(dim));
      if (tensor.size(dim) > 0)
        changed = changed.index_select(dim, at::arange(size).remainder(tensor.size(dim)));
    }
    result.push_back(changed);
  }
  return result;
}

/// Other sizes to try: one more of small dimensions and about half of large ones; 1, where models like to
/// behave in their own way; and more of each. Odd ones, so that nothing divides them, times what they must be
/// multiples of, and none at which the model does not run.
static std::vector<std::vector<int64_t>> otherSizes(const plan::Signature &signature) {
  std::vector<int64_t> traced, near, least, larger;
  for (auto &symbol : signature.symbols) {
    int64_t multiple = symbol->divisible_by, size = symbol->traced / multiple;
    auto runnable = [&](int64_t steps) {
      int64_t most = symbol->max / multiple;
      // If there are no larger sizes there may be a smaller one.
      return std::max(multiple * (steps > most ? std::max<int64_t>(1, 2 * size - steps) : steps),
                      symbol->min);
    };
    traced.push_back(symbol->traced);
    near.push_back(runnable(size < 16 ? size + 1 : size / 2 | 1));
    least.push_back(runnable(1));
    larger.push_back(runnable(size < 16 ? size + 2 : (size + size / 8 + 1) | 1));
  }
  std::vector<std::vector<int64_t>> result{near, least, larger};
  llvm::erase(result, traced);
  result.erase(std::unique(result.begin(), result.end()), result.end());
  return result;
}

static llvm::Expected<std::vector<at::Tensor>> runOriginal(const OriginalModel &original,
                                                           llvm::ArrayRef<at::Tensor> inputs) {
  // The model may write to its inputs in place.
  std::vector<at::Tensor> copies;
  for (const at::Tensor &input : inputs)
    copies.push_back(input.clone());
  return original.run(copies);
}

/// Inputs of successive calls of a model with states: the same values rolled, and numbers scaled down, so
/// that they stay in range.
using Inputs = std::vector<at::Tensor>;
static std::vector<Inputs> inputsOfCalls(const Inputs &first, size_t count) {
  std::vector<Inputs> calls(count, first);
  for (size_t call = 1; call < count; ++call)
    for (at::Tensor &input : calls[call]) {
      input = input.roll(call);
      if (at::isFloatingType(input.scalar_type()))
        input = input * (1 - double(call) / 8);
    }
  return calls;
}

/// Outputs of all compared calls, from the saved state on.
using Calls = std::vector<std::vector<at::Tensor>>;
static llvm::Expected<Calls> callOriginal(const OriginalModel &original, llvm::ArrayRef<Inputs> inputs) {
  Calls calls;
  original.resetState();
  for (const Inputs &given : inputs) {
    auto outputs = runOriginal(original, given);
    if (!outputs)
      return outputs.takeError();
    // A later call may write to this output.
    for (at::Tensor &output : calls.emplace_back(std::move(*outputs)))
      output = output.clone();
  }
  return calls;
}

static llvm::Error compareAt(runtime::Session &session, uint32_t index, const Calls &calls,
                             llvm::ArrayRef<Inputs> inputs, const std::string &sizes, VerifyReport &report) {
  const plan::Signature &signature = *session.plan().signatures[index];
  const std::string prefix = session.plan().signatures.size() > 1 ? signature.name : "";
  auto precision = runtime::scalarTypeOf(session.plan().precision);
  if (auto error = session.resetState())
    return error;
  for (auto [call, given, expected] : llvm::enumerate(inputs, calls)) {
    auto actual = session.run(given, {.signature = index});
    if (!actual)
      return actual.takeError();
    if (expected.size() != actual->size())
      return fail("the original gives " + llvm::Twine(expected.size()) + " tensors, the plan " +
                  llvm::Twine(actual->size()));
    for (auto [output, a, b] : llvm::zip(signature.outputs, *actual, expected)) {
      Comparison found = compare(a, b, precision);
      report.outputs.push_back({prefix, output->name, b.sizes().vec(), found.maxAbsError, found.maxRelError,
                                found.error, found.allowed, found.isSame,
                                calls.size() > 1 ? uint32_t(call + 1) : 0, sizes});
    }
  }
  return llvm::Error::success();
}

/// Compares at the sizes of the inputs, then at others. `progress` gets the finished share.
static llvm::Error compareEverywhere(runtime::Session &session, uint32_t index, const OriginalModel &original,
                                     const Inputs &inputs, llvm::function_ref<void(double)> progress,
                                     VerifyReport &report) {
  const plan::Signature &signature = *session.plan().signatures[index];
  const std::vector<std::vector<int64_t>> others = otherSizes(signature);
  constexpr size_t kCallsWithState = 4;
  const size_t count = session.plan().states.empty() ? 1 : kCallsWithState;
  // The original and the plan, at each of the sizes.
  const double runs = 2.0 * (1 + others.size());
  double done = 0;
  auto compareCalls = [&](const Inputs &first, const std::string &sizes) -> llvm::Expected<bool> {
    progress(done++ / runs);
    std::vector<Inputs> calls = inputsOfCalls(first, count);
    auto expected = callOriginal(original, calls);
    if (!expected && count > 1) {
      // Some models fail on rolled values.
      report.skipped.push_back((sizes.empty() ? "" : sizes + ", ") +
                               "calls with other inputs: " + toString(expected.takeError()));
      calls.assign(count, first);
      expected = callOriginal(original, calls);
    }
    progress(done++ / runs);
    if (!expected && sizes.empty())
      return expected.takeError();
    if (!expected) {
      report.skipped.push_back(sizes + ": " + toString(expected.takeError()));
      return false;
    }
    if (auto error = compareAt(session, index, *expected, calls, sizes, report))
      return error;
    return true;
  };
  if (auto compared = compareCalls(inputs, ""); !compared)
    return compared.takeError();
  for (const std::vector<int64_t> &sizes : others) {
    std::string text;
    for (auto [symbol, size] : llvm::zip(signature.symbols, sizes))
      text += (text.empty() ? "" : ", ") + symbol->name + "=" + std::to_string(size);
    if (auto compared = compareCalls(resized(signature, inputs, sizes), text); !compared)
      return llvm::createStringError("at " + text + ": " + toString(compared.takeError()));
  }
  return llvm::Error::success();
}

/// The inputs of a signature: of its file, the file beside the model, or generated.
static llvm::Expected<Inputs> inputsOf(const VerifyOptions &options, const plan::Signature &signature,
                                       llvm::ArrayRef<SignatureFile> files) {
  auto file = llvm::find_if(files, [&](auto &one) { return one.signature == signature.name; });
  const bool isGiven = file != files.end();
  const std::string path = isGiven                        ? file->path
                           : options.useInputsBesideModel ? inputsBeside(options.model)
                                                          : "";
  auto inputs = path.empty() ? llvm::Expected<Inputs>(makeInputs(signature)) : readInputs(signature, path);
  // The file beside the model may not be the inputs of the plan.
  if (!inputs && !isGiven) {
    llvm::consumeError(inputs.takeError());
    inputs = makeInputs(signature);
  }
  if (!inputs)
    return inputs.takeError();
  if (auto sizes = runtime::bindSymbols(signature, *inputs); !sizes)
    return sizes.takeError();
  return inputs;
}

/// The files of inputs by signature, which must be the plan's.
static llvm::Expected<std::vector<SignatureFile>> filesOf(const VerifyOptions &options,
                                                          const plan::Plan &plan) {
  auto files = readSignatureFiles(options.inputsFiles);
  if (!files)
    return files;
  // Without a name, a single file is for the signature that is verified.
  if (files->size() == 1 && files->front().path == options.inputsFiles.front())
    files->front().signature = options.signature.empty() ? plan.signatures.front()->name : options.signature;
  for (const SignatureFile &file : *files)
    if (auto known = runtime::signatureNamed(plan, file.signature, options.plan); !known)
      return known.takeError();
  return files;
}

/// Compares one signature.
static llvm::Error verifySignature(const VerifyOptions &options, runtime::Session &session, uint32_t index,
                                   const TorchScriptFile &file, llvm::ArrayRef<SignatureFile> files,
                                   llvm::function_ref<void(double)> progress, VerifyReport &report) {
  const plan::Plan &plan = session.plan();
  const plan::Tree &outputs = *plan.signatures[index]->output_tree;
  if (outputs.kind == plan::TreeKind::Dict && llvm::is_contained(outputs.keys, "gradients") &&
      llvm::any_of(plan.signatures[index]->outputs,
                   [](auto &output) { return llvm::StringRef(output->name).starts_with("grad."); }))
    return fail(options.plan +
                ": found a plan that gives gradients, which the original does not, expected one without; "
                "compile the model without --gradients to verify it");
  if (llvm::any_of(plan.weights, [](auto &weight) { return weight->trainable; }))
    return fail(options.plan +
                ": found a plan that trains, which the original does not, expected one without "
                "updates; compile the model without --train to verify it");
  OriginalModel original(file, *plan.signatures[index]);
  if (auto error = original.findStates(plan))
    return error;
  auto inputs = inputsOf(options, *plan.signatures[index], files);
  if (!inputs)
    return inputs.takeError();
  auto error = compareEverywhere(session, index, original, *inputs, progress, report);
  // The next signature finds the model as it was saved.
  original.resetState();
  return error;
}

llvm::Expected<VerifyReport> verify(const VerifyOptions &options) {
  auto progress = [&](const char *step, std::optional<double> done = std::nullopt) {
    if (options.progress)
      options.progress(step, done);
  };
  progress("loading the plan");
  auto session =
      runtime::Session::open(options.plan, {.devices = options.devices,
                                            .libraries = options.libraries,
                                            .allowedOperators = options.allowedOperators,
                                            .timeout = std::chrono::seconds(options.timeoutSeconds),
                                            // The command as a whole has a time limit.
                                            .loadTimeout = std::chrono::hours(24 * 365),
                                            .onTimeout = options.onTimeout});
  if (!session)
    return session.takeError();
  auto file = TorchScriptFile::open(
      options.model, [&](double done) { progress("reading the original", done); },
      options.requireListedOperators);
  if (!file)
    return file.takeError();
  const plan::Plan &plan = (*session)->plan();
  if (!llvm::equal(file->fingerprint, *plan.fingerprint->bytes()))
    return fail(options.model + ": is not the model that " + options.plan +
                " was compiled from; give that one");
  auto files = filesOf(options, plan);
  if (!files)
    return files.takeError();
  uint32_t first = 0, end = plan.signatures.size();
  if (!options.signature.empty()) {
    if (auto error = runtime::signatureNamed(plan, options.signature, options.plan).moveInto(first))
      return error;
    end = first + 1;
  }
  try {
    c10::InferenceMode inference;
    VerifyReport report;
    for (uint32_t index = first; index < end; ++index) {
      auto compared = [&](double done) {
        progress("comparing with the original", (index - first + done) / (end - first));
      };
      if (auto error = verifySignature(options, **session, index, *file, *files, compared, report))
        return error;
    }
    return report;
  } catch (const std::exception &e) {
    return fail(options.model + ": " + llvm::StringRef(e.what()).split('\n').first);
  }
}

} // namespace cleave
