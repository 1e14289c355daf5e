// RUN: cleave-opt %s --verify-diagnostics --split-input-file
// What each attribute's verifier refuses.

// expected-error @below {{found "batch+", expected a size such as "12*batch + 1" or "?"}}
func.func private @f() attributes {d = #cleave.dim<"batch+">}

// -----

// expected-error @below {{found "1 + batch*2", expected its canonical form "2*batch + 1"}}
func.func private @f() attributes {d = #cleave.dim<"1 + batch*2">}

// -----

// expected-error @below {{found "(2*seq) floordiv 4", expected its canonical form "(seq) floordiv 2"}}
func.func private @f() attributes {d = #cleave.dim<"(2*seq) floordiv 4">}

// -----

// expected-error @below {{found "0x10", expected a size such as "12*batch + 1" or "?"}}
func.func private @f(tensor<?xf32, #cleave.layout<dims = ["0x10"]>>)

// -----

// expected-error @below {{found 'shape', expected dims or strides}}
func.func private @f(tensor<?xf32, #cleave.layout<shape = ["n"]>>)

// -----

// expected-error @below {{layout says nothing; leave it out}}
func.func private @f(tensor<4xf32, #cleave.layout<dims = []>>)

// -----

// expected-error @below {{layout has 2 entries for 1 dimensions}}
func.func private @f(tensor<?xf32, #cleave.layout<dims = ["batch", "seq"]>>)

// -----

// expected-error @below {{layout has 1 entries for 2 dimensions}}
func.func private @f(tensor<4x8xf32, #cleave.layout<strides = ["1"]>>)

// -----

// expected-error @below {{layout says "9" where the shape says 8}}
func.func private @f(tensor<?x8xf32, #cleave.layout<dims = ["batch", "9"]>>)

// -----

// expected-error @below {{layout says "batch" where the shape says 8}}
func.func private @f(tensor<8xf32, #cleave.layout<dims = ["batch"]>>)

// -----

// expected-error @below {{layout says "8" where the shape says ?}}
func.func private @f(tensor<?xf32, #cleave.layout<dims = ["8"]>>)

// -----

// expected-error @below {{found an empty mesh axis, expected pp, dp and tp of at least 1}}
func.func private @f() attributes {m = #cleave.mesh<pp = 2, tp = 0>}
