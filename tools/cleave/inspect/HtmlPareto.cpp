//===- HtmlPareto.cpp - Time against memory -------------------------------===//
#include "tools/cleave/inspect/HtmlPareto.h"
#include "tools/cleave/inspect/HtmlChart.h"
#include "tools/cleave/text/Wording.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <algorithm>
#include <optional>

namespace cleave {

using llvm::formatv;
using plan::MeshCandidate;

/// Height of the chart; the axis numbers are below it. Points with only a lower bound are on a strip between.
static constexpr double kHeight = 320, kMinPixels = 440, kStrip = 16;
static constexpr double kLabelHeight = 14;
/// With more points, only those of the front are labelled.
static constexpr size_t kMaxNamed = 16;

namespace {
/// In pixels, at the least width of the chart.
struct Box {
  double left, top, right, bottom;
  bool meets(const Box &other) const {
    return left < other.right && other.left < right && top < other.bottom && other.top < bottom;
  }
};

class ParetoWriter {
public:
  ParetoWriter(HtmlWriter &html, const plan::MeshCandidates &candidates);
  void write();

private:
  double x(const MeshCandidate &one) const { return seconds->shareOf(one.seconds); }
  double y(const MeshCandidate &one) const { return (1 - bytes->shareOf(one.peak_bytes)) * kHeight; }
  bool isFront(const MeshCandidate *one) const { return llvm::is_contained(front, one); }
  void writeLines();
  void writeFront();
  void writePoint(const MeshCandidate &one);
  void writeBound(const MeshCandidate &one);
  void writeName(const MeshCandidate &one);
  void writePicture();
  void writeTable();

  HtmlWriter &html;
  const plan::MeshCandidates &candidates;
  /// Points with an estimate of both values; points with at least a time; and the Pareto front, fastest
  /// first.
  std::vector<const MeshCandidate *> points, bounds, front;
  std::optional<Axis> seconds, bytes;
  std::vector<Box> taken;
};
} // namespace

ParetoWriter::ParetoWriter(HtmlWriter &html, const plan::MeshCandidates &candidates)
    : html(html), candidates(candidates) {
  for (const auto &one : candidates)
    if (one->seconds > 0)
      (one->peak_bytes > 0 ? points : bounds).push_back(one.get());
  if (points.empty())
    return;
  auto [quick, slow] = std::minmax_element(points.begin(), points.end(),
                                           [](auto *a, auto *b) { return a->seconds < b->seconds; });
  auto [small, large] = std::minmax_element(points.begin(), points.end(),
                                            [](auto *a, auto *b) { return a->peak_bytes < b->peak_bytes; });
  double least = (*quick)->seconds, most = (*slow)->seconds;
  for (const MeshCandidate *one : bounds) {
    least = std::min(least, one->seconds);
    most = std::max(most, one->seconds);
  }
  seconds.emplace(least, most);
  bytes.emplace((*small)->peak_bytes, (*large)->peak_bytes);
  std::vector<const MeshCandidate *> order = points;
  llvm::stable_sort(order, [](auto *a, auto *b) {
    return std::pair(a->seconds, a->peak_bytes) < std::pair(b->seconds, b->peak_bytes);
  });
  for (const MeshCandidate *one : order)
    if (front.empty() || one->peak_bytes < front.back()->peak_bytes)
      front.push_back(one);
}

//===- The picture --------------------------------------------------------===//

static std::string nameOf(const MeshCandidate &one) {
  return one.mesh + " " + one.schedule +
         (one.microbatches > 1 ? formatv(" × {0}", one.microbatches).str() : "");
}

/// Tooltip of a point.
static std::string titleOf(const MeshCandidate &one) {
  return formatv("{0}, {1}, {2}: {3} ms a step, {4}; {5}", one.mesh, one.schedule,
                 count(one.microbatches, "micro-batch"), milliseconds(one.seconds),
                 one.peak_bytes > 0 ? megabytes(one.peak_bytes) + " MB" : "memory not estimated",
                 one.reason.empty() ? "chosen" : one.reason);
}

void ParetoWriter::writeLines() {
  {
    auto group = html.element("g", {{"class", "axis"}});
    for (double tick : bytes->ticks(6)) {
      const std::string line = tickText((1 - bytes->shareOf(tick)) * kHeight);
      html.leaf("line", "", {{"x1", "0"}, {"x2", "100%"}, {"y1", line}, {"y2", line}});
    }
  }
  writeTimeAxis(html, *seconds, kMinPixels, 0, kHeight + kStrip);
}

/// Draws the front as a staircase: between two points memory is that of the faster one.
void ParetoWriter::writeFront() {
  auto line = [&](double x1, double y1, double x2, double y2) {
    html.leaf("line", "",
              {{"class", "front"},
               {"x1", percentText(x1)},
               {"y1", tickText(y1)},
               {"x2", percentText(x2)},
               {"y2", tickText(y2)}});
  };
  line(x(*front.front()), 0, x(*front.front()), y(*front.front()));
  for (size_t i = 0; i < front.size(); ++i) {
    const double end = i + 1 < front.size() ? x(*front[i + 1]) : 1;
    line(x(*front[i]), y(*front[i]), end, y(*front[i]));
    if (i + 1 < front.size())
      line(end, y(*front[i]), end, y(*front[i + 1]));
  }
}

void ParetoWriter::writePoint(const MeshCandidate &one) {
  const bool isChosen = one.reason.empty();
  auto point = html.element("circle", {{"class", isChosen        ? "chosen"
                                                 : isFront(&one) ? "on-front"
                                                                 : "other"},
                                       {"cx", percentText(x(one))},
                                       {"cy", tickText(y(one))},
                                       {"r", isChosen ? "6" : "4.5"}});
  html.leaf("title", titleOf(one));
}

void ParetoWriter::writeBound(const MeshCandidate &one) {
  const std::string at = percentText(x(one));
  auto line = html.element("line", {{"class", "bound"},
                                    {"x1", at},
                                    {"x2", at},
                                    {"y1", tickText(kHeight + 2)},
                                    {"y2", tickText(kHeight + kStrip - 2)}});
  html.leaf("title", titleOf(one));
}

/// Writes the label beside its point, if there is room.
void ParetoWriter::writeName(const MeshCandidate &one) {
  const std::string name = (one.reason.empty() ? "chosen: " : "") + nameOf(one);
  const double at = x(one) * kMinPixels, line = y(one), width = labelWidth(name);
  for (bool isLeft : {x(one) > 0.5, x(one) <= 0.5})
    for (double offset : {-9, 11, 0, -25, 27, -41, -57}) {
      // Only the chosen point may have its label farther away.
      if (std::abs(offset) > 12 && !one.reason.empty())
        break;
      const double middle = line + offset;
      const double begin = isLeft ? at - 9 - width : at + 9;
      const Box box{begin, middle - kLabelHeight / 2, begin + width, middle + kLabelHeight / 2};
      if (box.left < 0 || box.right > kMinPixels || box.top < 0 || box.bottom > kHeight ||
          llvm::any_of(taken, [&](const Box &other) { return other.meets(box); }))
        continue;
      taken.push_back(box);
      html.leaf("text", name,
                {{"class", one.reason.empty() ? "chosen" : "point"},
                 {"x", percentText(x(one))},
                 {"dx", isLeft ? "-9" : "9"},
                 {"y", tickText(middle + 4)},
                 {"text-anchor", isLeft ? "end" : "start"}});
      return;
    }
}

void ParetoWriter::writePicture() {
  auto chart = html.element("div", {{"class", "chart"}});
  {
    auto side = html.element("div", {{"class", "side"}, {"style", "height:" + tickText(kHeight) + "px"}});
    const std::vector<double> ticks = bytes->ticks(6);
    for (double tick : ticks)
      html.leaf("span", tickText(tick / 1e6) + (tick == ticks.back() ? " MB" : ""),
                {{"style", "top:" + percentText(1 - bytes->shareOf(tick))}});
  }
  auto scrolled = html.element(
      "div", {{"class", "plot"},
              {"tabindex", "0"},
              {"role", "img"},
              {"aria-label", "Time against memory of the configurations; the table below has the numbers"}});
  auto picture = html.element("svg", {{"class", "pareto"},
                                      {"width", "100%"},
                                      {"height", tickText(kHeight + kStrip + 20)},
                                      {"style", formatv("min-width:{0}px", kMinPixels).str()}});
  writeLines();
  writeFront();
  for (const MeshCandidate *one : bounds)
    writeBound(*one);
  for (const MeshCandidate *one : llvm::reverse(points)) {
    const double at = x(*one) * kMinPixels;
    taken.push_back({at - 5, y(*one) - 5, at + 5, y(*one) + 5});
    writePoint(*one);
  }
  // The chosen point and the front are labelled first.
  auto isNamed = [&](const MeshCandidate *one) { return one->reason.empty() || isFront(one); };
  for (bool areFirst : {true, false})
    for (const MeshCandidate *one : points)
      if (isNamed(one) == areFirst && (areFirst || points.size() <= kMaxNamed))
        writeName(*one);
}

//===- All of it ----------------------------------------------------------===//

void ParetoWriter::writeTable() {
  html.table({"Mesh", "Schedule", "Micro-batches", "ms a step", "Peak MB", "Why not"}, [&] {
    for (const auto &one : candidates) {
      const bool isChosen = one->reason.empty();
      auto row = html.element("tr", {{"class", isChosen ? "chosen" : ""}, {"data-candidate", one->mesh}});
      html.leaf("td", one->mesh, {{"class", "path"}});
      html.leaf("td", one->schedule);
      html.cell("microbatches", one->microbatches, std::to_string(one->microbatches));
      html.cell("seconds", one->seconds, one->seconds > 0 ? milliseconds(one->seconds) : "–");
      html.cell("peak_bytes", one->peak_bytes, one->peak_bytes > 0 ? megabytes(one->peak_bytes) : "–");
      html.leaf("td", isChosen ? "chosen" : one->reason);
    }
  });
}

void ParetoWriter::write() {
  html.leaf("p",
            formatv("Estimates of one step, made before the plan; {0}, the chosen one first. A point has the "
                    "time of a step to the right, and the "
                    "memory of the device that holds most upwards.{1}",
                    count(candidates.size(), "configuration"),
                    bounds.empty()
                        ? ""
                        : " Of marks below, which take longer in any case, the memory was not estimated."),
            {{"class", "caption"}});
  if (!points.empty()) {
    std::vector<std::pair<llvm::StringRef, llvm::StringRef>> legend{
        {"chosen", "chosen"},
        {"on-front", "no other one is better in both"},
        {"other", "another one is better in both"}};
    if (!bounds.empty())
      legend.emplace_back("bound", "takes at least that long");
    writeLegend(html, legend);
    writePicture();
  }
  writeTable();
}

void writePareto(HtmlWriter &html, const plan::MeshCandidates &candidates) {
  ParetoWriter(html, candidates).write();
}

} // namespace cleave
