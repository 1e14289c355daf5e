// RUN: cleave-opt %s --assign-schedule="ranks=2 dp=2" --verify-diagnostics
// Data-parallel ranks split the batch as micro-batches do; the remedy is theirs.

!x = tensor<?x8xf32, #cleave.layout<dims = ["batch", "8"]>>
func.func @softmax_over_samples(%x: !x) -> !x attributes {cleave.symbols = {batch = 4}} {
  %zero = cleave.constant(0 : i64) : i64
  %none = cleave.constant(unit) : none
  // expected-error @below {{aten.softmax.int needs the whole of dimension batch, so dp does not split it; use dp=1 in --mesh}}
  %0 = aten.softmax.int(%x, %zero, %none) : (!x, i64, none) -> !x
  return %0 : !x
}
