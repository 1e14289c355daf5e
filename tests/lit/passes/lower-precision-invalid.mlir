// RUN: cleave-opt %s --lower-precision=dtype=f16 --verify-diagnostics --split-input-file

// expected-error @below {{dtype f16: no dtype for products, expected bf16}}
module {
func.func @forward(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
}
