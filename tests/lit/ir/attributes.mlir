// RUN: cleave-opt %s | cleave-opt | FileCheck %s
// Every attribute of the dialect reads back what it printed.

// CHECK-LABEL: func.func private @dims() attributes {
// CHECK-SAME: a = #cleave.dim<"batch">, b = #cleave.dim<"12*batch*seq + seq - 1">,
// CHECK-SAME: c = #cleave.dim<"(seq + 1) floordiv 2">, d = #cleave.dim<"-3">, e = #cleave.dim<"?">}
func.func private @dims() attributes {
  a = #cleave.dim<"batch">, b = #cleave.dim<"12*batch*seq + seq - 1">,
  c = #cleave.dim<"(seq + 1) floordiv 2">, d = #cleave.dim<"-3">, e = #cleave.dim<"?">}

// CHECK-LABEL: func.func private @named(tensor<?x8xf32, #cleave.layout<dims = ["batch", "8"]>>)
func.func private @named(tensor<?x8xf32, #cleave.layout<dims = ["batch", "8"]>>)

// CHECK-LABEL: func.func private @strided(tensor<4x8xf32, #cleave.layout<strides = ["1", "4"]>>)
func.func private @strided(tensor<4x8xf32, #cleave.layout<strides = ["1", "4"]>>)

// CHECK-LABEL: func.func private @both(
// CHECK-SAME: tensor<?x8xf32, #cleave.layout<dims = ["batch", "8"], strides = ["1", "batch"]>>)
func.func private @both(tensor<?x8xf32, #cleave.layout<dims = ["batch", "8"], strides = ["1", "batch"]>>)

// Data decides the size: it has no name.
// CHECK-LABEL: func.func private @unknown(tensor<?xf32, #cleave.layout<dims = ["?"]>>)
func.func private @unknown(tensor<?xf32, #cleave.layout<dims = ["?"]>>)

// CHECK-LABEL: func.func private @meshes() attributes {
// CHECK-SAME: full = #cleave.mesh<pp = 4, dp = 2, tp = 8>, one = #cleave.mesh<>, stages = #cleave.mesh<pp = 4>}
func.func private @meshes() attributes {
  full = #cleave.mesh<pp = 4, dp = 2, tp = 8>, one = #cleave.mesh<>, stages = #cleave.mesh<pp = 4>}
