//===- SignatureInputs.cpp - Inputs of a request, by name -----------------===//
#include "runtime/exchange/SignatureInputs.h"
#include "runtime/base/Values.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

namespace cleave::runtime {

llvm::Expected<uint32_t> signatureNamed(const plan::Plan &plan, llvm::StringRef name, llvm::StringRef file) {
  std::vector<std::string> names;
  for (const auto &signature : plan.signatures) {
    if (signature->name == name)
      return names.size();
    names.push_back(signature->name);
  }
  return llvm::createStringError(file + ": there is no signature " + name +
                                 "; signatures are: " + llvm::join(names, ", "));
}

std::string describeInputs(const plan::Signature &signature) {
  std::vector<std::string> symbols;
  for (const auto &symbol : signature.symbols)
    symbols.push_back(symbol->name);
  auto inputs = llvm::map_range(signature.inputs, [&](const auto &input) {
    return input->name + " " + describe(*input->type, symbols);
  });
  return llvm::join(inputs, ", ");
}

/// The entry of `names`, which is not empty, that is most similar to `name`.
static std::string nearest(llvm::StringRef name, llvm::ArrayRef<std::string> names) {
  return *llvm::min_element(names, [&](llvm::StringRef a, llvm::StringRef b) {
    return name.edit_distance(a) < name.edit_distance(b);
  });
}

/// Fails on tensors that are not named after an input.
static llvm::Error checkNames(const plan::Signature &signature, llvm::ArrayRef<NamedTensor> tensors,
                              llvm::StringRef file) {
  std::vector<std::string> names, missing;
  for (const auto &input : signature.inputs) {
    names.push_back(input->name);
    if (llvm::none_of(tensors, [&](const NamedTensor &tensor) { return tensor.name == input->name; }))
      missing.push_back(input->name);
  }
  for (const NamedTensor &tensor : tensors) {
    if (llvm::is_contained(names, tensor.name))
      continue;
    std::string takes = names.empty() ? "none" : describeInputs(signature);
    std::string remedy = missing.empty() ? "which takes " + takes + "; leave it out"
                                         : "did you mean " + nearest(tensor.name, missing) + "?";
    return llvm::createStringError(file + ": tensor " + tensor.name + " is no input of the plan" +
                                   (missing.empty() ? ", " : "; ") + remedy);
  }
  return llvm::Error::success();
}

llvm::Expected<std::vector<at::Tensor>>
matchInputs(const plan::Signature &signature, llvm::ArrayRef<NamedTensor> tensors, llvm::StringRef file) {
  if (llvm::Error error = checkNames(signature, tensors, file))
    return error;
  std::vector<at::Tensor> inputs;
  for (const auto &input : signature.inputs) {
    auto found =
        llvm::find_if(tensors, [&](const NamedTensor &tensor) { return tensor.name == input->name; });
    if (found == tensors.end())
      return llvm::createStringError(file + ": input " + input->name + " is missing, expected " +
                                     describeInputs(signature));
    inputs.push_back(found->tensor);
  }
  return inputs;
}

} // namespace cleave::runtime
