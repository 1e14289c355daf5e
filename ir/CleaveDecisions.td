//===- CleaveDecisions.td - What passes decide, as attributes -------------===//
//
// A pass leaves what it has decided as one attribute, for the passes behind it and for the plan. docs/ir.md has
// a table of them.
//
//===----------------------------------------------------------------------===//
#ifndef CLEAVE_IR_CLEAVEDECISIONS
#define CLEAVE_IR_CLEAVEDECISIONS

include "ir/CleaveBase.td"

/// An attribute that stands on an operation under its own name, `cleave.<mnemonic>`, which the dialect verifies.
/// Read it with `decisionOf<T>(op)`.
class DecisionAttr<string name, string attrMnemonic> : CleaveAttr<name, attrMnemonic> {
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

/// Doubles whose text gives the same doubles again; the printer of `DenseF64ArrayAttr` keeps seven digits.
def ExactNumbers : AttrOrTypeParameter<"::mlir::DenseF64ArrayAttr", ""> {
  let parser = "::cleave::parseExactNumbers($_parser)";
  let printer = "::cleave::printExactNumbers($_printer, $_self)";
}
def OptionalExactNumbers : OptionalParameter<"::mlir::DenseF64ArrayAttr"> {
  let parser = "::cleave::parseExactNumbers($_parser)";
  let printer = "::cleave::printExactNumbers($_printer, $_self)";
}

def SizeLimitAttr : CleaveAttr<"SizeLimit", "size_limit"> {
  let summary = "the sizes of a dynamic dimension at which the model runs";
  let description = [{
    infer-types leaves a dictionary of these on the function, by the dimension's name:
    `cleave.size_limits = {height = #cleave.size_limit<divisible_by = 4, min = 8>}`. Sizes are multiples of `divisible_by`
    from `min` to `max`, with the other dimensions as in the example inputs.
  }];
  let parameters = (ins DefaultValuedParameter<"int64_t", "1">:$divisible_by, DefaultValuedParameter<"int64_t", "1">:$min,
                        DefaultValuedParameter<"int64_t", "std::numeric_limits<int64_t>::max()">:$max);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def SeedAttr : CleaveAttr<"Seed", "seed"> {
  let summary = "the dimension of a weight from which a sharding group is propagated";
  let description = [{
    `order`: how many seeds of the function come before this one. `weight_only`: the sharding group is this weight alone; the
    results of its operators are gathered at once.
  }];
  let parameters = (ins "int64_t":$dim, DefaultValuedParameter<"int64_t", "0">:$order,
                        DefaultValuedParameter<"bool", "false">:$weight_only);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def WeightShardingAttr : DecisionAttr<"WeightSharding", "weight_sharding"> {
  let summary = "how annotate-sharding shards a weight over the tensor-parallel ranks";
  let description = [{
    On `cleave.param`: `cleave.weight_sharding = #cleave.weight_sharding<style = "colwise", seed = <dim = 0>>`. `style` is
    `colwise`, `rowwise`, `embedding_rowwise` or `replicate`. `seed` stands on the weights that others follow.
    `user_constraint`: the user asked for the style. `not_worth_sharding`: the weight stays replicated because sharding it
    would cost more time than it saves.
  }];
  let parameters = (ins OptionalParameter<"::mlir::StringAttr">:$style, OptionalParameter<"::cleave::SeedAttr">:$seed,
                        DefaultValuedParameter<"bool", "false">:$user_constraint,
                        DefaultValuedParameter<"bool", "false">:$not_worth_sharding);
}

def ShardingGroupAttr : CleaveAttr<"ShardingGroup", "sharding_group"> {
  let summary = "a sharding group: the tensor dimensions that are sharded together";
  let description = [{
    `path`: the innermost module that contains all its weights; empty for the model. `parts`: number of labels that are
    distributed over the ranks, such as heads. `weights`: the names of its weights. `all_reduces` and `all_gathers`: its numbers
    of all-reduces, and of all-gathers and reshards, before they are merged.
  }];
  let parameters = (ins "::mlir::StringAttr":$path, "int64_t":$parts, "::mlir::ArrayAttr":$weights, "int64_t":$all_reduces,
                        "int64_t":$all_gathers);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def ShardingDecisionAttr : DecisionAttr<"ShardingDecision", "sharding_decision"> {
  let summary = "what annotate-sharding has decided for a function";
  let description = [{
    `groups`: the sharding groups, as `#cleave.sharding_group`. `seconds`: two numbers, the seconds of this sharding's
    collectives and a lower bound of those seconds over all shardings of these weights. `memory_limit_range`: half-open range
    [a, b) of the option `memory`, in bytes, for which annotate-sharding decides the same; left out if the decision is the same
    for every limit.
  }];
  let parameters = (ins "::mlir::ArrayAttr":$groups, ExactNumbers:$seconds,
                        OptionalParameter<"::mlir::DenseI64ArrayAttr">:$memory_limit_range);
}

def CutAttr : DecisionAttr<"Cut", "cut"> {
  let summary = "the report of the stage cutter";
  let description = [{
    assign-stages sets this on the function. Per stage: `seconds` (predicted) and `recv_bytes` (from other stages). `bound`:
    lower bound of the slowest stage's seconds over all contiguous cuts. `proof`: whether the cut is proven optimal, or why
    not. `bottleneck`: an operation that alone takes longer than a balanced stage. `weight_limit_range`: half-open range [a, b)
    of the weight limit of a device, in bytes, for which the cut is the same.
  }];
  let parameters = (ins ExactNumbers:$seconds, "::mlir::DenseI64ArrayAttr":$recv_bytes,
                        OptionalExactNumbers:$bound, OptionalParameter<"::mlir::StringAttr">:$proof,
                        OptionalParameter<"::mlir::StringAttr">:$bottleneck,
                        OptionalParameter<"::mlir::DenseI64ArrayAttr">:$weight_limit_range);
}

def ScheduleAttr : DecisionAttr<"Schedule", "schedule"> {
  let summary = "how many pipeline and data-parallel ranks run a function, and in how many micro-batches";
  let description = [{
    assign-schedule sets this on the function. The order of passes is not in it: it is made with the plan (plan::Schedule).
    `pipeline_ranks`: number of pipeline ranks (pp). `data_ranks`: number of data-parallel ranks (dp). `microbatches`: number
    for each data-parallel rank. `order`: that of a training step (gpipe, 1f1b, interleaved, zb-h1; without it 1f1b).
    `batch`: the dynamic dimension that micro-batches and data-parallel ranks split, or else
    `batch_obstacle`: why none is split. `microbatch_seconds`: per stage, for the largest micro-batch.
  }];
  let parameters = (ins "int64_t":$pipeline_ranks, DefaultValuedParameter<"int64_t", "1">:$data_ranks,
                        DefaultValuedParameter<"int64_t", "1">:$microbatches, OptionalParameter<"::mlir::StringAttr">:$batch,
                        OptionalParameter<"::mlir::StringAttr">:$batch_obstacle,
                        OptionalExactNumbers:$microbatch_seconds, OptionalParameter<"::mlir::StringAttr">:$order);
}

def LinkOverrideAttr : CleaveAttr<"LinkOverride", "link_override"> {
  let summary = "a link between two ranks of the mesh (not pipeline ranks) whose speed differs from `link`";
  let parameters = (ins "int64_t":$from, "int64_t":$to, ExactNumbers:$speed);
  let assemblyFormat = "`<` $from `->` $to `,` $speed `>`";
  let genVerifyDecl = 1;
}

def TargetAttr : DecisionAttr<"Target", "target"> {
  let summary = "the machine that a schedule was made for";
  let description = [{
    assign-schedule sets this on the function. `machine`: a checksum of the machine. `link`: latency in seconds and bytes per
    second between two ranks of the mesh; `link_overrides`: those of links that differ, as `#cleave.link_override`. Per rank
    of the mesh: names of the `devices`, how many `threads` each has, and `memory_limits` in bytes, 0 for a device without a
    limit.
  }];
  let parameters = (ins OptionalParameter<"::mlir::StringAttr">:$machine, OptionalExactNumbers:$link,
                        OptionalParameter<"::mlir::ArrayAttr">:$link_overrides, OptionalParameter<"::mlir::ArrayAttr">:$devices,
                        OptionalParameter<"::mlir::DenseI64ArrayAttr">:$threads,
                        OptionalParameter<"::mlir::DenseI64ArrayAttr">:$memory_limits);
}

#endif // CLEAVE_IR_CLEAVEDECISIONS
