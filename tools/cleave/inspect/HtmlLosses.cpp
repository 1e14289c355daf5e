//===- HtmlLosses.cpp - Losses of a training ------------------------------===//
#include "tools/cleave/inspect/HtmlLosses.h"
#include "partitioner/machine/JsonFile.h"
#include "tools/cleave/inspect/HtmlChart.h"
#include "tools/cleave/text/Wording.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MathExtras.h"
#include <cmath>

namespace cleave {

using llvm::formatv;

static constexpr double kHeight = 200, kMinPixels = 560;
static constexpr size_t kMaxPoints = 400;
/// Larger losses count as not finite.
static constexpr double kMost = 1e100;

llvm::Expected<std::vector<double>> readLosses(llvm::StringRef path) {
  auto fail = [&](const llvm::Twine &found) {
    return llvm::createStringError(path + ": found " + found +
                                   ", expected what cleave train --json prints, with a list of losses");
  };
  auto parsed = readJsonFile(path, {"report of cleave train", 64 << 20, 1000});
  if (!parsed)
    return parsed.takeError();
  const llvm::json::Object *report = parsed->getAsObject();
  const llvm::json::Array *list = report ? report->getArray("losses") : nullptr;
  if (!list || list->empty())
    return fail("no losses");
  std::vector<double> losses;
  for (const llvm::json::Value &loss : *list) {
    if (!loss.getAsNumber() && !loss.getAsNull())
      return fail("a loss that is no number");
    const double number = loss.getAsNumber().value_or(NAN);
    losses.push_back(std::abs(number) <= kMost ? number : NAN);
  }
  return losses;
}

namespace {
/// Mean loss of a few successive steps.
struct Point {
  double step, loss;
};
} // namespace

static std::vector<Point> pointsOf(llvm::ArrayRef<double> losses) {
  const size_t steps = llvm::divideCeil(losses.size(), kMaxPoints);
  std::vector<Point> points;
  for (size_t first = 0; first < losses.size(); first += steps) {
    auto some = losses.slice(first, std::min(steps, losses.size() - first));
    double sum = 0;
    for (double loss : some)
      sum += loss;
    points.push_back({first + (some.size() + 1) / 2.0, sum / some.size()});
  }
  return points;
}

/// `5.0769`; `1.2e+09`.
static std::string lossText(double loss) {
  if (!std::isfinite(loss))
    return "a number that is not finite";
  return std::abs(loss) < 1e6 ? formatv("{0:f4}", loss) : formatv("{0:e1}", loss);
}

void writeLosses(HtmlWriter &html, llvm::ArrayRef<double> losses) {
  const std::vector<Point> points = pointsOf(losses);
  double least = INFINITY, most = -INFINITY;
  for (const Point &point : points)
    if (std::isfinite(point.loss))
      least = std::min(least, point.loss), most = std::max(most, point.loss);
  auto section = html.element("section");
  html.leaf("h2", "Loss");
  const size_t lost = llvm::count_if(losses, [](double loss) { return !std::isfinite(loss); });
  auto remark = [](bool isTrue, const std::string &text) { return isTrue ? text : std::string(); };
  html.leaf(
      "p",
      formatv("{0}, from {1} to {2}{3}{4}.", count(losses.size(), "step"), lossText(losses.front()),
              lossText(losses.back()),
              remark(lost > 0, formatv("; {0} of them not finite, and not drawn", lost)),
              remark(points.size() < losses.size(), formatv("; a point is the mean of {0} steps",
                                                            llvm::divideCeil(losses.size(), kMaxPoints)))),
      {{"class", "caption"}});
  if (!std::isfinite(least))
    return;
  const double range = most > least ? most - least : 1, steps = std::max<size_t>(1, losses.size());
  auto x = [&](const Point &point) { return percentText((point.step - 0.5) / steps); };
  auto y = [&](double loss) { return tickText((most - loss) / range * kHeight); };
  auto chart = html.element("div", {{"class", "chart"}});
  {
    auto side = html.element("div", {{"class", "side"}, {"style", "height:" + tickText(kHeight) + "px"}});
    for (double share : {0.0, 0.5, 1.0})
      html.leaf("span", tickText(most - share * range), {{"style", "top:" + percentText(share)}});
  }
  auto plot =
      html.element("div", {{"class", "plot"},
                           {"tabindex", "0"},
                           {"role", "img"},
                           {"aria-label", "Loss by step; the text above has the first and the last"}});
  auto picture = html.element("svg", {{"class", "pareto"},
                                      {"width", "100%"},
                                      {"height", tickText(kHeight + 4)},
                                      {"style", formatv("min-width:{0}px", kMinPixels).str()}});
  for (size_t i = 0; i < points.size(); ++i) {
    // Nothing is drawn where a loss is not finite.
    const Point &point = points[i], &before = points[i ? i - 1 : 0];
    if (!std::isfinite(point.loss))
      continue;
    if (i && std::isfinite(before.loss))
      html.leaf("line", "",
                {{"class", "front"},
                 {"x1", x(before)},
                 {"y1", y(before.loss)},
                 {"x2", x(point)},
                 {"y2", y(point.loss)}});
    else
      html.leaf("circle", "", {{"class", "chosen"}, {"cx", x(point)}, {"cy", y(point.loss)}, {"r", "2"}});
  }
}

} // namespace cleave
