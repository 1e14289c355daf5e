//===- RateTable.h - Rates measured on a grid of sizes ----------*- C++ -*-===//
#ifndef CLEAVE_PARTITIONER_MACHINE_RATETABLE_H
#define CLEAVE_PARTITIONER_MACHINE_RATETABLE_H

#include "llvm/ADT/ArrayRef.h"
#include <vector>

namespace cleave {

/// A rate as a function of one or more sizes, measured at the points of a grid and interpolated between them.
///
/// Interpolation is multilinear in the logarithms of sizes and rate (Press et al., Numerical Recipes, 3.6).
/// It is therefore exact for a rate that is a power of a size, and also for the time work / rate, as work is
/// a product of sizes. Beyond the grid, the rate is that of the nearest edge.
class RateTable {
public:
  /// An empty table.
  RateTable() = default;
  /// A constant rate.
  explicit RateTable(double rate) : RateTable({}, {rate}) {}
  /// \param axes   by axis: at least one size, > 0, ascending.
  /// \param rates  by grid point, > 0; the last axis varies fastest.
  RateTable(std::vector<std::vector<double>> axes, std::vector<double> rates);

  bool isEmpty() const { return rates.empty(); }
  /// True if the table has one number at most.
  bool isConstant() const { return rates.size() <= 1; }
  /// True if no size is below the grid's smallest one. Beyond the largest size the rate hardly changes.
  bool covers(llvm::ArrayRef<double> sizes) const;
  /// \param sizes  one per axis; ignored for a constant rate.
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
