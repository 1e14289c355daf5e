//===- Passes.td - Cleave's passes ----------------------------------------===//
#ifndef CLEAVE_PASSES_PASSES
#define CLEAVE_PASSES_PASSES

include "mlir/Pass/PassBase.td"

def InferTypes : Pass<"infer-types", "::mlir::func::FuncOp"> {
  let summary = "gives every tensor its dtype, shape and strides";
  let description = [{
    Runs the function on tensors without data, and writes the types of the results. Named dimensions stay names:
    ```mlir
    %y = aten.relu(%x) : (tensor<?x8xf32, #cleave.layout<dims = ["batch", "8"]>>) -> !cleave.tensor
    // becomes
    %y = aten.relu(%x) : (tensor<?x8xf32, #cleave.layout<dims = ["batch", "8"]>>)
                       -> tensor<?x8xf32, #cleave.layout<dims = ["batch", "8"]>>
    ```
    A tensor whose type only data decides stays `!cleave.tensor`. Where the function runs only at multiples of a
    number, or from a size on, or up to one, the function gets
    `cleave.size_limits = {height = #cleave.size_limit<divisible_by = 4, min = 8>}`. Fails where it runs at the traced
    sizes and at no others.

    Types that are there already are replaced. With `check`, for text that somebody wrote, they must equal what
    operators give, except for strides, and tensors must have sizes whose bytes can be counted.
  }];
  let options = [Option<"check", "check", "bool", "false", "types that are there must be those that operators give">];
}

def FoldSizes : Pass<"fold-sizes", "::mlir::func::FuncOp"> {
  let summary = "replaces size arithmetic by constants and cleave.size";
  let description = [{
    ```mlir
    %n = aten.size.int(%ids, %dim0) : (tensor<?x8xi64, …dims = ["batch", "8"]>, i64) -> i64
    // becomes
    %n = cleave.size "batch"
    ```
    Integers, bools and lists of integers that depend on the inputs' sizes alone are folded, also through 0-d tensors.
    Operations that made them are removed when nothing uses them.
  }];
  let dependentDialects = ["::cleave::CleaveDialect"];
}

def RewriteIdioms : Pass<"rewrite-idioms", "::mlir::func::FuncOp"> {
  let summary = "replaces sequences of operators by the one that does the same";
  let description = [{
    ```mlir
    %0 = aten.pow.Tensor_Scalar(%x, %three) : …
    … // 0.5 * x * (1 + tanh(0.79788456 * (x + 0.044715 * x**3)))
    %6 = aten.mul.Tensor(%1, %5) : …
    // becomes
    %6 = aten.gelu(%x, %tanh) : …
    ```
    Also root-mean-square norms (`aten.rms_norm`), softmax attention with its masks and scale
    (`aten.scaled_dot_product_attention`), keys and values that are repeated for their query heads (its `enable_gqa`), and
    rotary positions (`aten.roll` and `aten.addcmul`). One file a pattern in `passes/idioms`, each with the gain that was
    measured. ATen has no operator for a sum and its layer norm on CPU, so these stay two.

    Needs types, and constants as `number` of their `cleave.param`. An idiom is rewritten where only its result is
    used elsewhere; boundaries that are kept end it. Types of new intermediate results are left to infer-types.

    `only` names idioms: tanh-gelu, rms-norm, rotary, attention, grouped-attention. In the program of tensor-parallel
    ranks, whose types are the first rank's, idioms that depend on shapes must not be rewritten; norms are rewritten only
    there, since before the split their operator would need a split width whole.
  }];
  let options = [ListOption<"only", "only", "std::string", "these alone; all where empty">];
  let dependentDialects = ["::cleave::CleaveDialect"];
}

def LowerPrecision : Pass<"lower-precision", "::mlir::func::FuncOp"> {
  let summary = "computes products in bfloat16, from weights stored in bfloat16";
  let description = [{
    Products of float32 matrices, as the op-semantics table marks them, take and give bfloat16; all else stays in float32.
    ```mlir
    %w = cleave.param "fc.weight" {role = "parameter"} : tensor<16x8xf32>
    %y = aten.linear(%x, %w, %none) : (tensor<4x8xf32>, tensor<16x8xf32>, none) -> tensor<4x16xf32>
    // becomes
    %w = cleave.param "fc.weight" {role = "parameter"} : tensor<16x8xbf16>
    %0 = aten.to.dtype(%x, …) : … -> tensor<4x8xbf16>
    %1 = aten.linear(%0, %w, %none) : (tensor<4x8xbf16>, tensor<16x8xbf16>, none) -> tensor<4x16xbf16>
    %y = aten.to.dtype(%1, …) : … -> tensor<4x16xf32>
    ```
    A weight that a product uses is stored in bfloat16 for all its users: lookups cast the rows that they take, others
    cast the whole weight. Views and copies between products are made in bfloat16, without casts. Products that sum
    nothing (outer products, as of positions and frequencies), masks of attention, boundaries, inputs and outputs keep
    their dtypes. A function in which something was lowered gets `cleave.precision = "bf16"`.

    Needs types. Leaves dead operations to canonicalize, and strides to infer-types.
  }];
  let options = [Option<"dtype", "dtype", "std::string", "\"bf16\"", "the dtype of products: bf16">];
  let dependentDialects = ["::cleave::CleaveDialect"];
}

def StripBoundaries : Pass<"strip-boundaries", "::mlir::func::FuncOp"> {
  let summary = "removes module boundaries that nobody asked to capture";
  let description = [{
    `keep` holds glob patterns of module paths (`transformer.h.*`); boundaries of other modules are replaced by their
    operand.
  }];
  let options = [ListOption<"keep", "keep", "std::string", "module paths to keep, with * and ?">];
}

def AnnotateSharding : Pass<"annotate-sharding", "::mlir::func::FuncOp"> {
  let summary = "says which weights are split over tensor-parallel ranks, and how";
  let description = [{
    Weights of products, convolutions and lookups get a style. Weights from which the split of others follows are seeds:
    they get the dimension, and their order among the seeds (`ends`: the sharding ends at the weight).
    ```mlir
    %w = cleave.param "c_fc.weight" {cleave.weight_sharding = #cleave.weight_sharding<style = "colwise", seed = <dim = 1>>, …} : …
    %v = cleave.param "c_proj.weight" {cleave.weight_sharding = #cleave.weight_sharding<style = "rowwise">, …} : …
    ```
    `shard` holds `PATTERN=STYLE`: globs of module or weight paths, and colwise, rowwise, embedding_rowwise or replicate, or
    the names that torch and transformers have for these. The last match counts.

    With `memory`, weights whose split would cost more time than it saves stay whole (`not_worth_sharding`), as far as memory
    allows.
  }];
  let options = [
    Option<"tp", "tp", "unsigned", "1", "number of tensor-parallel ranks">,
    Option<"machine", "machine", "std::string", "\"\"", "machine preset or file; cpu:<tp> where empty">,
    Option<"devices", "devices", "unsigned", "0", "how many of the machine's devices are used, the first ones; 0: all">,
    Option<"memory", "memory", "int64_t", "0",
           "bytes that a rank has for weights and values; 0: a rank holds as little as possible">,
    ListOption<"shard", "shard", "std::string", "PATTERN=STYLE: the style of weights with these paths">
  ];
}

def PropagateSharding : Pass<"propagate-sharding", "::mlir::func::FuncOp"> {
  let summary = "propagates the split of weights to every tensor that is split with them";
  let description = [{
    Follows the seeds of `cleave.weight_sharding` through all operators, both ways, to a fixed point, and writes what the ranks have of each tensor.
    ```mlir
    %y = aten.linear(%x, %w, %b) {cleave.shardings = [#cleave.sharding<2, [0, 1536], [1536, 1536]>]} : …
    ```
    A later seed leaves what earlier ones have split as it is.
  }];
  let dependentDialects = ["::cleave::CleaveDialect"];
}

def InsertReshards : Pass<"insert-reshards", "::mlir::func::FuncOp"> {
  let summary = "puts a cleave.reshard where an operation needs other parts than there are";
  let description = [{
    Afterwards each operation is done either whole on every rank, or in the parts that its operands and results have. A
    sum over a split dimension is no conflict.
  }];
  let dependentDialects = ["::cleave::CleaveDialect"];
}

def PartitionSpmd : Pass<"partition-spmd", "::mlir::func::FuncOp"> {
  let summary = "makes the program local to a rank, with collectives";
  let description = [{
    ```mlir
    %w = cleave.param "c_fc.weight" … {shard = #cleave.sharding<1, [0, 1536], [1536, 1536]>} : tensor<768x1536xf32>
    %1 = spmd.all_reduce(%0) : …
    ```
    Sizes that are numbers in calls get a value for each rank (`cleave.per_rank`). Lookups in a part of a table give
    zeros for other rows. What is added to a sum is added by the first rank (`cleave.first_rank`). Slices are taken of
    what the rank has. Run infer-types afterwards.
  }];
}

def PlaceCollectives : Pass<"place-collectives", "::mlir::func::FuncOp"> {
  let summary = "merges sums over ranks, and gives a rank only the part of a sum that it uses";
  let description = [{
    ```mlir
    %a = spmd.all_reduce(%0) : …
    %b = spmd.all_reduce(%1) : …
    %c = aten.add.Tensor(%a, %b, %one) : …
    // becomes
    %2 = aten.add.Tensor(%0, %1, %one) : …
    %c = spmd.all_reduce(%2) : …
    ```
    Sums move behind views, and in front of other terms, to meet other sums. A sum of which each rank takes a part
    becomes `spmd.reduce_scatter`.
  }];
}

def AssignStages : Pass<"assign-stages", "::mlir::func::FuncOp"> {
  let summary = "marks every operation with its pipeline stage";
  let description = [{
    Runs the stage cutter and writes the stage of each operation as attribute `cleave.stage`. Operations without it are
    made in every stage that uses them: parameters, constants, and computations too cheap to send.
    ```mlir
    %y = aten.linear(%x, %w, %b) {cleave.stage = 1 : i64} : …
    ```
    Pipeline rank r is on the machine's device r; with t tensor-parallel and d data-parallel ranks, on d·t devices from
    r·d·t on. Operations cost what they take on the slowest of these, and no stage has more weights than its device has
    memory, where the machine says that. The function gets the cutter's report, `cleave.cut`: by stage the predicted
    `seconds` and the `recv_bytes` from other stages, and

    | field | holds |
    |---|---|
    | `bound` | seconds that the slowest stage takes in any contiguous cut |
    | `proof` | whether the cut is exact, or why not |
    | `weight_limits` | the least memory of a device with which the cut is this one, and the next with which it may be another |
    | `bottleneck` | an operation that alone makes balance impossible, where there is one |
  }];
  let options = [
    Option<"stages", "stages", "unsigned", "1", "number of pipeline stages">,
    Option<"ranks", "ranks", "unsigned", "0", "pipeline ranks, which share the stages; 0: as many as stages">,
    Option<"dp", "dp", "unsigned", "1", "data-parallel ranks, each a pipeline on a part of the batch">,
    Option<"machine", "machine", "std::string", "\"\"", "machine preset or file; cpu:<stages> where empty">,
    Option<"memory", "memory", "int64_t", "0", "bytes of memory of a device, in place of what the machine says; 0: what it says">,
    ListOption<"stageBefore", "stage-before", "std::string", "module paths that must begin a stage">,
    ListOption<"weightLimits", "weight-limits", "int64_t",
               "bytes of weights that each stage may hold; what its device has where empty">,
    Option<"steps", "steps", "int64_t", "100000000",
           "steps of the search for a faster cut than program order's; 0: none">
  ];
}

def AssignSchedule : Pass<"assign-schedule", "::mlir::func::FuncOp"> {
  let summary = "decides on ranks and micro-batches";
  let description = [{
    Writes the decision on the function. With several micro-batches every operation must pass dimension `batch` through;
    the error names the first that does not.
    ```mlir
    func.func @forward(…) attributes {
      cleave.schedule = #cleave.schedule<ranks = 2, microbatches = 4, batch = "batch", microbatch_seconds = [0.1, 0.1]>,
      cleave.target = #cleave.target<machine = "…", link = [5.0e-06, 1.0e+10], devices = ["cpu:0", "cpu:1"], threads = [1, 1]>}
    ```
    `microbatches=0` takes the number whose predicted time is least; where the batch cannot be split that is 1, and
    `batch_obstacle` says why. Stage s runs on rank s mod ranks, so more stages than ranks are interleaved. Several
    data-parallel ranks (`data_ranks`) split the batch too; each has that many micro-batches.

    | field | holds |
    |---|---|
    | `microbatch_seconds` | seconds of each stage for the largest micro-batch |
    | `machine` | a checksum of the machine |
    | `link` | latency and bytes a second between two ranks |
    | `link_overrides` | sender, receiver, latency and bytes a second of links that differ |
    | `devices` | the machine's names of the ranks' devices |
    | `threads` | how many threads each has |
    | `memory_limits` | how many bytes each has, 0 for one without a limit; left out where none has a limit |
  }];
  let options = [
    Option<"ranks", "ranks", "unsigned", "1", "number of ranks">,
    Option<"dp", "dp", "unsigned", "1", "data-parallel ranks, each a pipeline on a part of the batch">,
    Option<"microbatches", "microbatches", "unsigned", "1",
           "parts of the batch, or of a data-parallel rank's part; 0: the best number">,
    Option<"batch", "batch", "std::string", "\"batch\"", "the dimension to split">,
    Option<"machine", "machine", "std::string", "\"\"", "machine preset or file; cpu:<ranks> where empty">
  ];
}

def SplitStages : Pass<"split-stages", "::mlir::func::FuncOp"> {
  let summary = "moves the operations of each stage into a cleave.stage";
  let description = [{
    ```mlir
    %h = aten.relu(%x) {cleave.stage = 0 : i64} : …
    %y = aten.tanh(%h) {cleave.stage = 1 : i64} : …
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
  let summary = "prints what splitting each dimension of each weight entails";
  let description = [{
    Prints a block for each class: the number of its parts, what is split with it, and what that costs: sums of which
    each rank has a part (with the operands that only one rank may add), operands that must be gathered, results that
    are made split in one dimension and wanted in another, and split outputs. Changes nothing; for tests and debugging.
  }];
}

#endif // CLEAVE_PASSES_PASSES
