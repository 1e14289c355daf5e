//===- Passes.td - Cleave's passes ----------------------------------------===//
#ifndef CLEAVE_PASSES_PASSES
#define CLEAVE_PASSES_PASSES

include "mlir/Pass/PassBase.td"

def InferStateRows : Pass<"infer-state-rows", "::mlir::func::FuncOp"> {
  let summary = "finds states that have a row for each sample of the batch";
  let description = [{
    ```mlir
    %h = cleave.read_state "h" from %zeros : (tensor<1x8xf32>) -> tensor<1x8xf32>
    // becomes
    %h = cleave.read_state "h" from %zeros {batch_dim = 0 : i64}
           : (tensor<1x8xf32>) -> tensor<?x8xf32, #cleave.layout<dims = ["batch", "8"]>>
    ```
    where each request leaves a row for each sample in the state, and its initial value has one row, which is then that of
    every sample, or as many as the batch of the example inputs. Changes nothing unless all states of the function are such,
    and the function, with these states, runs on parts of the batch and gives results of the same shapes: then every sample
    has its own row, and no other. Needs no types.
  }];
  let options = [Option<"batch", "batch", "std::string", "\"batch\"", "the dimension that is the batch">];
}

def InferTypes : Pass<"infer-types", "::mlir::func::FuncOp"> {
  let summary = "gives every tensor its dtype, shape and strides";
  let description = [{
    Runs the function on meta tensors, and writes the types of the results. Dynamic dimensions stay symbolic:
    ```mlir
    %y = aten.relu(%x) : (tensor<?x8xf32, #cleave.layout<dims = ["batch", "8"]>>) -> !cleave.tensor
    // becomes
    %y = aten.relu(%x) : (tensor<?x8xf32, #cleave.layout<dims = ["batch", "8"]>>)
                       -> tensor<?x8xf32, #cleave.layout<dims = ["batch", "8"]>>
    ```
    A tensor whose type depends on data stays `!cleave.tensor`. If a dimension must be a multiple of a number, or has a
    minimum or a maximum, the function gets `cleave.size_limits = {height = #cleave.size_limit<divisible_by = 4, min = 8>}`.
    Fails if the function runs at the example sizes only.

    Replaces types that are present. With `check`, for IR written by hand, present types must equal the inferred ones,
    except for strides, and the bytes of tensors must not overflow.
  }];
  let options = [Option<"check", "check", "bool", "false", "present types must equal the inferred ones">];
}

def FoldSizes : Pass<"fold-sizes", "::mlir::func::FuncOp"> {
  let summary = "replaces size arithmetic by constants and cleave.size";
  let description = [{
    ```mlir
    %n = aten.size.int(%ids, %dim0) : (tensor<?x8xi64, …dims = ["batch", "8"]>, i64) -> i64
    // becomes
    %n = cleave.size "batch"
    ```
    Folds integers, bools and lists of integers that depend only on the inputs' sizes, also through 0-d tensors. Removes
    the operations that made them if nothing uses them.
  }];
  let dependentDialects = ["::cleave::CleaveDialect"];
}

def RewriteIdioms : Pass<"rewrite-idioms", "::mlir::func::FuncOp"> {
  let summary = "replaces sequences of operators by one fused operator";
  let description = [{
    ```mlir
    %0 = aten.pow.Tensor_Scalar(%x, %three) : …
    … // 0.5 * x * (1 + tanh(0.79788456 * (x + 0.044715 * x**3)))
    %6 = aten.mul.Tensor(%1, %5) : …
    // becomes
    %6 = aten.gelu(%x, %tanh) : …
    ```
    Also root-mean-square norms (`aten.rms_norm`), softmax attention with its masks and scale
    (`aten.scaled_dot_product_attention`), grouped-query attention with repeated keys and values (its `enable_gqa`), and
    rotary positions (`aten.roll` and `aten.addcmul`). `passes/idioms` has one file per pattern, with its measured gain.
    ATen has no CPU operator that fuses an addition with its layer norm, so these stay two.

    Needs types, and constants as `number` of their `cleave.param`. An idiom is rewritten if only its result is used
    elsewhere; a pattern does not match across a boundary that is kept. Types of new intermediate results are left to infer-types.

    `only` names idioms: tanh-gelu, rms-norm, rotary, attention, grouped-attention. After partition-spmd, types
    are those of tensor-parallel rank 0, so idioms that depend on shapes must not be rewritten then. With tensor parallelism,
    RMS norms are the only idiom rewritten at that point, and not before: fused earlier, the operator would need a sharded
    width gathered.
  }];
  let options = [ListOption<"only", "only", "std::string", "only these idioms; all if empty">];
  let dependentDialects = ["::cleave::CleaveDialect"];
}

def LowerPrecision : Pass<"lower-precision", "::mlir::ModuleOp"> {
  let summary = "computes contractions in bfloat16, from weights stored in bfloat16";
  let description = [{
    Contractions of float32 tensors (`isContraction` in the op-semantics table) take and give bfloat16; all other operators
    stay in float32.
    ```mlir
    %w = cleave.param "fc.weight" {role = "parameter"} : tensor<16x8xf32>
    %y = aten.linear(%x, %w, %none) : (tensor<4x8xf32>, tensor<16x8xf32>, none) -> tensor<4x16xf32>
    // becomes
    %w = cleave.param "fc.weight" {role = "parameter"} : tensor<16x8xbf16>
    %0 = aten.to.dtype(%x, …) : … -> tensor<4x8xbf16>
    %1 = aten.linear(%0, %w, %none) : (tensor<4x8xbf16>, tensor<16x8xbf16>, none) -> tensor<4x16xbf16>
    %y = aten.to.dtype(%1, …) : … -> tensor<4x16xf32>
    ```
    A weight that a contraction uses is stored in bfloat16 for all its users: lookups cast the rows that they take, others
    cast the whole weight. Views and copies between contractions are made in bfloat16, without casts. Outer products, such
    as of positions and frequencies, masks of attention, boundaries, inputs and outputs keep their dtypes. A function
    gets `cleave.precision = "bf16"` if anything in it was lowered. A weight is stored in bfloat16 for all functions of a
    module if a contraction of any of them uses it.

    With `keep-weights`, for functions that are differentiated next: weights stay in float32, and each that contractions use gets
    one cast to bfloat16, which serves all of them, so gradients arrive in float32.

    Needs types. Leaves dead operations to canonicalize, and strides to infer-types.
  }];
  let options = [Option<"dtype", "dtype", "std::string", "\"bf16\"", "the dtype of contractions: bf16">,
                 Option<"keepWeights", "keep-weights", "bool", "false", "keep weights in float32 and cast each once for all contractions">];
  let dependentDialects = ["::cleave::CleaveDialect"];
}

def StripBoundaries : Pass<"strip-boundaries", "::mlir::func::FuncOp"> {
  let summary = "removes module boundaries that are not captured, and `aten.detach`";
  let description = [{
    `keep` holds glob patterns of module paths (`transformer.h.*`). Boundaries of other modules are replaced by their
    operands, and so is `aten.detach` (stop-gradient). With `keep-gradient-stops`, `aten.detach` stays; set it if
    `differentiate` follows.

    With `observe`, boundaries outside of control flow leave an observe, which no other pass takes for a use:
    ```mlir
    %0 = aten.relu(%x)
    %1 = cleave.boundary %0 "fc.act" output 0
    %2 = aten.tanh(%1)
    ```
    becomes
    ```mlir
    %0 = aten.relu(%x)
    cleave.observe %0 "fc.act" output 0 call 0
    %2 = aten.tanh(%0)
    ```
    It is `read_only` where later operations use the value and not the module's result. Passes take a value's observes along
    when they replace it, and drop them with a value that is fused away. Without `observe`, observes are removed.
  }];
  let options = [ListOption<"keep", "keep", "std::string", "module paths to keep, with * and ?">,
                 Option<"keepGradientStops", "keep-gradient-stops", "bool", "false", "keep aten.detach">,
                 Option<"observe", "observe", "bool", "false", "leave observes of the other modules' results">];
}

def AttachLoss : Pass<"attach-loss", "::mlir::func::FuncOp"> {
  let summary = "adds a loss of a result and a target, which is an input";
  let description = [{
    With `loss='cross_entropy(logits, labels, shift=true)'`, after infer-types:
    ```mlir
    func.func @forward(%ids: …, %labels: tensor<4x8xi64>) -> (tensor<4x8x100xf32> {cleave.name = "output.logits"})
    // becomes
    func.func @forward(%ids: …, %labels: tensor<4x8xi64>)
        -> (tensor<4x8x100xf32> {cleave.name = "output.logits"}, tensor<f32> {cleave.name = "loss"})
    ```
    The losses are those of `torch.nn.functional`, with `reduction='mean'`: `cross_entropy` (`ignore_index`,
    `label_smoothing`), `nll` (`ignore_index`), `mse`, `l1`, `smooth_l1` (`beta`), `huber` (`delta`), `kl_div` (`log_target`),
    `binary_cross_entropy`, `binary_cross_entropy_with_logits`. A result may be named by the end of its name (`logits`).

    Classes are in the last dimension of the result if the target has the sizes of the others, or in dimension 1;
    `class_dim=-1` or `class_dim=1` says so where both may be. With `shift`, for language models, the label of a position is
    the one that follows it.
  }];
  let options = [Option<"loss", "loss", "std::string", "\"\"", "NAME(RESULT, TARGET, OPTION=VALUE, …)">];
  let dependentDialects = ["::cleave::CleaveDialect"];
}

def AccumulateLoss : Pass<"accumulate-loss", "::mlir::func::FuncOp"> {
  let summary = "prepares the loss for gradient accumulation over micro-batches";
  let description = [{
    Before differentiate, where micro-batches accumulate gradients:
    ```mlir
    %loss = aten.cross_entropy_loss(%logits, %labels, %none, %reduction_mean, %ignored, %smoothing) : … -> tensor<f32>
    return %loss : tensor<f32>
    // becomes
    %counts = aten.ne.Scalar(%labels, %ignored) : …
    %count = aten.sum(%counts, %none) : …
    %sum = aten.cross_entropy_loss(%logits, %labels, %none, %reduction_sum, %ignored, %smoothing) : … -> tensor<f32>
    %is_zero = aten.eq.Scalar(%count, %zero) : …
    %safe = aten.masked_fill.Scalar(%count, %is_zero, %one) : …
    %mean = aten.div.Tensor(%sum, %safe) : …
    %normalizer = aten.to.dtype(%count, %float32, %false, %false, %none) : … -> tensor<f32>
    %term = aten.mul.Tensor(%mean, %normalizer) : …
    return %term, %normalizer : tensor<f32>, tensor<f32>
    ```
    Each micro-batch returns its loss times a normalizer, and the normalizer (a result marked `cleave.loss_normalizer`). The loss of
    the batch is the sum of the first over the sum of the second; its gradients likewise. The normalizer is: the number of labels
    that are not ignored, or the sum of their class weights; the divisor of a quotient of two sums, if it depends on inputs alone;
    the number of samples, for a mean over elements. A loss that is a sum has none.

    Sets `cleave.split_batch`, so that later passes do not analyse the batch again. Fails at the first operation that mixes samples
    in another way (batch norm in training mode). Terms that are not linear in sums and means over the batch (load-balancing losses
    of routers) are computed per micro-batch; `cleave.inexact_loss` lists them. Needs types and folded sizes; infers none.
  }];
  let options = [
    Option<"loss", "loss", "std::string", "\"\"", "name of the result that is the loss, as in differentiate">,
    Option<"batch", "batch", "std::string", "\"batch\"", "the dimension that is the batch">];
  let dependentDialects = ["::cleave::CleaveDialect"];
}

def Differentiate : Pass<"differentiate", "::mlir::func::FuncOp"> {
  let summary = "adds the gradients of a loss to the results";
  let description = [{
    ```mlir
    func.func @forward(%x: tensor<4x8xf32>) -> (tensor<f32> {cleave.name = "loss"}) {
      %w = cleave.param "w" {role = "parameter"} : tensor<16x8xf32>
      …
    // becomes
    func.func @forward(%x: tensor<4x8xf32>) -> (tensor<f32> {cleave.name = "loss"}, tensor<16x8xf32> {cleave.name = "grad.w"}) {
    ```
    Backward operations are those that PyTorch's autograd runs on the CPU, recorded operator by operator, for all sizes of
    dynamic dimensions. Each has the module path of its forward operation. A forward operation stays as it is if its backward
    pass needs only its operands and results; otherwise operators take its place that also give what the backward pass needs
    (the mask of a dropout).

    Infers and sets types; none are needed before. Gradients stop at `aten.detach`, which is removed, and at
    `cleave.read_state`. An operation whose backward pass depends on data (control flow, data-dependent
    shapes) becomes a `cleave.vjp`. Fails at an operator without a derivative, at an in-place write of a value that requires grad,
    and at a random operator that would run a second time.
  }];
  let options = [
    Option<"loss", "loss", "std::string", "\"\"", "name of the result that is the loss, or the end of its name; if empty: the only result, or else `loss`">,
    ListOption<"trainable", "trainable", "std::string", "parameters that are trained, with * and ?; all if empty">,
    ListOption<"inputs", "inputs", "std::string", "inputs whose gradients are wanted, too, with * and ?">,
    Option<"forOptimizer", "for-optimizer", "bool", "false",
           "give what add-optimizer takes: tensor-parallel ranks get gradients of their own shards of weights; other results are dropped but the loss and its normalizer">];
  let dependentDialects = ["::cleave::CleaveDialect"];
}

def KeyRandom : Pass<"key-random", "::mlir::func::FuncOp"> {
  let summary = "draws random numbers by key and index";
  let description = [{
    After differentiate, with the batch of 4 named:
    ```mlir
    func.func @forward(%x: tensor<?x8xf32, #cleave.layout<dims = ["batch", "8"]>>) {
      %1 = aten.bernoulli.p(%x, %p, %none) : … loc("dropout")
    // becomes
    func.func @forward(%x: …, %random_key: tensor<i64>, %sample_index: tensor<?xi64, #cleave.layout<dims = ["batch"]>>) {
      %rows = aten.mul.Scalar(%sample_index, %stride) : …
      %1 = random.bernoulli(%random_key, %stream, [%rows as a column, %columns], %p, %float32) : …
    ```
    Each random call is a stream of its own; each element's number follows from key, stream and its index in the whole batch.
    Bernoulli and uniform numbers are the same bits for every number of micro-batches, when recomputed, and on every device;
    normal and exponential ones are so up to rounding between devices. Needs infer-types afterwards.
  }];
  let options = [Option<"batch", "batch", "std::string", "\"\"", "dimension that micro-batches split; none if empty">];
  let dependentDialects = ["::cleave::CleaveDialect"];
}

def AccumulateGradients : Pass<"accumulate-gradients", "::mlir::func::FuncOp"> {
  let summary = "sums gradients and loss over micro-batches";
  let description = [{
    After differentiate:
    ```mlir
    func.func @forward(%x: tensor<4x8xf32>) -> (tensor<f32> {cleave.loss, cleave.name = "loss"}, tensor<16x8xf32> {cleave.name = "grad.w"}) {
      …
      return %loss, %dw : …
    // becomes
    func.func @forward(%x: tensor<4x8xf32>) -> (tensor<f32> {cleave.loss, cleave.name = "loss"}) {
      …
      cleave.accumulate "loss" %loss : tensor<f32>
      …
      cleave.accumulate "grad.w" %dw {cleave.gradient} : tensor<16x8xf32>
      return %loss : …
    ```
    The gradient of a weight with several uses is a sum of terms, each of which is added where it is made. A result marked
    `cleave.loss_normalizer` becomes a sum, too.
  }];
  let dependentDialects = ["::cleave::CleaveDialect"];
}

def AddOptimizer : Pass<"add-optimizer", "::mlir::func::FuncOp"> {
  let summary = "makes a training step of a function with sums of gradients";
  let description = [{
    After accumulate-gradients, and after assign-stages where there are stages:
    ```mlir
    func.func @forward(%x: tensor<4x8xf32>) -> (tensor<f32> {cleave.loss, cleave.name = "loss"}) {
      …
    // becomes
    func.func @forward(%x: tensor<4x8xf32>, %learning_rate: tensor<f32> {cleave.name = "learning_rate", …}, %step: tensor<f32> {cleave.name = "step", …})
        -> (tensor<f32> {cleave.loss, cleave.name = "loss"}, tensor<f32> {cleave.name = "grad_norm"}) {
      …
      %sum = cleave.read_sum "grad.w" {cleave.phase = #cleave.phase<update>} : tensor<16x8xf32>
      …
      cleave.update_weight(%w, %sum, %learning_rate, %step, %grad_scale, %found_inf) {optimizer = #cleave.optimizer<adamw>, …} : …
      return %loss, %norm : …
    ```
    Optimizers, formulas and defaults are those of `torch.optim`: `sgd` (`momentum`, `nesterov`), `adam` and `adamw` (`beta1`,
    `beta2`, `eps`), all with `weight_decay`. If the loss or the gradient norm is not finite, no weight and no optimizer state
    is updated. Where there is a sum of normalizers, loss and gradients are divided by it.

    Each stage updates the weights that it uses. Several stages add the squares of their gradients' norms to one sum, in
    operations of the phase `norm`, which their updates read.
    Needs infer-types afterwards.
  }];
  let options = [
    Option<"optimizer", "optimizer", "std::string", "\"adamw\"", "NAME or NAME(OPTION=VALUE, …)">,
    ListOption<"noDecay", "no-decay", "std::string", "weights without weight decay, with * and ?">,
    Option<"clipNorm", "clip-norm", "double", "0", "maximum global L2 norm of the gradients; 0: no clipping">,
    Option<"ranks", "ranks", "unsigned", "0", "pipeline ranks, over which stages go round robin; 0: as many as stages">];
  let dependentDialects = ["::cleave::CleaveDialect"];
}

def Recompute : Pass<"recompute", "::mlir::func::FuncOp"> {
  let summary = "recomputes activations in the backward pass";
  let description = [{
    After differentiate or accumulate-gradients, and after passes that merge equal operations:
    ```mlir
    %1 = aten.tanh(%x) : (tensor<4xf32>) -> tensor<4xf32> loc("h.0")
    %2 = aten.sin(%1) : (tensor<4xf32>) -> tensor<4xf32> loc("h.0")
    %loss = aten.sum(%2, %none) : (tensor<4xf32>, none) -> tensor<f32>
    …
    %3 = aten.cos(%1) : (tensor<4xf32>) -> tensor<4xf32> loc("h.0")
    // becomes
    %again = aten.tanh(%x) : (tensor<4xf32>) -> tensor<4xf32> loc("h.0")
    %3 = aten.cos(%again) : (tensor<4xf32>) -> tensor<4xf32> loc("h.0")
    ```
    Forward operations of a matching module whose results its backward pass reads are cloned in front of that backward pass,
    with what they need from the module. Without patterns, each item of the outermost list of modules (`h.3`) is one segment.
    Saved are inputs of a segment, values that the backward pass of another segment reads, and results of operators that draw
    from a generator.

    `kind=selective` recomputes attention scores and what is made of them alone. `kind=minimum-cut` recomputes what is cheap
    (all but contractions and random numbers), so that the fewest bytes are saved. For these what is in no list of modules is a
    segment, too. A kind, or a module, of which nothing is recomputed is listed in the attribute `cleave.not_recomputed` of the
    function.
  }];
  let options = [
    ListOption<"modules", "modules", "std::string", "paths of modules, with * and ?">,
    Option<"kind", "kind", "::cleave::RecomputeKind", "::cleave::RecomputeKind::Full", "what is recomputed of a module", [{
      ::llvm::cl::values(
        clEnumValN(::cleave::RecomputeKind::Full, "full", "all activations"),
        clEnumValN(::cleave::RecomputeKind::Selective, "selective", "attention cores"),
        clEnumValN(::cleave::RecomputeKind::MinimumCut, "minimum-cut", "cheap activations, so that the fewest bytes are saved"))
    }]>
  ];
}

def AnnotateSharding : Pass<"annotate-sharding", "::mlir::ModuleOp"> {
  let summary = "decides which weights are sharded over tensor-parallel ranks, and how";
  let description = [{
    Weights of contractions (also convolutions) and lookups get a style. Weights from which the sharding of others follows
    are seeds: they get the dimension, their order among the seeds, and `weight_only` if the sharding group is this weight
    alone.
    ```mlir
    %w = cleave.param "c_fc.weight" {cleave.weight_sharding = #cleave.weight_sharding<style = "colwise", seed = <dim = 1>>, …} : …
    %v = cleave.param "c_proj.weight" {cleave.weight_sharding = #cleave.weight_sharding<style = "rowwise">, …} : …
    ```
    `shard` holds `PATTERN=STYLE`: a glob of module or weight paths, and colwise, rowwise, embedding_rowwise or replicate, or
    torch's and transformers' names for these. The last match wins.

    With `memory`, weights whose sharding would cost more time than it saves stay replicated (`not_worth_sharding`) if
    memory allows.

    All functions of a module are decided together, as one whose collectives count as often as `cleave.frequency` of their
    functions says; a weight gets the same attributes in each of them. The first one gets `cleave.sharding_decision`.
  }];
  let options = [
    Option<"tp", "tp", "unsigned", "1", "number of tensor-parallel ranks">,
    Option<"machine", "machine", "std::string", "\"\"", "machine preset or file; cpu:<tp> if empty">,
    Option<"devices", "devices", "unsigned", "0", "number of the machine's first devices that are used; 0: all">,
    Option<"memory", "memory", "int64_t", "0",
           "bytes of a rank for weights and activations; 0: shard as much as possible">,
    ListOption<"shard", "shard", "std::string", "PATTERN=STYLE: the style of weights with these paths">
  ];
}

def PropagateSharding : Pass<"propagate-sharding", "::mlir::ModuleOp"> {
  let summary = "propagates the sharding of weights to every tensor that is sharded with them";
  let description = [{
    Propagates the seeds of `cleave.weight_sharding` through all operators, forwards and backwards, to a fixed point, and
    writes the sharding of each tensor.
    ```mlir
    %y = aten.linear(%x, %w, %b) {cleave.shardings = [#cleave.sharding<2, [0, 1536], [1536, 1536]>]} : …
    ```
    A later seed does not change tensors that earlier seeds have sharded. All functions of a module are propagated together,
    so that a weight has one sharding in all of them.
  }];
  let dependentDialects = ["::cleave::CleaveDialect"];
}

def InsertReshards : Pass<"insert-reshards", "::mlir::func::FuncOp"> {
  let summary = "inserts a cleave.reshard where an operation needs another sharding of an operand";
  let description = [{
    Afterwards each operation is either replicated on every rank, or runs on the shards of its operands and results. A sum
    over a sharded dimension needs no reshard.
  }];
  let dependentDialects = ["::cleave::CleaveDialect"];
}

def PartitionSpmd : Pass<"partition-spmd", "::mlir::func::FuncOp"> {
  let summary = "makes the program local to a tensor-parallel rank, with collectives";
  let description = [{
    ```mlir
    %w = cleave.param "c_fc.weight" … {shard = #cleave.sharding<1, [0, 1536], [1536, 1536]>} : tensor<768x1536xf32>
    %1 = spmd.all_reduce(%0) : …
    ```
    Constant sizes in calls become a value per rank (`cleave.per_rank`). A lookup in a shard of a table gives zeros for
    rows of other shards. Where the classes of a `log_softmax` or `nll_loss` are sharded, other operators replace the call
    (`shardedForm` in the op-semantics table): ranks exchange a number for each row, and the loss. Only the first rank adds the bias of a partial sum (`cleave.first_rank`). Slices are taken of the
    rank's shard. Run infer-types afterwards.
  }];
}

def OptimizeCollectives : Pass<"optimize-collectives", "::mlir::func::FuncOp"> {
  let summary = "merges all-reduces, and turns an all-reduce whose result each rank slices into a reduce-scatter";
  let description = [{
    ```mlir
    %a = spmd.all_reduce(%0) : …
    %b = spmd.all_reduce(%1) : …
    %c = aten.add.Tensor(%a, %b, %one) : …
    // becomes
    %2 = aten.add.Tensor(%0, %1, %one) : …
    %c = spmd.all_reduce(%2) : …
    ```
    All-reduces are sunk below views and additions, so that two of them can be merged. An all-reduce whose result each rank
    slices becomes `spmd.reduce_scatter`.
  }];
}

def AssignStages : Pass<"assign-stages", "::mlir::ModuleOp"> {
  let summary = "marks every operation with its pipeline stage";
  let description = [{
    Runs the stage cutter and writes the stage of each operation as attribute `cleave.stage_index`. Operations without it are
    cloned into every stage that uses them: parameters, constants, and computations too cheap to send.
    ```mlir
    %y = aten.linear(%x, %w, %b) {cleave.stage_index = 1 : i64} : …
    ```
    A *pipeline rank* is the set of all ranks with one pp coordinate. With t tensor-parallel and d data-parallel ranks,
    pipeline rank r has the machine's devices r·d·t to (r + 1)·d·t − 1. An operation costs its time on the slowest of these. If
    the machine says how much memory devices have, the weights of a stage fit its device.

    Of a function with gradients (`differentiate`) the forward pass is cut, each operation with the time
    of its backward pass, each value with the bytes of its gradient. Backward operations get the stage of their forward operation, and
    `cleave.phase`: `backward_weight` if only gradients of weights depend on them, else `backward_input`.

    All functions of a module are cut together: a weight is in the same stages for each of them, and an operation counts as
    often as `cleave.frequency` of its function says.

    Each function gets the cutter's report, `cleave.cut`:

    | field | holds |
    |---|---|
    | `seconds` | seconds of each stage, of this function alone |
    | `recv_bytes` | bytes that each stage receives |
    | `bound` | lower bound of the slowest stage's seconds over all contiguous cuts; left out if there are several functions |
    | `proof` | whether the cut is proven optimal, or why not; left out if there are several functions |
    | `weight_limit_range` | half-open range [a, b) of the weight limit of a device, in bytes, for which the cut is the same |
    | `bottleneck` | one operation that alone makes balance impossible; left out if there is none |
  }];
  let options = [
    Option<"stages", "stages", "unsigned", "1", "number of pipeline stages">,
    Option<"ranks", "ranks", "unsigned", "0", "pipeline ranks, which share the stages; 0: as many as stages">,
    Option<"dp", "dp", "unsigned", "1", "data-parallel ranks, each a pipeline on a part of the batch">,
    Option<"machine", "machine", "std::string", "\"\"", "machine preset or file; cpu:<stages> if empty">,
    Option<"memory", "memory", "int64_t", "0", "bytes of memory of each device; 0: as in the machine">,
    ListOption<"stageBefore", "stage-before", "std::string", "module paths that must begin a stage">,
    ListOption<"weightLimits", "weight-limits", "int64_t",
               "limit of each stage's bytes of weights; the memory of its device if empty">,
    Option<"steps", "steps", "int64_t", "100000000",
           "budget of the search for a faster cut than program order's, in units of work (SearchLimits::work); 0: none">
  ];
}

def AssignSchedule : Pass<"assign-schedule", "::mlir::func::FuncOp"> {
  let summary = "decides on pipeline ranks and micro-batches";
  let description = [{
    Writes the decision on the function. With several micro-batches, every operation must pass dimension `batch` through;
    an error names the first that does not.
    ```mlir
    func.func @forward(…) attributes {
      cleave.schedule = #cleave.schedule<pipeline_ranks = 2, microbatches = 4, batch = "batch",
                                         microbatch_seconds = [0.1, 0.1]>,
      cleave.target = #cleave.target<machine = "…", link = [5.0e-06, 1.0e+10], devices = ["cpu:0", "cpu:1"], threads = [1, 1]>}
    ```
    `microbatches=0` takes the number with the shortest predicted time. If the batch cannot be split, that is 1, and
    `batch_obstacle` says why. Stage s runs on pipeline rank s mod `pipeline_ranks`, so more stages than pipeline ranks are
    interleaved. Data-parallel ranks (`data_ranks`) split the batch, too; each has that many micro-batches. `order` is the
    schedule of a training step, in which the plan has its passes; without it 1f1b, or interleaved.

    | field | holds |
    |---|---|
    | `microbatch_seconds` | seconds of each stage for the largest micro-batch |
    | `machine` | a checksum of the machine |
    | `link` | latency and bytes per second between two ranks of the mesh |
    | `link_overrides` | sender, receiver, latency and bytes per second of links that differ from it |
    | `devices` | the machine's names of the devices of the mesh's ranks |
    | `threads` | number of threads of each |
    | `memory_limits` | bytes of memory of each, 0 for no limit; left out if none has a limit |
  }];
  let options = [
    Option<"ranks", "ranks", "unsigned", "1", "number of pipeline ranks">,
    Option<"dp", "dp", "unsigned", "1", "data-parallel ranks, each a pipeline on a part of the batch">,
    Option<"microbatches", "microbatches", "unsigned", "1",
           "parts of the batch, or of a data-parallel rank's part; 0: the best number">,
    Option<"batch", "batch", "std::string", "\"batch\"", "the dimension to split">,
    Option<"machine", "machine", "std::string", "\"\"", "machine preset or file; cpu:<ranks> if empty">,
    Option<"order", "order", "std::string", "\"\"", "of a training step: gpipe, 1f1b, interleaved or zb-h1; chosen if empty">
  ];
}

def SplitStages : Pass<"split-stages", "::mlir::func::FuncOp"> {
  let summary = "moves the operations of each stage into a cleave.stage";
  let description = [{
    ```mlir
    %h = aten.relu(%x) {cleave.stage_index = 0 : i64} : …
    %y = aten.tanh(%h) {cleave.stage_index = 1 : i64} : …
    // becomes
    %h = cleave.stage 0(%x) : (…) -> … { ^bb0(%a: …): … cleave.yield %0 : … }
    %y = cleave.stage 1(%h) : (…) -> … { ^bb0(%a: …): … cleave.yield %0 : … }
    ```
    Operations without a stage are cloned into each stage that uses them. Every operand must come from the same or an
    earlier stage.
  }];
  let dependentDialects = ["::cleave::CleaveDialect"];
}

def PrintShardingGroups : Pass<"print-sharding-groups", "::mlir::ModuleOp"> {
  let summary = "prints the sharding group of each dimension of each weight";
  let description = [{
    Prints a block for each sharding group: the number of its parts, the weights that are sharded with it, and the
    collectives that it needs: all-reduces of partial sums (with addends that must be added on one rank only), operands that
    must be gathered, results that must be resharded, and sharded outputs. Changes nothing; for tests and debugging.
  }];
}

#endif // CLEAVE_PASSES_PASSES
