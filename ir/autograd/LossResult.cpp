//===- LossResult.cpp - Which result is the loss --------------------------===//
#include "ir/autograd/LossResult.h"
#include "ir/Signature.h"
#include "ir/autograd/LossAttributes.h"

using namespace mlir;

namespace cleave {

std::optional<unsigned> indexOfLoss(func::FuncOp function, StringRef name) {
  const std::string wanted = name.empty() ? "loss" : name.str();
  SmallVector<unsigned> exact, suffixed;
  std::string names;
  SmallVector<unsigned> results;
  for (unsigned i = 0; i < function.getNumResults(); ++i)
    if (!function.getResultAttr(i, kLossNormalizerAttr))
      results.push_back(i);
  for (unsigned i : results) {
    auto own = function.getResultAttrOfType<StringAttr>(i, kNameAttr);
    names += (names.empty() ? "" : ", ") + (own ? own.str() : "result " + std::to_string(i));
    if (own && own.getValue() == wanted)
      exact.push_back(i);
    else if (own && own.getValue().ends_with("." + wanted))
      suffixed.push_back(i);
  }
  const SmallVector<unsigned> &found = exact.empty() ? suffixed : exact;
  if (found.size() == 1)
    return found[0];
  if (name.empty() && results.size() == 1)
    return results[0];
  function.emitError() << "the loss: found " << (names.empty() ? "no results" : names) << ", expected "
                       << (found.empty() ? "a result '" : "one result '") << wanted
                       << "'; name one of these (--loss NAME), attach a loss of one (--loss 'mse(output, "
                          "target)'), or trace the model "
                       << "with labels";
  return std::nullopt;
}

} // namespace cleave
