// RUN: not cleave-opt %s --assign-stages=stages=3 2>&1 | FileCheck %s --check-prefix=FEW
// RUN: not cleave-opt %s --assign-stages='stages=1 stage-before=b' 2>&1 | FileCheck %s --check-prefix=FIXED
// RUN: not cleave-opt %s --assign-stages='stages=2 machine=gpu:2' 2>&1 | FileCheck %s --check-prefix=MACHINE
// What cannot be met is said with what could be.

// FEW: error: stage cut: 2 operators do not fill 3 stages; use --mesh pp=2 or fewer
// FIXED: error: stage cut: the --stage-before options make 2 stages, 1 were asked for
// MACHINE: error: machine 'gpu:2': no such preset or file
func.func @forward(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = aten.relu(%x) : (tensor<2xf32>) -> tensor<2xf32> loc("a")
  %1 = aten.tanh(%0) : (tensor<2xf32>) -> tensor<2xf32> loc("b")
  return %1 : tensor<2xf32>
}
