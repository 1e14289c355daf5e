//===- HtmlChart.h - Axes and rows of pictures ------------------*- C++ -*-===//
//
// Private to `inspect --format html`. Pictures are as wide as there is room for: what is along them is given
// in percent, and texts are as large anywhere. So what does not touch at the least width touches at no width.
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

/// Pixels that a label of pictures takes at most.
double labelWidth(llvm::StringRef text);

/// Where values stand between two ends.
class Axis {
public:
  /// From 0 to `most`.
  explicit Axis(double most);
  /// From `least` to `most`, both above 0, with room at the ends; logarithmic where that spans much.
  Axis(double least, double most);
  /// 0 at the begin and 1 at the end.
  double shareOf(double value) const;
  /// Round values in order, about `count`.
  std::vector<double> ticks(unsigned count) const;
  bool isLogarithmic() const { return isLog; }

private:
  double begin, end;
  bool isLog = false;
};

/// `0.5`, `1200`.
std::string tickText(double value);

/// Lines across a picture from `top` to `bottom` at round milliseconds of `seconds`, with their numbers
/// below; `pixels` is its least width.
void writeTimeAxis(HtmlWriter &html, const Axis &seconds, double pixels, double top, double bottom);

/// What the colours of a picture mean: classes of CSS, and words.
void writeLegend(HtmlWriter &html, llvm::ArrayRef<std::pair<llvm::StringRef, llvm::StringRef>> entries);

/// Ranks behind one another that are shown as one.
struct RankGroup {
  uint32_t first, last;
};
/// Of each place in the pipeline, those that are alike.
std::vector<RankGroup> groupRanks(const plan::Plan &plan,
                                  llvm::function_ref<bool(uint32_t, uint32_t)> areAlike);

/// Rows of a picture, at most.
inline constexpr size_t kMaxRows = 64;
/// Leaves out what is beyond that, and says so.
void limitRows(HtmlWriter &html, std::vector<RankGroup> &rows);
/// Pixels of a row where there are so many: `most`, and less where they would fill the page.
double rowHeight(size_t rows, double most);
/// The name of a group in front of its row, and a number of it.
void writeRowName(HtmlWriter &html, const plan::Plan &plan, RankGroup group, double height,
                  llvm::function_ref<void()> writeNumber);

} // namespace cleave

#endif // CLEAVE_TOOLS_CLEAVE_INSPECT_HTMLCHART_H
