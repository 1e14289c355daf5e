// RUN: cleave-opt %s | cleave-opt | FileCheck %s
// Every type of the dialect reads back what it printed, nested ones too.

// CHECK-LABEL: func.func private @plain(!cleave.tensor, !cleave.str, !cleave.number, !cleave.device,
// CHECK-SAME: !cleave.generator, !cleave.any)
func.func private @plain(!cleave.tensor, !cleave.str, !cleave.number, !cleave.device, !cleave.generator, !cleave.any)

// CHECK-LABEL: func.func private @nested(!cleave.list<!cleave.optional<!cleave.tensor>>,
// CHECK-SAME: !cleave.dict<!cleave.str, tuple<!cleave.list<f64>, none>>, !cleave.optional<tensor<2xbf16>>)
func.func private @nested(!cleave.list<!cleave.optional<!cleave.tensor>>,
    !cleave.dict<!cleave.str, tuple<!cleave.list<f64>, none>>, !cleave.optional<tensor<2xbf16>>)

// The element types that stand for PyTorch's dtypes.
// CHECK-LABEL: func.func private @dtypes(
// CHECK-SAME: tensor<i1>, tensor<ui8>, tensor<i8>, tensor<i16>, tensor<i32>, tensor<i64>,
// CHECK-SAME: tensor<f16>, tensor<bf16>, tensor<f32>, tensor<f64>, tensor<f8E4M3FN>, tensor<f8E5M2>,
// CHECK-SAME: tensor<complex<f32>>, tensor<complex<f64>>)
func.func private @dtypes(
    tensor<i1>, tensor<ui8>, tensor<i8>, tensor<i16>, tensor<i32>, tensor<i64>,
    tensor<f16>, tensor<bf16>, tensor<f32>, tensor<f64>, tensor<f8E4M3FN>, tensor<f8E5M2>,
    tensor<complex<f32>>, tensor<complex<f64>>)
