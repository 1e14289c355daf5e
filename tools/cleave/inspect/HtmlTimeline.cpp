//===- HtmlTimeline.cpp - Timeline of devices -----------------------------===//
#include "tools/cleave/inspect/HtmlTimeline.h"
#include "codegen/plan/PlanQueries.h"
#include "tools/cleave/inspect/HtmlChart.h"
#include "tools/cleave/text/Wording.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <algorithm>
#include <set>

namespace cleave {

using llvm::formatv;
using plan::ActionKind;

/// Width of a forward or backward of median length, as far as the least width of the chart allows.
static constexpr double kPixelsOfPass = 26, kMinPixels = 420, kMaxPixels = 2400;
/// Rows of less height have no labels.
static constexpr double kMinLabelled = 13;
/// Actions narrower than the first, with gaps narrower than the second, are merged into one block.
static constexpr double kTinyPixels = 3, kGapPixels = 1.5;
/// Below the rows: axis numbers, and heads of the memory rows.
static constexpr double kAxisHeight = 20, kHeadHeight = 26;
/// Most changes of a memory row that are drawn one by one.
static constexpr size_t kMaxSteps = 2000;

namespace {
/// One action, or several that are too short to be told apart.
struct Block {
  const TimedAction *first, *last;
  double begin, end, seconds;
  size_t count;
};

class TimelineWriter {
public:
  TimelineWriter(HtmlWriter &html, const plan::Plan &plan, const PlanForecast &forecast);
  void write();

private:
  void writeCaption();
  void writeKinds();
  void writeNames();
  void writePasses(uint32_t rank, double top);
  void writeMemory(uint32_t rank, double top);
  void writeBlock(const Block &block, double top, double height);
  std::vector<Block> blocksOf(uint32_t rank, bool arePasses) const;
  std::vector<MemoryStep> stepsOf(uint32_t rank) const;
  double pixelsOf(double seconds) const { return time.shareOf(seconds) * pixels; }
  double memoryTop() const { return passRows.size() * passHeight + kAxisHeight + kHeadHeight; }

  HtmlWriter &html;
  const plan::Plan &plan;
  const PlanForecast &forecast;
  const Axis time;
  std::vector<RankGroup> passRows, memoryRows;
  double passHeight = 0, memoryHeight = 0;
  /// At the least width.
  double pixels = kMinPixels;
  int64_t mostBytes = 1;
};
} // namespace

static bool isPass(const TimedAction &timed) { return timed.action.kind <= ActionKind::BackwardWeight; }

static llvm::StringRef classOf(ActionKind kind) {
  static constexpr llvm::StringRef kClasses[] = {"forward", "backward", "weight", "update",  "update",
                                                 "send",    "receive",  "send",   "receive", "reduce"};
  return kClasses[static_cast<size_t>(kind)];
}

/// Text of a legend entry.
static llvm::StringRef wordsOf(ActionKind kind) {
  static constexpr llvm::StringRef kWords[] = {
      "forward pass",          "backward pass for inputs", "backward pass for weights",
      "norm of gradients",     "updates weights",          "sends, or waits to",
      "receives, or waits to", "sends, or waits to",       "receives, or waits to",
      "sums gradients"};
  return kWords[static_cast<size_t>(kind)];
}

static bool doAlike(const RankSimulation &a, const RankSimulation &b) {
  return llvm::equal(a.timeline, b.timeline, [](const TimedAction &one, const TimedAction &other) {
    return one.begin == other.begin && one.end == other.end;
  });
}

TimelineWriter::TimelineWriter(HtmlWriter &html, const plan::Plan &plan, const PlanForecast &forecast)
    : html(html), plan(plan), forecast(forecast), time(forecast.simulation.seconds) {
  const std::vector<RankSimulation> &ranks = forecast.simulation.ranks;
  passRows = groupRanks(plan, [&](uint32_t a, uint32_t b) { return doAlike(ranks[a], ranks[b]); });
  memoryRows = groupRanks(
      plan, [&](uint32_t a, uint32_t b) { return forecast.devices[a].memory == forecast.devices[b].memory; });
  std::vector<double> passes;
  for (const RankSimulation &rank : ranks)
    for (const TimedAction &timed : rank.timeline)
      if (isPass(timed) && timed.end > timed.begin)
        passes.push_back(timed.end - timed.begin);
  if (!passes.empty()) {
    auto middle = passes.begin() + passes.size() / 2;
    std::nth_element(passes.begin(), middle, passes.end());
    pixels = std::clamp(kPixelsOfPass / time.shareOf(*middle), kMinPixels, kMaxPixels);
  }
  for (const DeviceForecast &device : forecast.devices)
    mostBytes = std::max(mostBytes, device.peakBytes);
}

//===- Words --------------------------------------------------------------===//

void TimelineWriter::writeCaption() {
  const double bubble = sumOf(forecast.devices).bubble();
  {
    auto caption = html.element("p", {{"class", "caption"}});
    html.text("Predicted for a batch that has the devices to itself: ");
    html.amount("seconds", forecast.simulation.seconds, milliseconds(forecast.simulation.seconds) + " ms");
    html.text(", of which devices make no pass ");
    html.amount("bubble", bubble, formatv("{0:f1} %", bubble * 100));
    html.text(" of the time. F3.1 is the forward pass of stage 3 for micro-batch 1.");
  }
}

void TimelineWriter::writeKinds() {
  std::set<ActionKind> kinds;
  for (const RankSimulation &rank : forecast.simulation.ranks)
    for (const TimedAction &timed : rank.timeline)
      kinds.insert(timed.action.kind);
  std::vector<std::pair<llvm::StringRef, llvm::StringRef>> entries;
  for (ActionKind kind : kinds)
    entries.emplace_back(classOf(kind), wordsOf(kind));
  entries.emplace_back("idle", "idle");
  writeLegend(html, entries);
}

void TimelineWriter::writeNames() {
  auto names = html.element("div", {{"class", "names"}});
  for (const RankGroup &row : passRows) {
    const DeviceForecast &device = forecast.devices[row.first];
    writeRowName(html, plan, row, passHeight, [&] {
      html.amount("bubble", device.bubble(), formatv("{0:f1} % idle", device.bubble() * 100));
    });
  }
  html.leaf("div", "Memory, and its peak",
            {{"class", "head"}, {"style", formatv("height:{0}px", kAxisHeight + kHeadHeight).str()}});
  for (const RankGroup &row : memoryRows) {
    const int64_t peak = forecast.devices[row.first].peakBytes;
    writeRowName(html, plan, row, memoryHeight,
                 [&] { html.amount("peak_bytes", peak, megabytes(peak) + " MB"); });
  }
}

//===- Passes and messages ------------------------------------------------===//

std::vector<Block> TimelineWriter::blocksOf(uint32_t rank, bool arePasses) const {
  std::vector<Block> blocks;
  for (const TimedAction &timed : forecast.simulation.ranks[rank].timeline) {
    if (isPass(timed) != arePasses || timed.end <= timed.begin)
      continue;
    const double seconds = timed.end - timed.begin;
    const bool joins = !blocks.empty() && blocks.back().first->action.kind == timed.action.kind &&
                       pixelsOf(seconds) < kTinyPixels &&
                       pixelsOf(timed.begin - blocks.back().end) < kGapPixels;
    if (!joins) {
      blocks.push_back({&timed, &timed, timed.begin, timed.end, seconds, 1});
      continue;
    }
    Block &last = blocks.back();
    last.last = &timed;
    last.end = std::max(last.end, timed.end);
    last.seconds += seconds;
    ++last.count;
  }
  return blocks;
}

void TimelineWriter::writeBlock(const Block &block, double top, double height) {
  const plan::Action &action = block.first->action;
  std::string name = plan::toString(action);
  if (block.count > 1)
    name += formatv(" to {0}, {1} of them", plan::toString(block.last->action), block.count);
  const double width = time.shareOf(block.end - block.begin);
  {
    // A merged block may have gaps, so it is fainter.
    auto drawn = html.element(
        "rect",
        {{"class", classOf(action.kind).str() + (action.microbatch % 2 ? " odd" : "")},
         {"x", percentText(time.shareOf(block.begin))},
         {"y", tickText(top)},
         {"width", percentText(width)},
         {"height", tickText(height)},
         {"opacity", formatv("{0:f2}", std::min(1.0, block.seconds / (block.end - block.begin))).str()}});
    html.leaf("title", formatv("{0}: {1}, {2} to {3} ms", name, wordsOf(action.kind),
                               milliseconds(block.begin), milliseconds(block.end)));
  }
  if (!isPass(*block.first) || block.count > 1 || height < kMinLabelled)
    return;
  // The number suffices if a device has one stage.
  const std::string microbatch = std::to_string(action.microbatch),
                    numbers = std::to_string(action.stage) + "." + microbatch;
  for (const std::string &label : {name, plan.stages.size() > plan.mesh->pp ? numbers : microbatch})
    if (labelWidth(label) + 4 <= width * pixels) {
      html.leaf("text", label,
                {{"x", percentText(time.shareOf((block.begin + block.end) / 2))},
                 {"y", tickText(top + height / 2 + 4)},
                 {"text-anchor", "middle"}});
      break;
    }
}

void TimelineWriter::writePasses(uint32_t rank, double top) {
  // A gap between rows; transfers along their lower edge.
  const double height = passHeight - (passHeight > 20 ? 4 : 3), edge = passHeight > 20 ? 5 : 3;
  html.leaf(
      "rect", "",
      {{"class", "idle"}, {"x", "0"}, {"y", tickText(top)}, {"width", "100%"}, {"height", tickText(height)}});
  for (const Block &block : blocksOf(rank, /*arePasses=*/true))
    writeBlock(block, top, height);
  for (const Block &block : blocksOf(rank, /*arePasses=*/false))
    writeBlock(block, top + height - edge, edge);
}

//===- Memory -------------------------------------------------------------===//

/// Every change of memory; if there are too many, the maximum for each position.
std::vector<MemoryStep> TimelineWriter::stepsOf(uint32_t rank) const {
  const std::vector<MemoryStep> &all = forecast.devices[rank].memory;
  if (all.size() <= kMaxSteps)
    return all;
  std::vector<MemoryStep> steps;
  for (const MemoryStep &step : all)
    if (!steps.empty() && time.shareOf(step.seconds - steps.back().seconds) * kMaxSteps < 1)
      steps.back().bytes = std::max(steps.back().bytes, step.bytes);
    else
      steps.push_back(step);
  return steps;
}

/// Drawn in 1000 by 100 units, which scale to the row.
void TimelineWriter::writeMemory(uint32_t rank, double top) {
  auto yOf = [&](int64_t bytes) { return 100 - 100.0 * bytes / mostBytes; };
  const DeviceForecast &device = forecast.devices[rank];
  std::string line;
  for (const MemoryStep &step : stepsOf(rank))
    line += formatv("{0}{1:f2} {2}{3:f2}", line.empty() ? "M" : "H", 1000 * time.shareOf(step.seconds),
                    line.empty() ? "" : "V", yOf(step.bytes));
  line += "H1000";
  auto picture = html.element("svg", {{"x", "0"},
                                      {"y", tickText(top)},
                                      {"width", "100%"},
                                      {"height", tickText(memoryHeight - (memoryHeight > 20 ? 6 : 3))},
                                      {"viewBox", "0 0 1000 100"},
                                      {"preserveAspectRatio", "none"}});
  html.leaf("path", "", {{"class", "live"}, {"d", line + "V100H0Z"}});
  html.leaf("rect", "",
            {{"class", "weights"},
             {"x", "0"},
             {"width", "1000"},
             {"y", formatv("{0:f2}", yOf(device.weightBytes)).str()},
             {"height", formatv("{0:f2}", 100 - yOf(device.weightBytes)).str()}});
  html.leaf("path", "", {{"class", "step"}, {"d", line}});
}

void TimelineWriter::write() {
  writeCaption();
  limitRows(html, passRows);
  memoryRows.resize(std::min(memoryRows.size(), kMaxRows));
  passHeight = rowHeight(passRows.size(), 28);
  memoryHeight = rowHeight(memoryRows.size(), 40);
  writeKinds();
  auto chart = html.element("div", {{"class", "chart"}});
  writeNames();
  auto scrolled = html.element(
      "div", {{"class", "plot"},
              {"tabindex", "0"},
              {"role", "img"},
              {"aria-label", "What devices do, and hold, during a step; the table below has the numbers"}});
  const double memoryEnd = memoryTop() + memoryRows.size() * memoryHeight;
  auto picture = html.element("svg", {{"class", "timeline"},
                                      {"width", "100%"},
                                      {"height", tickText(memoryEnd + kAxisHeight)},
                                      {"style", formatv("min-width:{0:f0}px", pixels).str()}});
  // Axis lines lie under blocks, but above idle time.
  for (auto [index, row] : llvm::enumerate(passRows))
    writePasses(row.first, index * passHeight);
  writeTimeAxis(html, time, pixels, 0, passRows.size() * passHeight);
  for (auto [index, row] : llvm::enumerate(memoryRows))
    writeMemory(row.first, memoryTop() + index * memoryHeight);
  writeTimeAxis(html, time, pixels, memoryTop(), memoryEnd);
}

void writeTimeline(HtmlWriter &html, const plan::Plan &plan, const PlanForecast &forecast) {
  TimelineWriter(html, plan, forecast).write();
}

} // namespace cleave
