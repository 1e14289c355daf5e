//===- CleaveOps.td - Operations of the cleave dialect --------------------===//
#ifndef CLEAVE_IR_CLEAVEOPS
#define CLEAVE_IR_CLEAVEOPS

include "ir/CleaveDecisions.td"
include "mlir/IR/OpAsmInterface.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

class CleaveOp<string mnemonic, list<Trait> traits = []> : Op<CleaveDialect, mnemonic, traits>;

def ParamOp : CleaveOp<"param", [Pure]> {
  let summary = "a tensor of the model (parameter, buffer or constant), by the module path of its first use";
  let description = [{
    A name and a type, never bytes.

    - `aliases`: other paths of the same tensor (tied weights).
    - `role`: `parameter`, `buffer` or `constant`, as the input kinds of torch.export. It is not the role of an input
      (`cleave.role`).
    - `integers`: the known elements of a small integer tensor, for size arithmetic.
    - `number`: the known value of a constant 0-d floating-point tensor, for the recognition of idioms.
    - `wrapped`: the tensor is a wrapped number: it never widens the dtype of a tensor that it is combined with.
    - `shard`: sharding of the weight over a tensor-parallel group. The result type is that of the rank's shard; in a
      program for all ranks, that of rank 0's shard.
    ```mlir
    %w = cleave.param "transformer.wte.weight" {aliases = ["lm_head.weight"], role = "parameter"} : tensor<50257x768xf32>
    ```
  }];
  let arguments = (ins StrAttr:$name, OptionalAttr<StrArrayAttr>:$aliases, StrAttr:$role,
                       OptionalAttr<DenseI64ArrayAttr>:$integers, OptionalAttr<F64Attr>:$number,
                       UnitAttr:$wrapped,
                       OptionalAttr<ShardingAttr>:$shard);
  let results = (outs AnyType:$result);
  let assemblyFormat = "$name attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def ConstantOp : CleaveOp<"constant", [Pure, ConstantLike]> {
  let summary = "a scalar, string, None, device, or a list of these";
  let description = [{
    ```mlir
    %dim = cleave.constant(-1) : i64
    %none = cleave.constant(unit) : none
    %sizes = cleave.constant([1, 2]) : !cleave.list<i64>
    ```
  }];
  let arguments = (ins AnyAttr:$value);
  let results = (outs AnyType:$result);
  let assemblyFormat = "`(` $value `)` attr-dict `:` type($result)";
  let hasFolder = 1;
  let hasVerifier = 1;
}

def SizeOp : CleaveOp<"size", [Pure]> {
  let summary = "a size that depends on dynamic dimensions, whose sizes each request gives";
  let description = [{ `%n = cleave.size "12*batch"` }];
  let arguments = (ins StrAttr:$expression);
  let results = (outs I64:$result);
  let assemblyFormat = "$expression attr-dict";
  let hasVerifier = 1;
}

def PerRankOp : CleaveOp<"per_rank", [Pure]> {
  let summary = "a constant with its own value on each rank of a tensor-parallel group";
  let description = [{ `%heads = cleave.per_rank([2, 1, 2, 1]) : i64` }];
  let arguments = (ins ArrayAttr:$values);
  let results = (outs AnyType:$result);
  let assemblyFormat = "`(` $values `)` attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def FirstRankOp : CleaveOp<"first_rank", [Pure]> {
  let summary = "the operand on the first rank of a tensor-parallel group, None on the others";
  let description = [{
    `%b = cleave.first_rank %bias : (tensor<768xf32>) -> tensor<768xf32>`, for a bias that must be added to a partial sum once.
    The IR type of the result is the operand's, although the value is None on all ranks but the first.
  }];
  let arguments = (ins AnyType:$value);
  let results = (outs AnyType:$result);
  let assemblyFormat = "$value attr-dict `:` functional-type($value, $result)";
}

def ReshardOp : CleaveOp<"reshard", [Pure]> {
  let summary = "the same tensor with another sharding over a tensor-parallel group";
  let description = [{
    `%y = cleave.reshard %x {cleave.shardings = [#cleave.sharding<1, [0, 4], [4, 4]>]} : (tensor<2x8xf32>) -> tensor<2x8xf32>`
    before partition-spmd, which makes a collective of it. Without the attribute, the tensor is replicated.
  }];
  let arguments = (ins AnyType:$value);
  let results = (outs AnyType:$result);
  let assemblyFormat = "$value attr-dict `:` functional-type($value, $result)";
}

class ConstructOp<string mnemonic, string what, list<Trait> traits> : CleaveOp<mnemonic, traits> {
  let summary = what;
  let arguments = (ins Variadic<AnyType>:$elements);
  let results = (outs AnyType:$result);
  let assemblyFormat = "`(` $elements `)` attr-dict `:` functional-type($elements, $result)";
  let hasVerifier = 1;
}
// A value that is changed later has an allocation effect, so that it is neither merged with an equal one nor cloned
// into several stages.
def MayAllocate : DeclareOpInterfaceMethods<MemoryEffectsOpInterface>;
def ListOp : ConstructOp<"list", "makes a list", [MayAllocate]> { let hasFolder = 1; }
def TupleOp : ConstructOp<"tuple", "makes a tuple", [Pure]>;
def DictOp : ConstructOp<"dict", "makes a dictionary from key, value, key, value, …", [MayAllocate]>;

def UnpackOp : CleaveOp<"unpack", [DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "the items of a tuple or list of known length";
  let arguments = (ins AnyType:$aggregate);
  let results = (outs Variadic<AnyType>:$items);
  let assemblyFormat = "$aggregate attr-dict `:` functional-type($aggregate, $items)";
  let hasFolder = 1;
  let hasVerifier = 1;
}

// Not pure: it must stay if nothing reads it but an update writes it.
def ReadStateOp : CleaveOp<"read_state", [MemoryEffects<[MemWrite]>]> {
  let summary = "value of a module's state at the beginning of a request";
  let description = [{
    `initial` is the value in the first request of a session. A ranked type holds in every request; a state whose shape
    changes has no ranked type.
    ```mlir
    %h = cleave.read_state "cell.hidden" from %zeros : (tensor<4xf32>) -> tensor<4xf32>
    ```
    - `batch_dim`: the dimension that has a row for each sample of the batch, so that parts of the batch have parts of the
      state. It is named in the type, and the only one that is. `initial` has one row for all samples, or as many rows as
      the batch of each request.
    ```mlir
    %h = cleave.read_state "cell.hidden" from %zeros {batch_dim = 0 : i64}
           : (tensor<1x8xf32>) -> tensor<?x8xf32, #cleave.layout<dims = ["batch", "8"]>>
    ```
  }];
  let arguments = (ins StrAttr:$name, AnyType:$initial, OptionalAttr<I64Attr>:$batch_dim);
  let results = (outs AnyType:$result);
  let assemblyFormat = "$name `from` $initial attr-dict `:` functional-type($initial, $result)";
  let hasVerifier = 1;
}

def WriteStateOp : CleaveOp<"write_state", [MemoryEffects<[MemWrite]>]> {
  let summary = "new value of a state, from the next request on if this one succeeds";
  let description = [{
    `cleave.write_state "cell.hidden" %new : tensor<4xf32>`, in the block of the state, so that both are in one stage.
  }];
  let arguments = (ins StrAttr:$name, AnyType:$value);
  let assemblyFormat = "$name $value attr-dict `:` type($value)";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// The updated state; null in IR that the verifier refuses.
    ReadStateOp getState();
  }];
}

def AccumulateOp : CleaveOp<"accumulate", [MemoryEffects<[MemWrite]>]> {
  let summary = "adds to a sum over the micro-batches of a training step";
  let description = [{
    ```mlir
    cleave.accumulate "grad.h.0.weight" %dw : tensor<8x4xf32>
    ```
    The sum is zero when the step begins, and of the operand's type. If data-parallel ranks split the batch, the sum is over
    all of them when an operation of the phase `update` reads it. If operations of several stages add to one sum, as gradients
    of a tied weight do, each of these stages reads the sum over all of them.

    - `shard`: sharding of the sum over a tensor-parallel group, as in `cleave.param`.
  }];
  let arguments = (ins StrAttr:$name, AnyRankedTensor:$value, OptionalAttr<ShardingAttr>:$shard);
  let assemblyFormat = "$name $value attr-dict `:` type($value)";
  let hasVerifier = 1;
}

def ReadSumOp : CleaveOp<"read_sum", [MemoryEffects<[MemRead]>]> {
  let summary = "a sum over the micro-batches of a training step, in its update";
  let description = [{ `%g = cleave.read_sum "grad.h.0.weight" : tensor<8x4xf32>` }];
  let arguments = (ins StrAttr:$name, OptionalAttr<ShardingAttr>:$shard);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$name attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def WriteWeightOp : CleaveOp<"write_weight", [MemoryEffects<[MemWrite]>]> {
  let summary = "new value of a weight, from the next request on";
  let description = [{ `cleave.write_weight %weight, %new : tensor<8x4xf32>, tensor<8x4xf32>`, in an operation of the phase `update`. }];
  let arguments = (ins AnyRankedTensor:$weight, AnyRankedTensor:$value);
  let assemblyFormat = "$weight `,` $value attr-dict `:` type($weight) `,` type($value)";
  let hasVerifier = 1;
}

def UpdateWeightOp : CleaveOp<"update_weight", [MemoryEffects<[MemWrite]>]> {
  let summary = "updates a weight and its optimizer state in place";
  let description = [{
    In an operation of the phase `update`:
    ```mlir
    cleave.update_weight(%weight, %gradient, %learning_rate, %step, %grad_scale, %found_inf) {
      optimizer = #cleave.optimizer<adamw>, states = ["fc.weight.exp_avg", "fc.weight.exp_avg_sq"],
      weight_decay = 0.1 : f64, beta1 = 0.9 : f64, beta2 = 0.95 : f64, epsilon = 1.0e-8 : f64
    } : (tensor<8x4xf32>, tensor<8x4xf32>, tensor<f32>, tensor<f32>, none, tensor<f32>) -> ()
    ```
    Formulas and names are those of `torch.optim`. The weight is a `cleave.param`; the states have its type and are zero before the
    first step. `learning_rate`, `step` (its number, from 1 on), `grad_scale` (the
    gradient is divided by it; None: 1) and `found_inf` (1: no update) are float32 tensors of one element. `states`, in order: of
    sgd `momentum_buffer` if momentum is not 0; of adam and adamw `exp_avg`, `exp_avg_sq`.
  }];
  let arguments = (ins AnyRankedTensor:$weight, AnyRankedTensor:$gradient, AnyRankedTensor:$learning_rate, AnyRankedTensor:$step,
                       AnyType:$grad_scale, AnyType:$found_inf, OptimizerAttr:$optimizer, StrArrayAttr:$states,
                       DefaultValuedAttr<F64Attr, "0.0">:$weight_decay, DefaultValuedAttr<F64Attr, "0.0">:$momentum,
                       DefaultValuedAttr<F64Attr, "0.0">:$beta1, DefaultValuedAttr<F64Attr, "0.0">:$beta2,
                       DefaultValuedAttr<F64Attr, "0.0">:$epsilon, UnitAttr:$nesterov);
  let assemblyFormat = "`(` operands `)` attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def BoundaryOp : CleaveOp<"boundary", [DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "the result of a module, which can be captured";
  let description = [{
    `%y = cleave.boundary %x "transformer.h.3" output 0 : (tensor<4x128x768xf32>) -> tensor<4x128x768xf32>`: leaf 0 of what the
    module returned. `call`, from strip-boundaries: the number of that call, counted from 0. `read_only`: it shares memory that
    is written in place later, so that a new value would reach what it does not reach in the module, or less.
  }];
  let arguments = (ins AnyType:$value, StrAttr:$path, I64Attr:$index, DefaultValuedAttr<I64Attr, "0">:$call,
                       UnitAttr:$read_only);
  let results = (outs AnyType:$result);
  let assemblyFormat = "$value $path `output` $index attr-dict `:` functional-type($value, $result)";
}

def ObserveOp : CleaveOp<"observe", [DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "where a module has returned a value, for captures and hooks";
  let description = [{
    `cleave.observe %x "transformer.h.3" output 0 call 1 : tensor<4x128x768xf32>`: leaf 0 of what the module returned in its call
    number 1, counted from 0. Operations after it are those that an edit of the value reaches.

    It computes nothing and is no use of the value: passes do as if it was not there (ir/ParkedObserves.h), and it goes where the
    value goes. With `declared` it is a use, which keeps the value. `read_only`: a new value would not reach what it reaches in
    the module, or more than that. After partition-spmd, `shard` says what the ranks have of the value, whose type is `whole`;
    `partial`: the value is the sum of what they have.
  }];
  let arguments = (ins AnyType:$value, StrAttr:$path, I64Attr:$index, I64Attr:$call, UnitAttr:$declared, UnitAttr:$read_only,
                       UnitAttr:$partial, OptionalAttr<ShardingAttr>:$shard, OptionalAttr<TypeAttr>:$whole);
  let builders = [OpBuilder<(ins "::mlir::Value":$value, "llvm::StringRef":$path, "uint64_t":$index, "uint64_t":$call), [{
    build($_builder, $_state, value, path, index, call, /*declared=*/false, /*read_only=*/false, /*partial=*/false,
          ShardingAttr(), ::mlir::TypeAttr());
  }]>];
  let assemblyFormat = "$value $path `output` $index `call` $call attr-dict `:` type($value)";
  let hasVerifier = 1;
}

def YieldOp : CleaveOp<"yield", [Pure, Terminator]> {
  let summary = "ends a region with its results";
  let arguments = (ins Variadic<AnyType>:$values);
  let assemblyFormat = "($values^)? attr-dict (`:` type($values)^)?";
}

def IfOp : CleaveOp<"if", [RecursiveMemoryEffects, SingleBlock]> {
  let summary = "runs one of two regions, depending on a condition";
  let arguments = (ins I1:$condition);
  let results = (outs Variadic<AnyType>:$results);
  let regions = (region SizedRegion<1>:$thenRegion, SizedRegion<1>:$elseRegion);
  // The keyword distinguishes attributes from a region if there are no results.
  let assemblyFormat = [{
    $condition (`:` type($results)^)? attr-dict-with-keyword $thenRegion `else` $elseRegion
  }];
  let hasCanonicalizer = 1;
  let hasVerifier = 1;
}

def LoopOp : CleaveOp<"loop", [RecursiveMemoryEffects, SingleBlock]> {
  let summary = "TorchScript's loop: at most `trips` iterations, while the condition holds";
  let description = [{
    The body takes the iteration and the carried values, and yields the next condition and the carried values.
  }];
  let arguments = (ins I64:$trips, I1:$condition, Variadic<AnyType>:$inits);
  let results = (outs Variadic<AnyType>:$results);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    `(` $trips `,` $condition (`,` $inits^)? `)` attr-dict `:` functional-type($inits, $results) $body
  }];
  let hasVerifier = 1;
}

def VjpOp : CleaveOp<"vjp", [AttrSizedOperandSegments, RecursiveMemoryEffects, SingleBlock]> {
  let summary = "runs operations under PyTorch's autograd: a vector-Jacobian product";
  let description = [{
    `gradients` are the gradients of the values that the region yields (torch.autograd.grad's grad_outputs), one each; `inputs` are
    the region's arguments. Results: gradients of the leading inputs, then the yielded values.
    ```mlir
    %dx, %y = cleave.vjp(%dy) at (%x, %lengths) : (tensor<4x8xf32>) at (tensor<4x8xf32>, tensor<4xi64>)
        -> (tensor<4x8xf32>, !cleave.tensor) {
    ^bb0(%a: tensor<4x8xf32>, %b: tensor<4xi64>):
      …
      cleave.yield %y : !cleave.tensor
    }
    ```
    For operations whose backward pass is not known as IR, because it depends on data. A gradient of a value that is no tensor, or
    does not depend on the inputs, is ignored; a gradient of an input that no value depends on is zero. Besides its arguments, the
    region may use only constants and sizes.
  }];
  // `reason`: why there is no backward pass as IR.
  let arguments = (ins Variadic<AnyType>:$gradients, Variadic<AnyType>:$inputs, OptionalAttr<StrAttr>:$reason);
  let results = (outs Variadic<AnyType>:$results);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    `(` $gradients `)` `at` `(` $inputs `)` attr-dict `:` `(` type($gradients) `)` `at` `(` type($inputs) `)` `->` `(` type($results) `)` $body
  }];
  let hasVerifier = 1;
}

def StageOp : CleaveOp<"stage", [IsolatedFromAbove, SingleBlock, RecursiveMemoryEffects]> {
  let summary = "a pipeline stage in one phase: the operations that its pipeline rank runs as one program";
  let description = [{
    Operands are the values that the program receives, from the request or from other programs; results are the values that
    other programs or the caller use. Weights are parameters inside. Without `phase` it is the forward program.
    ```mlir
    %y = cleave.stage 1(%x) : …
    %dx = cleave.stage 1(%stash, %dy) {phase = #cleave.phase<backward_input>} : …
    ```
  }];
  let arguments = (ins I64Attr:$index, Variadic<AnyType>:$inputs,
                       DefaultValuedAttr<PhaseAttr, "::cleave::Phase::Forward">:$phase);
  let results = (outs Variadic<AnyType>:$results);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$index `(` $inputs `)` attr-dict `:` functional-type($inputs, $results) $body";
  let hasVerifier = 1;
}

#endif // CLEAVE_IR_CLEAVEOPS
