//===- Wording.cpp - Facts of a plan as text ------------------------------===//
#include "tools/cleave/text/Wording.h"
#include "codegen/plan/PlanQueries.h"
#include "codegen/plan/Safetensors.h"
#include "codegen/plan/WitnessedRange.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

namespace cleave {

using namespace plan;
using llvm::formatv;

std::string megabytes(int64_t bytes) { return formatv("{0:f2}", bytes / 1e6); }

std::string sizeText(int64_t bytes) {
  for (auto [unit, size] :
       {std::pair("TB", int64_t(1e12)), {"GB", int64_t(1e9)}, {"MB", int64_t(1e6)}, {"KB", int64_t(1e3)}})
    if (bytes > 0 && bytes % size == 0)
      return formatv("{0} {1}", bytes / size, unit);
  return count(bytes, "byte");
}

std::string milliseconds(double seconds) { return formatv("{0:f2}", seconds * 1e3); }

std::string count(uint64_t number, llvm::StringRef noun) {
  llvm::StringRef ending = number == 1 ? "" : noun.ends_with("ch") ? "es" : "s";
  return formatv("{0} {1}{2}", number, noun, ending);
}

std::string meshText(const Mesh &mesh) {
  uint64_t devices = static_cast<uint64_t>(mesh.pp) * mesh.dp * mesh.tp;
  return formatv("pp={0} dp={1} tp={2}, {3}", mesh.pp, mesh.dp, mesh.tp, count(devices, "device"));
}

std::string microbatchesText(const Plan &plan, uint64_t microbatches) {
  return count(microbatches, "micro-batch") + (plan.mesh->dp > 1 ? " a data-parallel rank" : "");
}

std::string devicesText(const Plan &plan, const Stage &stage) {
  const std::string first = deviceOf(plan, stage.ranks.front()), last = deviceOf(plan, stage.ranks.back());
  return first == last ? first : first + ".." + last;
}

std::string stagesText(llvm::ArrayRef<uint32_t> stages) {
  auto numbers = llvm::map_range(stages, [](uint32_t stage) { return std::to_string(stage); });
  return formatv("stage{0} {1}", stages.size() == 1 ? "" : "s", llvm::join(numbers, ", "));
}

std::string typeText(const Signature &signature, const TensorType &type) {
  std::string dimensions = type.ranked ? llvm::join(dimensionsOf(signature, type), ", ") : "…";
  return formatv("{0}[{1}]", nameOf(type.dtype), dimensions);
}

std::string sizesText(const Signature &signature, llvm::ArrayRef<int64_t> sizes) {
  std::vector<std::string> texts;
  for (auto [symbol, size] : llvm::zip(signature.symbols, sizes))
    texts.push_back(formatv("{0}={1}", symbol->name, size));
  return llvm::join(texts, ", ");
}

std::string witnessedText(const Signature &signature) {
  std::vector<std::string> texts;
  for (const auto &symbol : signature.symbols)
    if (auto range = witnessedRange(*symbol))
      texts.push_back(symbol->name + " " + range->str());
  return llvm::join(texts, ", ");
}

std::string witnessesText(uint64_t number) {
  return number == 1 ? "1 size" : formatv("{0} sizes and values", number).str();
}

std::string placeText(const Note &note) {
  llvm::StringRef between = note.module_path.empty() || note.op.empty() ? "" : " ";
  return (note.module_path + between + note.op).str();
}

} // namespace cleave
