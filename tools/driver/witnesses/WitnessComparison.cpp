//===- WitnessComparison.cpp - A plan beside the module -------------------===//
#include "tools/driver/witnesses/WitnessComparison.h"
#include "codegen/plan/text/Printable.h"
#include "runtime/base/DTypes.h"
#include "runtime/exchange/Inputs.h"
#include "tools/driver/verify/Comparison.h"
#include "tools/driver/verify/PlanComparison.h"
#include "tools/driver/witnesses/Projection.h"
#include "llvm/ADT/STLExtras.h"
#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <cmath>

namespace cleave {

static constexpr double kInfinity = std::numeric_limits<double>::infinity();

namespace {
/// The worst of several pairs of numbers.
class WorstError {
public:
  /// \param size  magnitude that the error is relative to.
  void add(double found, double expected, double allowed, double size) {
    const bool isSame = found == expected || (std::isnan(found) && std::isnan(expected));
    double error = isSame ? 0 : std::abs(found - expected);
    if (std::isnan(error))
      error = kInfinity;
    constexpr double kLeast = std::numeric_limits<double>::min();
    compared.ok &= error <= allowed;
    compared.maxAbsError = std::max(compared.maxAbsError, error);
    compared.maxRelError = std::max(compared.maxRelError, error / std::max(size, kLeast));
    const double ratio = error / std::max(allowed, kLeast);
    if (ratio >= worst) {
      worst = ratio;
      compared.error = error;
      compared.allowed = allowed;
    }
  }
  VerifyReport::Compared compared;

private:
  double worst = 0;
};
} // namespace

static VerifyReport::Compared compareProjection(const at::Tensor &found, const WitnessedOutput &expected,
                                                std::optional<at::ScalarType> precision) {
  WorstError errors;
  errors.compared.shape = expected.shape;
  const at::Tensor real = found.is_complex() ? at::view_as_real(found.resolve_conj()) : found;
  if (!llvm::equal(real.sizes(), expected.shape)) {
    errors.add(kInfinity, 0, 0, 1);
    return errors.compared;
  }
  const Projection own = project(found);
  // Sums of integers are exact as long as they are no larger than 2^52; one that is off by 1 shows by 1 / √n.
  const double root = std::sqrt(double(own.blockSize));
  const bool isExact = c10::isIntegralType(found.scalar_type(), /*includeBool=*/true);
  double tolerance = toleranceOf(found.scalar_type());
  if (precision)
    tolerance = std::max(tolerance, toleranceOf(*precision));
  // As in Comparison.h: the tolerance times the typical magnitude, bounded so that small outputs are not
  // compared with 1.
  const double scale = std::min(typicalMagnitude(found), expected.largest);
  const double baseTolerance = isExact ? 0
                                       : std::max<double>(std::min(tolerance * std::max(1.0, scale),
                                                                   std::min(100 * tolerance, 0.1) * scale),
                                                          std::numeric_limits<float>::min());
  auto allowedOf = [&](double magnitude) {
    return isExact ? 0 : std::max(baseTolerance, tolerance * std::min(magnitude, expected.largest));
  };
  double largest = 0;
  for (auto [block, sum] : llvm::enumerate(own.sums)) {
    const double exact = std::max(0.5, double(own.blockSize) * expected.largest * std::ldexp(1, -52)) / root;
    errors.add(sum, expected.sums[block], isExact ? exact : allowedOf(own.largest[block]), expected.largest);
    const int64_t nonfinite = expected.nonfinite.empty() ? 0 : expected.nonfinite[block];
    if (own.nonfinite[block] != nonfinite)
      errors.add(kInfinity, 0, 0, 1);
    largest = std::max(largest, own.largest[block]);
  }
  for (auto [one, other] : llvm::zip(own.samples, expected.samples))
    errors.add(one, other, allowedOf(std::isfinite(other) ? std::abs(other) : 0), expected.largest);
  errors.add(largest, expected.largest, allowedOf(expected.largest), expected.largest);
  return errors.compared;
}

VerifyReport::Compared compareWithWitness(const at::Tensor &found, const WitnessedOutput &expected,
                                          std::optional<at::ScalarType> precision) {
  if (!expected.whole.defined())
    return compareProjection(found, expected, precision);
  const bool isReal = found.is_complex() && !expected.whole.is_complex();
  return compareValue(isReal ? at::view_as_real(found.resolve_conj()) : found, expected.whole, precision);
}

/// The leaves of the signature's inputs among those of the witness; nothing if the signature does not take
/// them.
static std::optional<std::vector<at::Tensor>> inputsOf(const plan::Signature &signature,
                                                       const Witness &witness) {
  std::vector<at::Tensor> inputs;
  for (const auto &input : signature.inputs) {
    auto found = llvm::find_if(witness.inputs, [&](auto &one) { return one.name == input->name; });
    if (found == witness.inputs.end())
      return std::nullopt;
    inputs.push_back(found->tensor);
  }
  if (auto sizes = runtime::bindSymbols(signature, inputs); !sizes) {
    llvm::consumeError(sizes.takeError());
    return std::nullopt;
  }
  return inputs;
}

/// The outputs of the signature that the witness has, by index.
static std::vector<std::pair<size_t, const WitnessedOutput *>> outputsOf(const plan::Signature &signature,
                                                                         const Witness &witness) {
  std::vector<std::pair<size_t, const WitnessedOutput *>> outputs;
  for (auto [index, output] : llvm::enumerate(signature.outputs)) {
    auto found = llvm::find_if(witness.outputs, [&](auto &one) { return one.name == output->name; });
    if (found != witness.outputs.end())
      outputs.push_back({index, &*found});
  }
  return outputs;
}

llvm::Error compareWithWitnesses(runtime::Session &session, uint32_t index, llvm::StringRef prefix,
                                 const WitnessFile &file, VerifyReport &report) {
  const plan::Plan &plan = session.plan();
  const plan::Signature &signature = *plan.signatures[index];
  if (llvm::any_of(plan.weights, [](auto &weight) { return weight->trainable; }) ||
      !gradientsOf(signature).empty())
    return llvm::Error::success();
  if (!report.draws.empty()) {
    const std::string note = "not compared with the module's own answers: the model draws random numbers (" +
                             report.draws + "), others in every run";
    if (!llvm::is_contained(report.notes, note))
      report.notes.push_back(note);
    return llvm::Error::success();
  }
  c10::InferenceMode inference;
  const auto precision = computeDTypeOf(plan);
  const size_t before = report.witnessNames.size();
  for (const Witness &witness : file.witnesses) {
    auto inputs = inputsOf(signature, witness);
    const auto outputs = outputsOf(signature, witness);
    if (!inputs || outputs.empty())
      continue;
    const std::string name = plan::printable(witness.name, 100);
    if (auto error = session.resetState())
      return error;
    auto found = session.run(*inputs, {.signature = index});
    if (!found)
      return llvm::createStringError("on the inputs of witness " + name + ": " +
                                     llvm::toString(found.takeError()));
    VerifyReport::Compared where;
    where.signature = prefix.str();
    where.witness = name;
    for (auto [output, expected] : outputs)
      addTo(report, VerifyReport::Kind::Witness, where,
            compareWithWitness((*found)[output], *expected, precision), signature.outputs[output]->name,
            /*call=*/0);
    report.witnessNames.push_back((prefix.empty() ? "" : prefix.str() + ": ") + name);
    if (!plan.states.empty())
      break;
  }
  if (report.witnessNames.size() == before)
    report.notes.push_back(
        (prefix.empty() ? "" : prefix.str() + ": ") +
        "not compared with the module's own answers: it gave none to inputs of these sizes");
  return llvm::Error::success();
}

} // namespace cleave
