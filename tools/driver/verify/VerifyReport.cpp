//===- VerifyReport.cpp ---------------------------------------------------===//
#include "tools/driver/verify/VerifyReport.h"
#include <algorithm>

namespace cleave {

using Kind = VerifyReport::Kind;

std::string describe(Kind kind, const VerifyReport::Compared &compared) {
  std::string text = compared.signature.empty() ? "" : compared.signature + ": ";
  text += (kind == Kind::Gradient ? "grad." : kind == Kind::Weight ? "weight " : "") + compared.name;
  if (!compared.sizes.empty())
    text += " at " + compared.sizes;
  if (compared.call)
    text += (kind == Kind::Weight ? " after step " : ", call ") + std::to_string(compared.call);
  return text;
}

std::vector<VerifyReport::Compared> &VerifyReport::of(Kind kind) {
  return kind == Kind::Output ? outputs : kind == Kind::Gradient ? gradients : weights;
}

void VerifyReport::forEach(llvm::function_ref<void(Kind, const Compared &)> use) const {
  for (auto [kind, all] : {std::pair(Kind::Output, &outputs), std::pair(Kind::Gradient, &gradients),
                           std::pair(Kind::Weight, &weights)})
    for (const Compared &compared : *all)
      use(kind, compared);
}

std::optional<VerifyReport::Difference> VerifyReport::firstDifference() const {
  std::optional<Difference> first;
  forEach([&](Kind kind, const Compared &compared) {
    if (!compared.ok && !first)
      first = {describe(kind, compared), compared.error, compared.allowed};
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
