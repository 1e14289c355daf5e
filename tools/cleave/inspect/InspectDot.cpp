//===- InspectDot.cpp - A plan as Graphviz draws it -----------------------===//
#include "codegen/plan/PlanQueries.h"
#include "tools/cleave/inspect/Inspect.h"
#include "tools/cleave/text/Wording.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

namespace cleave {

using namespace plan;
using llvm::formatv;

/// Most modules that a stage names; the rest is counted.
static constexpr size_t kShownModules = 8;

/// A line of a label. Escapes (\N, \n) and entities (&lt;), which Graphviz would read, are escaped.
static std::string line(llvm::StringRef text) {
  std::string escaped;
  for (char c : text) {
    if (c == '"' || c == '\\')
      escaped += '\\';
    escaped += c;
    if (c == '&')
      escaped += "amp;";
  }
  return escaped + "\\l";
}

static std::string labelOf(const Plan &plan, const Stage &stage, int64_t weightBytes) {
  std::string label = line(formatv("stage {0}, {1}", stage.index, devicesText(plan, stage)).str());
  if (const Prediction *prediction = predictionOf(plan, stage.index))
    label +=
        line(milliseconds(prediction->seconds) + " ms, peak " + megabytes(prediction->peak_bytes) + " MB");
  label += line(count(stage.ops, "op") + ", " + megabytes(weightBytes) + " MB of weights");
  llvm::ArrayRef<std::string> paths = stage.module_paths;
  for (const std::string &path : paths.take_front(kShownModules))
    label += line(path);
  if (paths.size() > kShownModules)
    label += line(formatv("+{0} more", paths.size() - kShownModules).str());
  return label;
}

void printDot(llvm::raw_ostream &stream, const LoadedPlan &loaded) {
  const Plan &plan = *loaded.plan;
  std::vector<int64_t> weightBytes = weightBytesOfStages(plan), sizes = microbatchSizes(plan, 0);
  stream << "// Stages, and what one micro-batch sends between them.\n"
            "digraph plan {\n"
            "  rankdir=LR;\n"
            "  node [shape=box, fontname=\"sans-serif\", fontsize=11];\n"
            "  edge [fontname=\"sans-serif\", fontsize=10];\n";
  for (const auto &stage : plan.stages)
    stream << formatv("  s{0} [label=\"{1}\"];\n", stage->index,
                      labelOf(plan, *stage, weightBytes[stage->index]));
  for (const Transfer &transfer : transfers(plan, 0))
    stream << formatv("  s{0} -> s{1} [label=\"{2} MB\"];\n", transfer.from, transfer.to,
                      megabytes(bytesOf(plan, 0, transfer, sizes)));
  stream << "}\n";
}

} // namespace cleave
