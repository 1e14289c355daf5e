//===- Passes.td - Cleave's passes ----------------------------------------===//
#ifndef CLEAVE_PASSES_PASSES
#define CLEAVE_PASSES_PASSES

include "mlir/Pass/PassBase.td"

def InferTypes : Pass<"infer-types", "::mlir::func::FuncOp"> {
  let summary = "gives every tensor its dtype, shape and strides";
  let description = [{
    Runs the function on tensors without data and writes down what came out. Named dimensions stay names:
    ```mlir
    %y = aten.relu(%x) : (tensor<?x8xf32, #cleave.layout<dims = ["batch", "8"]>>) -> !cleave.tensor
    // becomes
    %y = aten.relu(%x) : (tensor<?x8xf32, #cleave.layout<dims = ["batch", "8"]>>)
                       -> tensor<?x8xf32, #cleave.layout<dims = ["batch", "8"]>>
    ```
    A tensor that only data decides stays `!cleave.tensor`. Where the function works at multiples of a number only, that
    becomes `cleave.multiples = {height = 4}`; where it works from a size on or up to one, `cleave.least = {height = 8}` or
    `cleave.most`. Fails where it works at the traced sizes but not at others.

    Types that are there already give way to what operators give. With `check`, as of text that somebody wrote, they must be
    the same but for strides, and tensors must have sizes whose bytes can be counted.
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
    Whatever integer, bool or list of integers depends on the inputs' sizes alone is folded, also through 0-d tensors;
    what made it is removed once nobody uses it.
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

    Needs types, and constants as `number` of their `cleave.param`. An idiom is rewritten where nobody takes anything of
    it but its result; boundaries that are kept end it. Types of new intermediate results are left to infer-types.

    `only` names idioms: tanh-gelu, rms-norm, rotary, attention, grouped-attention. Those that ask for shapes must not be
    rewritten in the program of tensor ranks, whose types are the first rank's; norms, which would want a split width whole,
    only there.
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
    A weight that a product uses is stored in bfloat16 for all: lookups cast the rows they take, other users the whole.
    Between products, views and copies are taken in bfloat16, without casts. Products that sum nothing (outer products,
    as of positions and frequencies), masks of attention, boundaries, inputs and outputs keep their dtypes. A function
    of which something was lowered gets `cleave.precision = "bf16"`.

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
  let summary = "says which weights are split over tensor ranks, and how";
  let description = [{
    Weights of products, convolutions and lookups get a style; those from which the split of the others follows get the
    dimension, and the order in which they count (`cleave.split_cut`: the class ends at the weight).
    ```mlir
    %w = cleave.param "c_fc.weight" {cleave.split = 1 : i64, cleave.split_order = 0 : i64, cleave.style = "colwise", …} : …
    %v = cleave.param "c_proj.weight" {cleave.style = "rowwise", …} : …
    ```
    `shard` holds `PATTERN=STYLE`: globs of module or weight paths, and colwise, rowwise, embedding_rowwise or replicate, or
    the names that torch and transformers have for these. The last match counts.

    With `memory`, weights whose split would cost more time than it saves stay whole (`cleave.dear`) as far as there is
    room.
  }];
  let options = [
    Option<"tp", "tp", "unsigned", "1", "ranks of the tensor group">,
    Option<"machine", "machine", "std::string", "\"\"", "machine preset or file; cpu:<tp> where empty">,
    Option<"devices", "devices", "unsigned", "0", "of the machine, from its first on, that are used; 0: all">,
    Option<"memory", "memory", "int64_t", "0",
           "bytes that a rank has for weights and values; 0: it is to hold as little as can be">,
    ListOption<"shard", "shard", "std::string", "PATTERN=STYLE: what weights of these paths must be">
  ];
}

def PropagateSharding : Pass<"propagate-sharding", "::mlir::func::FuncOp"> {
  let summary = "from split weights to every tensor that is split with them";
  let description = [{
    Follows `cleave.split` through all operators, both ways, to a fixed point, and writes what the ranks have of each tensor.
    ```mlir
    %y = aten.linear(%x, %w, %b) {cleave.shardings = [#cleave.sharding<2, [0, 1536], [1536, 1536]>]} : …
    ```
    What split weights before it have split is left as it is.
  }];
  let dependentDialects = ["::cleave::CleaveDialect"];
}

def ResolveConflicts : Pass<"resolve-conflicts", "::mlir::func::FuncOp"> {
  let summary = "puts a cleave.reshard where an operation needs other parts than there are";
  let description = [{
    Afterwards each operation either is done whole on every rank, or in the parts that its operands and results have. A sum
    over a split dimension is no conflict.
  }];
  let dependentDialects = ["::cleave::CleaveDialect"];
}

def PartitionSpmd : Pass<"partition-spmd", "::mlir::func::FuncOp"> {
  let summary = "makes the program what each rank does, with collectives";
  let description = [{
    ```mlir
    %w = cleave.param "c_fc.weight" … {shard = #cleave.sharding<1, [0, 1536], [1536, 1536]>} : tensor<768x1536xf32>
    %1 = spmd.all_reduce(%0) : …
    ```
    Sizes that calls say in numbers become each rank's (`cleave.per_rank`), lookups in a part of a table give zeros for other
    rows, what is added to a sum is added by the first rank (`cleave.first_rank`), slices are taken of what the rank has. Run
    infer-types afterwards.
  }];
}

def PlaceCollectives : Pass<"place-collectives", "::mlir::func::FuncOp"> {
  let summary = "merges sums over ranks, and gives ranks that take a part of a sum no more";
  let description = [{
    ```mlir
    %a = spmd.all_reduce(%0) : …
    %b = spmd.all_reduce(%1) : …
    %c = aten.add.Tensor(%a, %b, %one) : …
    // becomes
    %2 = aten.add.Tensor(%0, %1, %one) : …
    %c = spmd.all_reduce(%2) : …
    ```
    Sums move behind views, and in front of what else is added, to meet others. A sum of which each rank takes a part becomes spmd.reduce_scatter.
  }];
}

def AssignStages : Pass<"assign-stages", "::mlir::func::FuncOp"> {
  let summary = "marks every operation with its pipeline stage";
  let description = [{
    Asks the stage cutter and writes its answer as attribute `cleave.stage`. Operations without one are made in every
    stage that uses them: parameters, constants, and computations too cheap to send.
    ```mlir
    %y = aten.linear(%x, %w, %b) {cleave.stage = 1 : i64} : …
    ```
    Rank r of the pipeline is on the machine's device r, or, of t tensor ranks in each of d data ranks, on d·t devices from
    r·d·t on: operations cost what they take on the slowest of these, and no stage has more weights than its device has
    memory, where the machine says that.
    The function gets the cutter's account: `cleave.stage_seconds`, `cleave.stage_recv_bytes`, `cleave.cut_bound` (seconds
    that the slowest stage takes in any contiguous cut), `cleave.cut_proof` (whether the cut is exact, or why not),
    `cleave.cut_limits` (the least memory of a device with which the cut is this one, and the next with which it may be another),
    and `cleave.bottleneck` where one operation alone makes balance impossible.
  }];
  let options = [
    Option<"stages", "stages", "unsigned", "1", "number of pipeline stages">,
    Option<"ranks", "ranks", "unsigned", "0", "of the pipeline, which share the stages; 0: as many as stages">,
    Option<"dp", "dp", "unsigned", "1", "data ranks, each a pipeline on a part of the batch">,
    Option<"machine", "machine", "std::string", "\"\"", "machine preset or file; cpu:<stages> where empty">,
    Option<"memory", "memory", "int64_t", "0", "bytes of memory of a device, in place of what the machine says; 0: that">,
    ListOption<"stageBefore", "stage-before", "std::string", "module paths that must begin a stage">,
    ListOption<"weightLimits", "weight-limits", "int64_t",
               "bytes of weights that each stage may hold; what its device has where empty">,
    Option<"steps", "steps", "int64_t", "100000000",
           "of the search for a faster cut than program order has; 0: none">
  ];
}

def AssignSchedule : Pass<"assign-schedule", "::mlir::func::FuncOp"> {
  let summary = "decides on ranks, micro-batches and the order of work";
  let description = [{
    Writes the decision on the function. With more than one micro-batch every operation must pass dimension `batch`; the
    first that does not is an error that names it.
    ```mlir
    func.func @forward(…) attributes {cleave.batch = "batch", cleave.microbatches = 4 : i64, cleave.ranks = 2 : i64}
    ```
    `microbatches=0` takes the number whose predicted time is least; where the batch does not split that is 1, and
    `cleave.batch_obstacle` says why. Stage s runs on rank s mod ranks, so that more stages than ranks are interleaved. Of
    several data ranks (`cleave.data_ranks`), which take every operation to pass the dimension as well, each has so many
    micro-batches.
    `cleave.microbatch_seconds` has what each stage computes for the largest micro-batch, `cleave.link` the latency and the
    bytes a second between two ranks, `cleave.unlike_links` sender, receiver, latency and bytes a second of those that the
    machine says otherwise of, `cleave.devices` what the machine calls the ranks' devices, `cleave.threads` how many
    threads each has, `cleave.memory_limits` how many bytes, 0 for one without a limit, where there is one with, `cleave.machine`
    a checksum of all that the machine says.
  }];
  let options = [
    Option<"ranks", "ranks", "unsigned", "1", "number of ranks">,
    Option<"dp", "dp", "unsigned", "1", "data ranks, each a pipeline on a part of the batch">,
    Option<"microbatches", "microbatches", "unsigned", "1",
           "parts of the batch, or of a data rank's part; 0: the best number">,
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

def PrintSplitClasses : Pass<"print-split-classes", "::mlir::ModuleOp"> {
  let summary = "prints what splitting each dimension of each weight entails";
  let description = [{
    A block a class, with the number of its parts, what is split with it, and what that owes: sums of which each rank has a
    part (with the operands that only one rank may add), operands that must be gathered, results that are made split in one
    dimension and wanted in another, and split outputs. Changes nothing; for tests and for looking.
  }];
}

#endif // CLEAVE_PASSES_PASSES
