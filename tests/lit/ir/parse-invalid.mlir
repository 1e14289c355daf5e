// RUN: not cleave-opt --split-input-file %s 2>&1 | FileCheck %s
// A name that one function uses is defined in another, which does not parse: MLIR 19's parser then writes to freed
// memory, and crashes at the part that follows.

// CHECK: error: custom op 'nonsense' is unknown
// CHECK-NOT: Stack dump
func.func @uses() {
  return %0, %1, %2, %3, %4, %5, %6, %7 : i64, i64, i64, i64, i64, i64, i64, i64
}
func.func @defines() {
  %0 = cleave.constant(0 : i64) : i64
  %1 = cleave.constant(1 : i64) : i64
  %2 = cleave.constant(2 : i64) : i64
  %3 = cleave.constant(3 : i64) : i64
  %4 = cleave.constant(4 : i64) : i64
  %5 = cleave.constant(5 : i64) : i64
  %6 = cleave.constant(6 : i64) : i64
  %7 = cleave.constant(7 : i64) : i64
  nonsense
}
// -----
func.func @next() {
  %0 = cleave.constant(0 : i64) : i64
  %1 = cleave.constant(1 : i64) : i64
  %2 = cleave.constant(2 : i64) : i64
  %3 = cleave.constant(3 : i64) : i64
  %4 = cleave.constant(4 : i64) : i64
  %5 = cleave.constant(5 : i64) : i64
  %6 = cleave.constant(6 : i64) : i64
  %7 = cleave.constant(7 : i64) : i64
  return
}
