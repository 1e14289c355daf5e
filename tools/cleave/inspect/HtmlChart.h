//===- HtmlChart.h - Axes and rows of charts --------------------*- C++ -*-===//
//
// Private to `inspect --format html`. Charts are as wide as the page: horizontal positions are percentages,
// while text keeps its size. So labels that do not overlap at the minimum width do not overlap at any larger
// one.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_TOOLS_CLEAVE_INSPECT_HTMLCHART_H
#define CLEAVE_TOOLS_CLEAVE_INSPECT_HTMLCHART_H

#include "codegen/plan/Plan.h"
#include "tools/cleave/inspect/HtmlWriter.h"
#include <string>
#include <vector>

namespace cleave {

/// `12.5%`.
std::string percentText(double share);

/// Most pixels that a label of a chart takes.
double labelWidth(llvm::StringRef text);

/// Maps values to positions between two ends.
class Axis {
public:
  /// Linear, from 0 to `most`.
  explicit Axis(double most);
  /// From `least` to `most`, both above 0, with margins; logarithmic for a wide range.
  Axis(double least, double most);
  /// Position of a value: 0 at the beginning and 1 at the end.
  double shareOf(double value) const;
  /// About `count` round values, ascending.
  std::vector<double> ticks(unsigned count) const;
  bool isLogarithmic() const { return isLog; }

private:
  double begin, end;
  bool isLog = false;
};

/// `0.5`, `1200`.
std::string tickText(double value);

/// Draws vertical lines from `top` to `bottom` at round milliseconds of `seconds`, with their numbers below.
/// `pixels` is the least width of the chart.
void writeTimeAxis(HtmlWriter &html, const Axis &seconds, double pixels, double top, double bottom);

/// Explains the colours of a chart: CSS classes and their meanings.
void writeLegend(HtmlWriter &html, llvm::ArrayRef<std::pair<llvm::StringRef, llvm::StringRef>> entries);

/// Consecutive ranks that are shown as one row.
struct RankGroup {
  uint32_t first, last;
};
/// Groups equal ranks of each pipeline rank.
std::vector<RankGroup> groupRanks(const plan::Plan &plan,
                                  llvm::function_ref<bool(uint32_t, uint32_t)> areAlike);

/// Most rows of a chart.
inline constexpr size_t kMaxRows = 64;
/// Drops rows beyond that, and says so.
void limitRows(HtmlWriter &html, std::vector<RankGroup> &rows);
/// Height of a row in pixels: `most`, or less if the rows would fill the page.
double rowHeight(size_t rows, double most);
/// Writes a group's name in front of its row, with a number.
void writeRowName(HtmlWriter &html, const plan::Plan &plan, RankGroup group, double height,
                  llvm::function_ref<void()> writeNumber);

} // namespace cleave

#endif // CLEAVE_TOOLS_CLEAVE_INSPECT_HTMLCHART_H
