//===- VerifyReport.cpp ---------------------------------------------------===//
#include "tools/driver/verify/VerifyReport.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/ErrorHandling.h"
#include <algorithm>

namespace cleave {

using Kind = VerifyReport::Kind;

std::string describe(Kind kind, const VerifyReport::Compared &compared) {
  std::string text = compared.signature.empty() ? "" : compared.signature + ": ";
  text += (kind == Kind::Gradient ? "grad." : kind == Kind::Weight ? "weight " : "") + compared.name;
  if (!compared.sizes.empty())
    text += " at " + compared.sizes;
  if (!compared.witness.empty())
    text += " of witness " + compared.witness;
  if (compared.call)
    text += (kind == Kind::Weight ? " after step " : ", call ") + std::to_string(compared.call);
  return text;
}

std::string describeDraws(llvm::StringRef draws) {
  if (draws.empty())
    return "";
  return (", and the model draws random numbers (" + draws +
          "), others in every run, so that no two runs are the same; trace it without them (dropout: after "
          ".eval()), or use it unverified")
      .str();
}

std::vector<VerifyReport::Compared> &VerifyReport::of(Kind kind) {
  switch (kind) {
  case Kind::Output:
    return outputs;
  case Kind::Gradient:
    return gradients;
  case Kind::Weight:
    return weights;
  case Kind::Witness:
    return witnesses;
  }
  llvm_unreachable("all kinds are handled");
}

void VerifyReport::forEach(llvm::function_ref<void(Kind, const Compared &)> use) const {
  for (auto [kind, all] : {std::pair(Kind::Output, &outputs), std::pair(Kind::Gradient, &gradients),
                           std::pair(Kind::Weight, &weights), std::pair(Kind::Witness, &witnesses)})
    for (const Compared &compared : *all)
      use(kind, compared);
}

std::optional<VerifyReport::Difference> VerifyReport::firstDifference() const {
  std::optional<Difference> first;
  forEach([&](Kind kind, const Compared &compared) {
    if (!compared.ok && !first)
      first = {describe(kind, compared), compared.error, compared.allowed, kind == Kind::Witness};
  });
  return first;
}

double VerifyReport::maxAbsError() const {
  double most = 0;
  forEach([&](Kind, const Compared &compared) { most = std::max(most, compared.maxAbsError); });
  return most;
}

double VerifyReport::maxRelError() const {
  double most = 0;
  forEach([&](Kind, const Compared &compared) { most = std::max(most, compared.maxRelError); });
  return most;
}

} // namespace cleave
