// RUN: cleave-opt %s --fold-sizes --verify-diagnostics
// A dimension that was declared dynamic but is fixed by the model is reported, not folded.

!ids = tensor<?xf32, #cleave.layout<dims = ["n"]>>
func.func @fixed(%x: !ids) -> i64 attributes {cleave.symbols = {n = 6}} {
  %sizes = cleave.constant([2, 3]) : !cleave.list<i64>
  %zero = cleave.constant(0 : i64) : i64
  // expected-error-re @below {{aten.view fails at n={{[0-9]+}} (shape '[2, 3]' is invalid}}
  %0 = aten.view(%x, %sizes) : (!ids, !cleave.list<i64>) -> !cleave.tensor
  %1 = aten.size.int(%0, %zero) : (!cleave.tensor, i64) -> i64
  return %1 : i64
}
