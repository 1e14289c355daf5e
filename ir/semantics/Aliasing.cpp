//===- Aliasing.cpp - Aliasing and writes of operators --------------------===//
//
// Facts that the import of in-place operators needs and that schemas lack. The operators may have other
// entries or none.
//
//===----------------------------------------------------------------------===//
#include "ir/semantics/SemanticsTable.h"

namespace cleave {

void addAliasing(SemanticsTable &table) {
  table.set(&OpSemantics::mayReturnOperand, true,
            {"aten.type_as", "aten.atleast_1d", "aten.atleast_2d", "aten.atleast_3d", "aten.dropout",
             "aten.alpha_dropout", "aten.feature_dropout", "aten.broadcast_tensors", "aten.meshgrid",
             "aten.pad", "aten.tile"});
  table.set(&OpSemantics::splitsOperand, true,
            {"aten.chunk", "aten.split", "aten.split_with_sizes", "aten.tensor_split", "aten.unbind",
             "aten.unsafe_chunk", "aten.unsafe_split", "aten.unsafe_split_with_sizes"});
  table.set(&OpSemantics::statisticsFlag, llvm::StringLiteral("training"),
            {"aten.batch_norm", "aten.native_batch_norm", "aten.cudnn_batch_norm", "aten.miopen_batch_norm",
             "aten._batch_norm_impl_index"});
  table.set(&OpSemantics::statisticsFlag, llvm::StringLiteral("use_input_stats"), {"aten.instance_norm"});
  table.set(&OpSemantics::functionalBatchNorm,
            llvm::StringLiteral("aten._native_batch_norm_legit_functional"),
            {"aten.batch_norm", "aten.native_batch_norm"});
  table.set(&OpSemantics::declaredForm, llvm::StringLiteral("torch.embedding_renorm_"),
            {"aten._no_grad_embedding_renorm_"});
  table.set(&OpSemantics::listChange, ListChange::Append, {"aten.append.t"});
  table.set(&OpSemantics::listChange, ListChange::Extend, {"aten.extend.t", "aten.add_.t"});
  table.set(&OpSemantics::listChange, ListChange::Clear, {"aten.clear.t"});
  table.set(&OpSemantics::listChange, ListChange::Reverse, {"aten.reverse.t"});
  table.set(&OpSemantics::listChange, ListChange::SetItem, {"aten._set_item"});
  table.set(&OpSemantics::listChange, ListChange::Insert, {"aten.insert.t"});
  table.set(&OpSemantics::listChange, ListChange::Remove, {"aten.pop.t", "aten.Delete.t"});
  table.set(&OpSemantics::resultDType, ResultDType::First,
            {"aten.copy", "aten.index_put", "aten._index_put_impl", "aten.masked_fill", "aten.masked_scatter",
             "aten.index_copy", "aten.index_add", "aten.index_fill", "aten.scatter", "aten.scatter_add",
             "aten.scatter_reduce", "aten.put"});
  table.set(&OpSemantics::resultDType, ResultDType::Bool,
            {"aten.logical_and", "aten.logical_or", "aten.logical_xor", "aten.logical_not", "aten.eq",
             "aten.ne", "aten.lt", "aten.le", "aten.gt", "aten.ge", "aten.less", "aten.less_equal",
             "aten.greater", "aten.greater_equal", "aten.not_equal"});
}

} // namespace cleave
