//===- Verify.cpp - Compares a plan with its model ------------------------===//
#include "tools/driver/Verify.h"
#include "frontend/archive/TorchScriptFile.h"
#include "runtime/exchange/Inputs.h"
#include "runtime/exchange/SignatureInputs.h"
#include "runtime/session/Session.h"
#include "tools/driver/base/FilesBeside.h"
#include "tools/driver/base/InputOptions.h"
#include "tools/driver/base/UsageError.h"
#include "tools/driver/verify/PlanComparison.h"
#include "tools/driver/witnesses/WitnessComparison.h"
#include "llvm/ADT/STLExtras.h"

namespace cleave {

static llvm::Error fail(const llvm::Twine &message) {
  return llvm::createStringError(llvm::inconvertibleErrorCode(), message);
}

/// Compares at the sizes of the inputs, then at others. `progress` gets the finished share.
static llvm::Error compareEverywhere(PlanComparison &comparison, const plan::Signature &signature,
                                     llvm::StringRef prefix, const Inputs &inputs,
                                     llvm::function_ref<void(double)> progress, VerifyReport &report) {
  const std::vector<std::vector<int64_t>> others = otherSizes(signature);
  const size_t count = comparison.calls();
  // The original and the plan, at each of the sizes.
  const double runs = 2.0 * (1 + others.size());
  double done = 0;
  auto compareCalls = [&](const Inputs &first, const std::string &sizes) -> llvm::Error {
    progress(done++ / runs);
    std::vector<Inputs> calls = inputsOfCalls(first, count);
    llvm::Error original = comparison.runOriginal(calls);
    if (original && count > 1) {
      // Some models fail on rolled values.
      report.skipped.push_back((sizes.empty() ? "" : sizes + ", ") +
                               "calls with other inputs: " + toString(std::move(original)));
      calls.assign(count, first);
      original = comparison.runOriginal(calls);
    }
    progress(done++ / runs);
    if (original && sizes.empty())
      return original;
    if (original) {
      report.skipped.push_back(sizes + ": " + toString(std::move(original)));
      return llvm::Error::success();
    }
    VerifyReport::Compared where;
    where.signature = prefix.str();
    where.sizes = sizes;
    return comparison.comparePlan(calls, where, report);
  };
  if (auto error = compareCalls(inputs, ""))
    return error;
  for (const std::vector<int64_t> &sizes : others) {
    std::string text;
    for (auto [symbol, size] : llvm::zip(signature.symbols, sizes))
      text += (text.empty() ? "" : ", ") + symbol->name + "=" + std::to_string(size);
    if (auto error = compareCalls(resized(signature, inputs, sizes), text))
      return llvm::createStringError("at " + text + ": " + toString(std::move(error)));
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

static llvm::Expected<std::unique_ptr<PlanComparison>> comparisonOf(const VerifyOptions &options,
                                                                    ComparedPlan compared,
                                                                    std::optional<PlanTraining> training,
                                                                    const Inputs &inputs) {
  const AutogradOptions autograd{options.loss, options.trainable};
  const bool hasGradients = training || !gradientsOf(compared.signature()).empty();
  if (hasGradients && compared.session.plan().precision != plan::DType::Unknown)
    return llvm::createStringError(options.plan +
                                   ": found gradients with products in bfloat16, expected a plan without "
                                   "--dtype; the original's gradients have its own dtypes");
  if (training) {
    if (options.update)
      if (auto error = training->setOptions(*options.update))
        return error;
    return makeTrainingComparison(compared, std::move(*training), autograd, inputs);
  }
  if (hasGradients)
    return makeGradientComparison(compared, autograd, inputs);
  if (!options.loss.empty() || options.trainable)
    return wrongUsage((options.loss.empty() ? "--trainable" : "--loss") +
                      llvm::Twine(": found a plan without gradients, expected one of compile --gradients or "
                                  "--train"));
  return makeOutputComparison(compared);
}

/// \param witnesses  may be null.
static llvm::Error verifySignature(const VerifyOptions &options, runtime::Session &session, uint32_t index,
                                   const TorchScriptFile &file, llvm::ArrayRef<SignatureFile> files,
                                   const WitnessFile *witnesses, llvm::function_ref<void(double)> progress,
                                   VerifyReport &report) {
  const plan::Plan &plan = session.plan();
  const plan::Signature &signature = *plan.signatures[index];
  auto training = trainingOf(plan);
  if (!training)
    return fail(options.plan + ": " + toString(training.takeError()));
  OriginalModel original(file, *training ? *(*training)->inputTree : *signature.input_tree);
  if (auto error = original.findStates(modelStates(plan)))
    return error;
  auto inputs = inputsOf(options, signature, files);
  if (!inputs)
    return inputs.takeError();
  auto comparison = comparisonOf(options, {session, index, original}, std::move(*training), *inputs);
  if (!comparison)
    return comparison.takeError();
  const std::string prefix = plan.signatures.size() > 1 ? signature.name : "";
  auto error = compareEverywhere(**comparison, signature, prefix, *inputs, progress, report);
  // The next signature finds the model as it was saved.
  comparison->reset();
  original.resetState();
  if (!error && witnesses)
    return compareWithWitnesses(session, index, prefix, *witnesses, report);
  return error;
}

/// Where the plan draws random numbers; empty if it does not.
static std::string drawsOf(const plan::Plan &plan) {
  auto note = llvm::find_if(plan.notes, [](auto &one) { return one->kind == "random"; });
  if (note == plan.notes.end())
    return "";
  return (*note)->op + " in " + ((*note)->module_path.empty() ? "the model itself" : (*note)->module_path);
}

/// An error of a comparison that random numbers may have caused says so.
static llvm::Error withDraws(llvm::Error error, const std::string &draws) {
  if (!error || draws.empty() || error.isA<UsageError>())
    return error;
  std::string text = llvm::toString(std::move(error));
  return fail(llvm::StringRef(text).contains("random numbers") ? text : text + describeDraws(draws));
}

llvm::Expected<VerifyReport> verify(const VerifyOptions &options) {
  if (options.trainable)
    if (auto error = checkPatterns("--trainable", *options.trainable))
      return error;
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
  FoundWitnesses witnesses;
  if (options.useWitnesses)
    if (auto error = findWitnesses(options.model, file->serializationId).moveInto(witnesses))
      return error;
  try {
    VerifyReport report;
    report.draws = drawsOf(plan);
    for (const std::string *note : {&witnesses.missingReason, &witnesses.unusedReason})
      if (!note->empty())
        report.notes.push_back(*note);
    for (uint32_t index = first; index < end; ++index) {
      auto compared = [&](double done) {
        progress("comparing with the original", (index - first + done) / (end - first));
      };
      if (auto error =
              withDraws(verifySignature(options, **session, index, *file, *files,
                                        witnesses.file ? &*witnesses.file : nullptr, compared, report),
                        report.draws))
        return error;
    }
    return report;
  } catch (const std::exception &e) {
    return withDraws(fail(options.model + ": " + llvm::StringRef(e.what()).split('\n').first), drawsOf(plan));
  }
}

} // namespace cleave
