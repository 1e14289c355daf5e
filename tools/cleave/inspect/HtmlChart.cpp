//===- HtmlChart.cpp - Axes and rows of charts ----------------------------===//
#include "tools/cleave/inspect/HtmlChart.h"
#include "codegen/plan/PlanQueries.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"
#include <algorithm>
#include <cmath>

namespace cleave {

using llvm::formatv;

std::string percentText(double share) { return formatv("{0:f3}%", share * 100); }

double labelWidth(llvm::StringRef text) { return 6.6 * text.size(); }

Axis::Axis(double most) : begin(0), end(most > 0 ? most : 1) {}

/// Least ratio of the ends for a logarithmic axis: linear points would crowd at one end.
static constexpr double kLogFrom = 3;

Axis::Axis(double least, double most) : isLog(most >= kLogFrom * least) {
  constexpr double kRoom = 0.06;
  begin = isLog ? std::log10(least) : least;
  end = isLog ? std::log10(most) : most;
  const double room = end > begin ? kRoom * (end - begin) : kRoom * std::abs(end);
  begin -= room;
  end += room;
}

double Axis::shareOf(double value) const {
  return ((isLog ? std::log10(value) : value) - begin) / (end - begin);
}

/// Multiples of a round step.
static std::vector<double> evenTicks(double begin, double end, unsigned count) {
  std::vector<double> values;
  const double raw = (end - begin) / count, unit = std::pow(10, std::floor(std::log10(raw)));
  const double step = unit * (raw <= unit ? 1 : raw <= 2 * unit ? 2 : raw <= 5 * unit ? 5 : 10);
  for (unsigned i = 0; i <= count + 1; ++i)
    if (double value = (std::ceil(begin / step) + i) * step; value <= end)
      values.push_back(value);
  return values;
}

std::vector<double> Axis::ticks(unsigned count) const {
  if (!isLog)
    return evenTicks(begin, end, count);
  if (end - begin < 1)
    return evenTicks(std::pow(10, begin), std::pow(10, end), count);
  // 1, 2 and 5 of each decade where there is room for them.
  std::vector<double> values;
  const bool isDense = (end - begin) * 3 <= count;
  const int first = int(std::floor(begin)), last = int(std::ceil(end)),
            stride = 1 + int((end - begin) / count);
  for (int decade = first; decade <= last; decade += stride)
    for (double factor : {1.0, 2.0, 5.0})
      if (double value = factor * std::pow(10.0, decade);
          (factor == 1 || isDense) && shareOf(value) >= 0 && shareOf(value) <= 1)
        values.push_back(value);
  return values;
}

std::string tickText(double value) {
  std::string text;
  llvm::raw_string_ostream(text) << llvm::format("%.10g", value);
  return text;
}

void writeTimeAxis(HtmlWriter &html, const Axis &seconds, double pixels, double top, double bottom) {
  constexpr double kPixelsOfTick = 90;
  const std::vector<double> ticks = seconds.ticks(std::max(2.0, pixels / kPixelsOfTick));
  auto group = html.element("g", {{"class", "axis"}});
  for (double tick : ticks) {
    const std::string x = percentText(seconds.shareOf(tick));
    html.leaf("line", "", {{"x1", x}, {"x2", x}, {"y1", tickText(top)}, {"y2", tickText(bottom)}});
    // Keeps the numbers at the ends inside.
    const bool isFirst = seconds.shareOf(tick) < 0.02, isLast = seconds.shareOf(tick) > 0.95;
    html.leaf("text", tickText(tick * 1e3) + (tick == ticks.back() ? " ms" : ""),
              {{"x", x},
               {"y", tickText(bottom + 13)},
               {"text-anchor", isFirst  ? "start"
                               : isLast ? "end"
                                        : "middle"}});
  }
}

void writeLegend(HtmlWriter &html, llvm::ArrayRef<std::pair<llvm::StringRef, llvm::StringRef>> entries) {
  auto legend = html.element("p", {{"class", "legend"}});
  for (auto &[kind, words] : entries) {
    auto item = html.element("span");
    html.leaf("i", "", {{"class", kind.str()}});
    html.text(words);
  }
}

void limitRows(HtmlWriter &html, std::vector<RankGroup> &rows) {
  if (rows.size() <= kMaxRows)
    return;
  html.leaf("p",
            formatv("The first {0} of {1} rows are drawn; the table has all devices.", kMaxRows, rows.size()),
            {{"class", "caption"}});
  rows.resize(kMaxRows);
}

std::vector<RankGroup> groupRanks(const plan::Plan &plan,
                                  llvm::function_ref<bool(uint32_t, uint32_t)> areAlike) {
  const uint32_t width = plan.mesh->dp * plan.mesh->tp;
  std::vector<RankGroup> groups;
  for (uint32_t rank = 0; rank < plan.mesh->pp * width; ++rank)
    if (rank % width != 0 && areAlike(groups.back().first, rank))
      groups.back().last = rank;
    else
      groups.push_back({rank, rank});
  return groups;
}

double rowHeight(size_t rows, double most) {
  return rows > 32 ? 13 : rows > 16 ? 17 : rows > 8 ? std::min(most, 26.0) : most;
}

void writeRowName(HtmlWriter &html, const plan::Plan &plan, RankGroup group, double height,
                  llvm::function_ref<void()> writeNumber) {
  std::string name = deviceOf(plan, group.first);
  if (group.last != group.first)
    name += "…" + deviceOf(plan, group.last);
  auto row = html.element("div", {{"class", "name"},
                                  {"style", "height:" + tickText(height) + "px"},
                                  {"data-rank", std::to_string(group.first)}});
  html.leaf("span", name, {{"title", name}});
  writeNumber();
}

} // namespace cleave
