// RUN: cleave-opt %s --strip-boundaries=keep=h.[] --verify-diagnostics
// A pattern that is none is named.

// expected-error @below {{pattern "h.[]": invalid glob pattern, unmatched '['}}
func.func @forward(%x: tensor<2xf32>) -> tensor<2xf32> {
  return %x : tensor<2xf32>
}
