//===- RateTable.h - Rates measured on a grid of sizes ----------*- C++ -*-===//
#ifndef CLEAVE_PARTITIONER_MACHINE_RATETABLE_H
#define CLEAVE_PARTITIONER_MACHINE_RATETABLE_H

#include "llvm/ADT/ArrayRef.h"
#include <vector>

namespace cleave {

/// A rate by one size or several, known at the points of a grid and interpolated between them.
///
/// Linear along every axis in the logarithms of sizes and rate (multilinear, Press et al., Numerical Recipes,
/// 3.6), so that what grows with a power of a size is met exactly, and so is the time, as work is a product
/// of sizes. Beyond the grid the rate is that of its edge.
class RateTable {
public:
  /// Of nothing: `isEmpty`.
  RateTable() = default;
  /// The same everywhere.
  explicit RateTable(double rate) : RateTable({}, {rate}) {}
  /// \param axes   sizes above 0, ascending, at least one an axis.
  /// \param rates  above 0, of every point, those of the last axis side by side.
  RateTable(std::vector<std::vector<double>> axes, std::vector<double> rates);

  bool isEmpty() const { return rates.empty(); }
  /// There is more than one number.
  bool isMeasured() const { return rates.size() > 1; }
  /// Whether the sizes are at or above the grid's least ones: beyond its largest the rate hardly changes.
  bool covers(llvm::ArrayRef<double> sizes) const;
  /// \param sizes  one an axis, where there are axes.
  double at(llvm::ArrayRef<double> sizes) const;

  const std::vector<std::vector<double>> &axisSizes() const { return axes; }
  const std::vector<double> &allRates() const { return rates; }
  bool operator==(const RateTable &) const = default;

private:
  std::vector<std::vector<double>> axes;
  std::vector<double> rates;
};

} // namespace cleave

#endif // CLEAVE_PARTITIONER_MACHINE_RATETABLE_H
