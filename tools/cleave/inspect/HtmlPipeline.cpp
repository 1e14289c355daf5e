//===- HtmlPipeline.cpp - Stages of a plan --------------------------------===//
#include "tools/cleave/inspect/HtmlPipeline.h"
#include "codegen/plan/PlanQueries.h"
#include "tools/cleave/inspect/ModuleTree.h"
#include "tools/cleave/text/Wording.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/FormatVariadic.h"
#include <algorithm>

namespace cleave {

using namespace plan;
using llvm::formatv;

/// Number of stages that are visible at once; with more there is an overview.
static constexpr size_t kSeenAtOnce = 6;
/// Most rows of modules per stage before unfolding, unless the model itself has more modules.
static constexpr size_t kMaxRows = 14;
/// Most rows of arrows that skip stages.
static constexpr size_t kMaxLanes = 6;

namespace {
/// The scale of bars: the largest of all stages.
struct Scale {
  double seconds = 0, bytes = 0;
};

struct StageModules {
  std::vector<ModuleNode> tree;
  /// Paths of the largest modules that lie in one stage only.
  llvm::StringSet<> whole;
};

class PipelineWriter {
public:
  PipelineWriter(HtmlWriter &html, const Plan &plan);
  void write();

private:
  void writeOverview();
  void writeLanes();
  void writeArrow(const Transfer &transfer);
  void writeAmountOf(const Transfer &transfer);
  void writeStage(const Stage &stage);
  void writeTime(const Prediction &prediction);
  void writeMemory(const Prediction &prediction);
  void writeModules(const Stage &stage);
  void writeModule(const StageModules &modules, uint32_t index, llvm::StringRef name, llvm::StringRef remark);
  void writeOwn(const ModuleNode &node, llvm::StringRef name, llvm::StringRef remark);
  void writeRow(llvm::StringRef name, llvm::StringRef remark, uint32_t ops, int64_t weightBytes);

  HtmlWriter &html;
  const Plan &plan;
  const std::vector<Transfer> transfers = plan::transfers(plan, 0);
  const std::vector<int64_t> sizes = microbatchSizes(plan, 0);
  const std::vector<int64_t> weightBytes = weightBytesOfStages(plan);
  const std::vector<std::vector<ModuleShare>> shares = modulesOfStages(plan);
  Scale scale;
};
} // namespace

PipelineWriter::PipelineWriter(HtmlWriter &html, const Plan &plan) : html(html), plan(plan) {
  for (const auto &prediction : plan.predictions) {
    scale.seconds = std::max(scale.seconds, prediction->seconds);
    scale.bytes = std::max(scale.bytes, double(prediction->peak_bytes));
  }
}

/// Style of a bar that fills `part` of `whole`.
static std::string shareOf(double part, double whole) {
  return formatv("--share:{0:f4}", whole > 0 ? std::min(part / whole, 1.0) : 0).str();
}

/// Style of an element in these grid columns: a stage takes two, the gap behind it one.
static std::string columns(uint32_t first, uint32_t end) {
  return formatv("grid-column:{0}/{1}", first, end).str();
}

static std::string idOf(uint32_t stage) { return "stage-" + std::to_string(stage); }

//===- Overview -----------------------------------------------------------===//

/// Writes bars of each stage's time and memory, which link to the stage.
void PipelineWriter::writeOverview() {
  auto overview = html.element("nav", {{"class", "overview"}, {"aria-label", "Stages at a glance"}});
  html.leaf("span", "time", {{"class", "of-time"}});
  html.leaf("span", "memory", {{"class", "of-memory"}});
  auto bars = html.element("div", {{"class", "bars"}});
  if (std::optional<Balance> balance = balanceOf(plan))
    html.leaf("i", "", {{"class", "mean"}, {"style", shareOf(balance->mean, balance->slowest)}});
  // Leaves out numbers that would touch each other.
  const size_t step = plan.stages.size() / 50 + 1;
  for (const auto &stage : plan.stages) {
    const Prediction *prediction = predictionOf(plan, stage->index);
    std::string what = prediction
                           ? formatv("Stage {0}: {1} ms, {2} MB", stage->index,
                                     milliseconds(prediction->seconds), megabytes(prediction->peak_bytes))
                                 .str()
                           : formatv("Stage {0}", stage->index).str();
    auto link =
        html.element("a", {{"href", "#" + idOf(stage->index)}, {"title", what}, {"aria-label", what}});
    auto bar = [&](const char *kind, double part, double whole) {
      html.leaf("i", "", {{"class", kind}, {"style", shareOf(part, whole)}});
    };
    bar("time", prediction ? prediction->seconds : 0, scale.seconds);
    bar("memory", prediction ? prediction->peak_bytes : 0, scale.bytes);
    html.leaf("b", stage->index % step == 0 ? std::to_string(stage->index) : "");
  }
}

//===- Traffic ------------------------------------------------------------===//

void PipelineWriter::writeAmountOf(const Transfer &transfer) {
  if (plan.stages[transfer.from]->ranks == plan.stages[transfer.to]->ranks) {
    html.leaf("span", "same device");
    return;
  }
  int64_t bytes = bytesOf(plan, 0, transfer, sizes);
  html.amount("bytes_per_microbatch", bytes, megabytes(bytes) + " MB");
}

/// Writes an arrow between neighbouring stages.
void PipelineWriter::writeArrow(const Transfer &transfer) {
  auto arrow = html.element("div", {{"class", "arrow"},
                                    {"style", columns(3 * transfer.from + 3, 3 * transfer.from + 4)},
                                    {"data-transfer", formatv("{0}-{1}", transfer.from, transfer.to).str()}});
  writeAmountOf(transfer);
}

/// Writes arrows that skip stages, above them: from the middle of the sender to the middle of the receiver.
void PipelineWriter::writeLanes() {
  std::vector<uint32_t> ends;
  size_t left = 0;
  for (const Transfer &transfer : transfers) {
    if (transfer.to == transfer.from + 1)
      continue;
    size_t lane = llvm::find_if(ends, [&](uint32_t end) { return end < transfer.from; }) - ends.begin();
    if (lane == kMaxLanes) {
      ++left;
      continue;
    }
    ends.resize(std::max(ends.size(), lane + 1));
    ends[lane] = transfer.to;
    auto arrow =
        html.element("div", {{"class", "lane"},
                             {"style", columns(3 * transfer.from + 2, 3 * transfer.to + 2) +
                                           formatv(";grid-row:{0}", lane + 1).str()},
                             {"data-transfer", formatv("{0}-{1}", transfer.from, transfer.to).str()}});
    auto label = html.element("span");
    html.text(formatv("{0} → {1} · ", transfer.from, transfer.to));
    writeAmountOf(transfer);
  }
  if (left)
    html.leaf("p", formatv("{0} more over other stages: see Traffic", left), {{"class", "more"}});
}

//===- A stage ------------------------------------------------------------===//

void PipelineWriter::writeTime(const Prediction &prediction) {
  auto meter = html.element("div", {{"class", "meter"}});
  html.leaf("span", "Time");
  html.amount("predicted_seconds", prediction.seconds, milliseconds(prediction.seconds) + " ms");
  auto bar = html.element("div", {{"class", "bar"}, {"aria-hidden", "true"}});
  html.leaf("i", "", {{"class", "time"}, {"style", shareOf(prediction.seconds, scale.seconds)}});
}

void PipelineWriter::writeMemory(const Prediction &prediction) {
  auto meter = html.element("div", {{"class", "meter"}});
  html.leaf("span", "Memory");
  html.amount("predicted_peak_bytes", prediction.peak_bytes, megabytes(prediction.peak_bytes) + " MB");
  {
    auto bar = html.element("div", {{"class", "bar"}, {"aria-hidden", "true"}});
    html.leaf("i", "", {{"class", "weights"}, {"style", shareOf(prediction.weight_bytes, scale.bytes)}});
    html.leaf("i", "",
              {{"class", "activations"}, {"style", shareOf(prediction.activation_bytes, scale.bytes)}});
  }
  auto parts = html.element("p", {{"class", "parts"}});
  html.leaf("i", "", {{"class", "weights"}, {"aria-hidden", "true"}});
  html.amount("weight_bytes", weightBytes[prediction.stage], megabytes(weightBytes[prediction.stage]));
  html.text(" weights ");
  html.leaf("i", "", {{"class", "activations"}, {"aria-hidden", "true"}});
  html.amount("predicted_activation_bytes", prediction.activation_bytes,
              megabytes(prediction.activation_bytes));
  html.text(" activations");
}

void PipelineWriter::writeStage(const Stage &stage) {
  const Prediction *prediction = predictionOf(plan, stage.index);
  bool isSlowest = prediction && plan.stages.size() > 1 && prediction->seconds == scale.seconds;
  auto article = html.element("article", {{"class", isSlowest ? "stage slowest" : "stage"},
                                          {"id", idOf(stage.index)},
                                          {"data-stage", std::to_string(stage.index)},
                                          {"style", columns(3 * stage.index + 1, 3 * stage.index + 3)}});
  {
    auto head = html.element("header");
    html.leaf("h3", formatv("Stage {0}", stage.index));
    html.leaf("span", devicesText(plan, stage), {{"class", "device"}});
    if (isSlowest)
      html.leaf("span", "slowest", {{"class", "flag"}});
  }
  if (prediction) {
    writeTime(*prediction);
    writeMemory(*prediction);
  } else {
    html.leaf("p", "Not predicted", {{"class", "parts"}});
  }
  writeModules(stage);
}

//===- Modules ------------------------------------------------------------===//

/// Descends to the first module that is whole, has ops or weights of its own, or has several submodules.
static uint32_t skipOnlyChildren(const StageModules &modules, uint32_t index) {
  auto leadsOn = [&](const ModuleNode &node) {
    return node.children.size() == 1 && !node.ownOps && !node.ownWeightBytes &&
           !modules.whole.contains(node.path);
  };
  while (leadsOn(modules.tree[index]))
    index = modules.tree[index].children.front();
  return index;
}

namespace {
/// A row of the first level.
struct Row {
  uint32_t node, depth;
  /// True for the module without its submodules, which have rows of their own.
  bool isOwn = false;
};
} // namespace

/// Chooses whole modules, and parts of others, as deep as the number of rows allows.
static std::vector<Row> chooseRows(const StageModules &modules) {
  llvm::ArrayRef<ModuleNode> tree = modules.tree;
  std::vector<Row> rows{{0, 0}};
  while (true) {
    auto widest = rows.end();
    for (auto row = rows.begin(); row != rows.end(); ++row) {
      const ModuleNode &node = tree[row->node];
      bool opens =
          !row->isOwn && !node.children.empty() && (row->depth == 0 || !modules.whole.contains(node.path));
      bool fits = row->depth == 0 || rows.size() + node.children.size() <= kMaxRows;
      if (opens && fits && (widest == rows.end() || row->depth < widest->depth))
        widest = row;
    }
    if (widest == rows.end())
      return rows;
    const Row opened = *widest;
    std::vector<Row> inside;
    for (uint32_t child : tree[opened.node].children)
      inside.push_back({skipOnlyChildren(modules, child), opened.depth + 1});
    if (tree[opened.node].ownOps || tree[opened.node].ownWeightBytes)
      inside.push_back({opened.node, opened.depth + 1, true});
    rows.insert(rows.erase(widest), inside.begin(), inside.end());
  }
}

void PipelineWriter::writeRow(llvm::StringRef name, llvm::StringRef remark, uint32_t ops,
                              int64_t weightBytes) {
  {
    auto path = html.element("span", {{"class", "path"}});
    html.name(name);
    if (!remark.empty())
      html.leaf("small", " " + remark);
  }
  html.leaf("span", ops ? std::to_string(ops) : "–");
  html.leaf("span", weightBytes ? megabytes(weightBytes) : "–");
}

void PipelineWriter::writeOwn(const ModuleNode &node, llvm::StringRef name, llvm::StringRef remark) {
  auto item = html.element("li");
  auto row = html.element("div", {{"class", "row own"}});
  writeRow(name, remark, node.ownOps, node.ownWeightBytes);
}

/// Writes the module as `name` and, unfolded, its submodules.
void PipelineWriter::writeModule(const StageModules &modules, uint32_t index, llvm::StringRef name,
                                 llvm::StringRef remark) {
  const ModuleNode &node = modules.tree[index];
  auto item = html.element("li");
  if (node.children.empty()) {
    auto row = html.element("div", {{"class", "row"}});
    writeRow(name, "", node.ops, node.weightBytes);
    return;
  }
  auto details = html.element("details");
  {
    auto summary = html.element("summary", {{"class", "row"}});
    writeRow(name, remark, node.ops, node.weightBytes);
  }
  auto list = html.element("ul");
  for (uint32_t child : node.children) {
    uint32_t shown = skipOnlyChildren(modules, child);
    llvm::StringRef path = modules.tree[shown].path;
    writeModule(modules, shown, path.drop_front(node.path.size() + 1), "");
  }
  if (node.ownOps || node.ownWeightBytes)
    writeOwn(node, "", "between these");
}

void PipelineWriter::writeModules(const Stage &stage) {
  StageModules modules{nestModules(shares[stage.index]), {}};
  for (const std::string &path : stage.module_paths)
    modules.whole.insert(path);
  {
    auto head = html.element("div", {{"class", "row head"}});
    html.leaf("span", "Modules");
    html.amount("ops", stage.ops, count(stage.ops, "op"));
    html.leaf("span", "MB");
  }
  auto list = html.element("ul", {{"class", "modules"}});
  for (const Row &row : chooseRows(modules)) {
    const ModuleNode &node = modules.tree[row.node];
    if (row.isOwn)
      writeOwn(node, node.path, node.path.empty() ? "the model itself" : "itself");
    else
      writeModule(modules, row.node, node.path, modules.whole.contains(node.path) ? "" : "in part");
  }
}

//===- The pipeline -------------------------------------------------------===//

void PipelineWriter::write() {
  if (plan.stages.size() > kSeenAtOnce)
    writeOverview();
  // Focusable, so that keys scroll it.
  auto pipeline = html.element("div", {{"class", "pipeline"},
                                       {"role", "region"},
                                       {"tabindex", "0"},
                                       {"aria-label", "Stages side by side, which scroll sideways"}});
  writeLanes();
  for (const auto &stage : plan.stages)
    writeStage(*stage);
  for (const Transfer &transfer : transfers)
    if (transfer.to == transfer.from + 1)
      writeArrow(transfer);
}

void writePipeline(HtmlWriter &html, const Plan &plan) { PipelineWriter(html, plan).write(); }

} // namespace cleave
