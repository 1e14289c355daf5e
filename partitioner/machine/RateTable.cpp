//===- RateTable.cpp - Rates measured on a grid of sizes ------------------===//
#include "partitioner/machine/RateTable.h"

#include "llvm/ADT/STLExtras.h"
#include <algorithm>
#include <cassert>
#include <cmath>

namespace cleave {

RateTable::RateTable(std::vector<std::vector<double>> sizes, std::vector<double> values)
    : axes(std::move(sizes)), rates(std::move(values)) {
  size_t points = 1;
  for (const std::vector<double> &axis : axes) {
    assert(!axis.empty() && axis.front() > 0 && llvm::is_sorted(axis) && "sizes ascend from above 0");
    points *= axis.size();
  }
  assert(points == rates.size() && "a rate for every point");
  (void)points;
}

bool RateTable::covers(llvm::ArrayRef<double> sizes) const {
  return llvm::all_of(llvm::zip(axes, sizes),
                      [](auto each) { return std::get<1>(each) >= std::get<0>(each).front(); });
}

double RateTable::at(llvm::ArrayRef<double> sizes) const {
  assert(!isEmpty() && sizes.size() >= axes.size() && "a size an axis");
  // Corners of the grid cell around the point with their weights; each axis doubles them.
  llvm::SmallVector<std::pair<size_t, double>, 16> corners = {{0, 1.0}};
  for (auto [axis, wanted] : llvm::zip(axes, sizes)) {
    const double size = std::clamp(wanted, axis.front(), axis.back());
    const size_t upper = llvm::lower_bound(axis, size) - axis.begin(),
                 lower = axis[upper] == size ? upper : upper - 1;
    const double share =
        lower == upper ? 0 : std::log(size / axis[lower]) / std::log(axis[upper] / axis[lower]);
    for (size_t corner = 0, count = corners.size(); corner < count; ++corner) {
      auto [index, weight] = corners[corner];
      corners[corner] = {index * axis.size() + lower, weight * (1 - share)};
      if (share > 0)
        corners.push_back({index * axis.size() + upper, weight * share});
    }
  }
  // The point is on the grid, or beyond it on all axes.
  if (corners.size() == 1)
    return rates[corners.front().first];
  double logarithm = 0;
  for (auto [index, weight] : corners)
    logarithm += weight * std::log(rates[index]);
  return std::exp(logarithm);
}

} // namespace cleave
