// RUN: cleave-opt %s --split-input-file --accumulate-loss --verify-diagnostics
// What keeps gradients of micro-batches from adding up to those of the batch.

#rows = #cleave.layout<dims = ["batch", "5"]>
func.func @statistics(%x: tensor<?x5xf32, #rows> {cleave.name = "x"}) -> (tensor<f32> {cleave.name = "loss"})
    attributes {cleave.symbols = {batch = 4 : i64}} {
  %none = cleave.constant(unit) : none
  %one = cleave.constant(1 : i64) : i64
  %dims = cleave.constant([0]) : !cleave.list<i64>
  %no = cleave.constant(false) : i1
  %mean = aten.mean.dim(%x, %dims, %no, %none) : (tensor<?x5xf32, #rows>, !cleave.list<i64>, i1, none) -> tensor<5xf32>
  // expected-error@+1 {{aten.sub.Tensor is not linear in sums and means over dimension batch, so gradients of micro-batches do not add up to those of the batch; use --microbatches 1}}
  %0 = aten.sub.Tensor(%x, %mean, %one) : (tensor<?x5xf32, #rows>, tensor<5xf32>, i64) -> tensor<?x5xf32, #rows>
  %1 = aten.mean(%0, %none) : (tensor<?x5xf32, #rows>, none) -> tensor<f32>
  return %1 : tensor<f32>
}

// -----

#rows = #cleave.layout<dims = ["batch", "5"]>
func.func @root(%x: tensor<?x5xf32, #rows> {cleave.name = "x"}) -> (tensor<f32> {cleave.name = "loss"})
    attributes {cleave.symbols = {batch = 4 : i64}} {
  %none = cleave.constant(unit) : none
  %0 = aten.mean(%x, %none) : (tensor<?x5xf32, #rows>, none) -> tensor<f32>
  // expected-error@+1 {{aten.sqrt is not linear in sums and means over dimension batch}}
  %1 = aten.sqrt(%0) : (tensor<f32>) -> tensor<f32>
  return %1 : tensor<f32>
}

// -----

#rows = #cleave.layout<dims = ["batch", "5"]>
func.func @pairs(%x: tensor<?x5xf32, #rows> {cleave.name = "x"}, %y: tensor<?xf32, #cleave.layout<dims = ["batch"]>> {cleave.name = "y"})
    -> (tensor<f32> {cleave.name = "loss"}) attributes {cleave.symbols = {batch = 4 : i64}} {
  %none = cleave.constant(unit) : none
  %how = cleave.constant(1 : i64) : i64
  %dims = cleave.constant([1]) : !cleave.list<i64>
  %yes = cleave.constant(true) : i1
  %0 = aten.mean.dim(%x, %dims, %yes, %none) : (tensor<?x5xf32, #rows>, !cleave.list<i64>, i1, none) -> tensor<?x1xf32, #cleave.layout<dims = ["batch", "1"]>>
  // expected-error@+1 {{aten.mse_loss reduces over dimension batch}}
  %1 = aten.mse_loss(%0, %y, %how) : (tensor<?x1xf32, #cleave.layout<dims = ["batch", "1"]>>, tensor<?xf32, #cleave.layout<dims = ["batch"]>>, i64) -> tensor<f32>
  return %1 : tensor<f32>
}

// -----

#rows = #cleave.layout<dims = ["batch", "5"]>
// expected-error@+1 {{the model has a loss that adds a term to a sum over the batch that is not a sum over dimension batch}}
func.func @sum_and_weights(%x: tensor<?x5xf32, #rows> {cleave.name = "x"}) -> (tensor<f32> {cleave.name = "loss"})
    attributes {cleave.symbols = {batch = 4 : i64}} {
  %w = cleave.param "w" {role = "parameter"} : tensor<5xf32>
  %none = cleave.constant(unit) : none
  %one = cleave.constant(1 : i64) : i64
  %0 = aten.sum(%x, %none) : (tensor<?x5xf32, #rows>, none) -> tensor<f32>
  %1 = aten.sum(%w, %none) : (tensor<5xf32>, none) -> tensor<f32>
  %2 = aten.add.Tensor(%0, %1, %one) : (tensor<f32>, tensor<f32>, i64) -> tensor<f32>
  return %2 : tensor<f32>
}

// -----

#rows = #cleave.layout<dims = ["batch", "5"]>
func.func @two_means(%x: tensor<?x5xf32, #rows> {cleave.name = "x"}, %a: tensor<?xi64, #cleave.layout<dims = ["batch"]>> {cleave.name = "a"},
                     %b: tensor<?xi64, #cleave.layout<dims = ["batch"]>> {cleave.name = "b"})
    -> (tensor<f32> {cleave.name = "loss"}) attributes {cleave.symbols = {batch = 4 : i64}} {
  %none = cleave.constant(unit) : none
  %one = cleave.constant(1 : i64) : i64
  %ignored = cleave.constant(-100 : i64) : i64
  %smoothing = cleave.constant(0.0 : f64) : f64
  %0 = aten.cross_entropy_loss(%x, %a, %none, %one, %ignored, %smoothing) : (tensor<?x5xf32, #rows>, tensor<?xi64, #cleave.layout<dims = ["batch"]>>, none, i64, i64, f64) -> tensor<f32>
  // expected-error@+1 {{aten.cross_entropy_loss is a mean over other elements than another term of the loss, both over dimension batch}}
  %1 = aten.cross_entropy_loss(%x, %b, %none, %one, %ignored, %smoothing) : (tensor<?x5xf32, #rows>, tensor<?xi64, #cleave.layout<dims = ["batch"]>>, none, i64, i64, f64) -> tensor<f32>
  %2 = aten.add.Tensor(%0, %1, %one) : (tensor<f32>, tensor<f32>, i64) -> tensor<f32>
  return %2 : tensor<f32>
}

// -----

#rows = #cleave.layout<dims = ["batch", "5"]>
func.func @running(%x: tensor<?x5xf32, #rows> {cleave.name = "x"}) -> (tensor<f32> {cleave.name = "loss"})
    attributes {cleave.symbols = {batch = 4 : i64}} {
  %none = cleave.constant(unit) : none
  %one = cleave.constant(1 : i64) : i64
  %init = cleave.param "seen" {role = "buffer"} : tensor<f32>
  // expected-error@+1 {{"seen" would pass from part to part of dimension batch}}
  %seen = cleave.read_state "seen" from %init : (tensor<f32>) -> tensor<f32>
  %0 = aten.mean(%x, %none) : (tensor<?x5xf32, #rows>, none) -> tensor<f32>
  %1 = aten.add.Tensor(%seen, %0, %one) : (tensor<f32>, tensor<f32>, i64) -> tensor<f32>
  cleave.write_state "seen" %1 : tensor<f32>
  return %0 : tensor<f32>
}
