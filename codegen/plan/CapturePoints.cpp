//===- CapturePoints.cpp --------------------------------------------------===//
#include "codegen/plan/CapturePoints.h"
#include "codegen/plan/text/Printable.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/GlobPattern.h"
#include <tuple>

namespace cleave::plan {

static std::string nameOf(const CapturePoint &point) {
  std::string name = point.path;
  if (point.call > 0)
    name += "#" + std::to_string(uint64_t(point.call) + 1);
  if (point.index > 0)
    name += "[" + std::to_string(point.index) + "]";
  return name;
}

std::vector<NamedCapturePoint> capturePointsOf(const Plan &plan, uint32_t signature) {
  std::vector<NamedCapturePoint> points;
  for (auto [index, point] : llvm::enumerate(plan.capture_points))
    if (point->signature == signature)
      points.push_back({uint32_t(index), nameOf(*point)});
  auto place = [&](const NamedCapturePoint &point) {
    const CapturePoint &source = *plan.capture_points[point.index];
    return std::tuple(source.stage, source.slots.front()->after, point.index);
  };
  llvm::sort(points, [&](const auto &a, const auto &b) { return place(a) < place(b); });
  return points;
}

/// What to say of a name or glob that no capture point has.
static llvm::Error noSuchPoint(llvm::ArrayRef<NamedCapturePoint> points, llvm::StringRef text,
                               llvm::StringRef where) {
  if (points.empty())
    return llvm::createStringError(where + " " + printable(text) +
                                   ": found a plan without capture points, expected one; compile it without "
                                   "--no-capture-points");
  const NamedCapturePoint *nearest = &*llvm::min_element(points, [&](const auto &a, const auto &b) {
    return text.edit_distance(a.name) < text.edit_distance(b.name);
  });
  return llvm::createStringError(
      where + " " + printable(text) + ": found no such capture point, expected one of the " +
      llvm::Twine(points.size()) + " that cleave inspect --json lists, such as " + printable(nearest->name) +
      "; a module inside a fused operator has one if it is compiled with --capture-points");
}

llvm::Expected<std::vector<NamedCapturePoint>> matchCapturePoints(const Plan &plan, uint32_t signature,
                                                                  llvm::ArrayRef<std::string> globs,
                                                                  llvm::StringRef where) {
  const std::vector<NamedCapturePoint> points = capturePointsOf(plan, signature);
  std::vector<bool> isMatched(points.size());
  for (const std::string &text : globs) {
    auto glob = llvm::GlobPattern::create(text);
    if (!glob)
      return llvm::createStringError(where + " " + printable(text) + ": " + toString(glob.takeError()));
    bool isFound = false;
    for (auto [index, point] : llvm::enumerate(points))
      // A name with a leaf, `attn[1]`, is a glob for another one.
      if (point.name == text || glob->match(point.name)) {
        isMatched[index] = true;
        isFound = true;
      }
    if (!isFound)
      return noSuchPoint(points, text, where);
  }
  std::vector<NamedCapturePoint> matched;
  for (auto [point, isWanted] : llvm::zip(points, isMatched))
    if (isWanted)
      matched.push_back(point);
  return matched;
}

llvm::Expected<NamedCapturePoint> capturePointNamed(const Plan &plan, uint32_t signature,
                                                    llvm::StringRef name, llvm::StringRef where) {
  std::vector<NamedCapturePoint> points = capturePointsOf(plan, signature);
  auto found = llvm::find_if(points, [&](const auto &point) { return point.name == name; });
  if (found == points.end()) {
    auto glob = llvm::GlobPattern::create(name);
    if (!glob) {
      consumeError(glob.takeError());
      return noSuchPoint(points, name, where);
    }
    auto matched = llvm::find_if(points, [&](const auto &point) { return glob->match(point.name); });
    if (matched == points.end())
      return noSuchPoint(points, name, where);
    return llvm::createStringError(where + " " + printable(name) +
                                   ": found a pattern, expected the name of one capture point, such as " +
                                   printable(matched->name));
  }
  return std::move(*found);
}

} // namespace cleave::plan
