// RUN: cleave-opt %s --assign-stages=stages=2 --verify-diagnostics
// A state that is updated with what the whole model makes leaves nothing to cut.

// expected-error @below {{1 operator does not fill 2 stages; use --mesh pp=1; state h keeps 4 operations in one stage}}
func.func @f(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %h0 = cleave.param "h" {role = "buffer"} : tensor<64x64xf32>
  %h = cleave.read_state "h" from %h0 : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %0 = aten.mm(%x, %h) : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %1 = aten.mm(%0, %x) : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  cleave.write_state "h" %1 : tensor<64x64xf32>
  return %1 : tensor<64x64xf32>
}
